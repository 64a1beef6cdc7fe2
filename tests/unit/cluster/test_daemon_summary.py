"""A heartbeat carries a short status of each daemon, which is enough to judge the node by."""

import msgspec
import pytest

from ringrift.cluster.activity import Activity
from ringrift.cluster.daemon_summary import _STATUSES_MAX, DaemonSummary, summarize
from ringrift.cluster.roster import NodeRecord
from ringrift.kernel.health import Health, Status
from ringrift.supervision.status import DaemonFailure, DaemonStatus

LONG = "x" * 10_000


def report(name: str, status: Status = Status.HEALTHY, **changes: object) -> DaemonStatus:
    """Return the supervisor's report of one daemon."""
    health = Health(part=name, status=status, reason="" if status is Status.HEALTHY else "because", since=2.0)
    return DaemonStatus(**{"name": name, "health": health, "since": 1.0, "ready": True} | changes)


def test_a_summary_lists_each_status_without_its_history() -> None:
    """State, health with reason and time, counts and the last error are the same; the history is left out."""
    status = report("fill", Status.DEGRADED, category="training", runs=7, failures=2, restarts=1, last_error="no")
    long = msgspec.structs.replace(status, history=(DaemonFailure(time=1.0, error="no"),))

    assert summarize([long]) == DaemonSummary(statuses=(status,))


def test_running_and_failed_daemons_are_counted_by_their_state() -> None:
    """A daemon that ended with an error counts as failed until it runs again."""
    states = ("running", "failed", "pausing", "waiting", "stopped", "resting")
    summary = summarize([report(state, state=state) for state in states])

    assert (summary.running, summary.failed) == (1, ("failed", "pausing", "waiting"))


def test_the_summary_in_a_beat_is_bounded() -> None:
    """Long texts are cut; of many daemons the critical ones and the worst are included, and the rest are counted."""
    wordy = msgspec.structs.replace(report("a"), health=Health(part="a", status=Status.DEGRADED, reason=LONG))
    many = [report(str(number)) for number in range(_STATUSES_MAX)]
    bad, critical = report("bad", Status.UNHEALTHY), report("critical", critical=True)

    summary = summarize([*many, msgspec.structs.replace(wordy, last_error=LONG), bad, critical])

    assert len(summary.statuses) == _STATUSES_MAX
    assert summary.more == 3
    assert {"a", "bad", "critical"} <= set(summary.names())
    assert len(msgspec.json.encode(summary)) < 150 * _STATUSES_MAX


def test_an_unusable_plug_in_is_reported_and_takes_no_commands() -> None:
    """It has a health and no report."""
    broken = Health(part="plugin x", status=Status.UNHEALTHY, reason="cannot be used")

    summary = summarize([report("a")], [Health(part="a", status=Status.HEALTHY), broken])

    assert [(status.name, status.state, status.health.status) for status in summary.statuses] == [
        ("a", "running", Status.HEALTHY),
        ("plugin x", "unusable", Status.UNHEALTHY),
    ]
    assert summary.names() == ["a"]
    assert [part.part for part in summary.health()] == ["a", "plugin x"]


@pytest.mark.parametrize(
    ("state", "status", "alive", "ready"),
    [
        ("running", Status.HEALTHY, True, True),
        ("running", Status.DEGRADED, True, True),
        ("running", Status.UNKNOWN, True, False),
        ("failed", Status.UNHEALTHY, False, False),
        ("resting", Status.UNKNOWN, False, False),
    ],
)
def test_critical_daemons_decide_whether_a_node_lives_and_is_ready(
    state: str, status: Status, alive: bool, ready: bool
) -> None:
    """The result equals the supervisor's own; if no critical daemon was started, it is unknown."""
    summary = summarize([report("beat", status, critical=True, state=state), report("other", Status.UNHEALTHY)])

    assert (bool(summary.liveness()), bool(summary.readiness())) == (alive, ready)
    assert bool(summary.readiness().reasons) != ready


def test_a_node_without_reports_is_not_healthy() -> None:
    """Unknown is not healthy."""
    assert not DaemonSummary().liveness()
    assert DaemonSummary().readiness().reasons == ("reports no critical daemon",)


def test_a_record_survives_the_store() -> None:
    """The statuses go through the store with the record of their node."""
    record = NodeRecord(
        id="n1", profile="full", address="/b", beat=7, activity=Activity(daemons=summarize([report("a")]))
    )

    assert msgspec.json.decode(msgspec.json.encode(record), type=NodeRecord) == record
