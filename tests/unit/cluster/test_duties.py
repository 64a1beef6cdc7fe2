"""With its beat a node says a few words of each daemon, and what it says is enough to tell how it is."""

import msgspec
import pytest

from ringrift.cluster.activity import Doing
from ringrift.cluster.duties import DUTIES_MAX, Duties, Duty, duties
from ringrift.cluster.roster import NodeRecord
from ringrift.kernel.health import Health, Status
from ringrift.supervision.report import DaemonReport

LONG = "x" * 10_000


def report(name: str, status: Status = Status.HEALTHY, **changes: object) -> DaemonReport:
    """What the supervisor knows of one daemon."""
    told = {"category": "core", "critical": False, "group": "", "state": "running", "since": 1.0, "ready": True}
    health = Health(part=name, status=status, reason="" if status is Status.HEALTHY else "because", since=2.0)
    return DaemonReport(**{"name": name, "health": health} | told | changes)


def test_a_duty_has_what_a_person_asks_for() -> None:
    """State, health with reason and since when, counts, and the last error."""
    told = report("fill", Status.DEGRADED, category="training", runs=7, failures=2, restarts=1, last_error="no")

    assert duties([told]) == Duties(shown=(
        Duty(name="fill", category="training", state="running", status="degraded", reason="because", since=2.0, runs=7,
             failures=2, restarts=1, error="no"),
    ))  # fmt: skip


def test_what_goes_with_a_beat_has_an_end() -> None:
    """Long words are cut; of many daemons the critical ones and the worst go, and the rest are counted."""
    wordy = msgspec.structs.replace(report("a"), health=Health(part="a", status=Status.DEGRADED, reason=LONG))
    many = [report(str(number)) for number in range(DUTIES_MAX)]
    bad, critical = report("bad", Status.UNHEALTHY), report("critical", critical=True)

    found = duties([*many, msgspec.structs.replace(wordy, last_error=LONG), bad, critical])

    assert len(found.shown) == DUTIES_MAX
    assert found.more == 3
    assert {"a", "bad", "critical"} <= set(found.names())
    assert len(msgspec.json.encode(found)) < 150 * DUTIES_MAX


def test_a_plug_in_that_cannot_be_used_is_told_and_takes_no_orders() -> None:
    """It has a health and no report."""
    broken = Health(part="plugin x", status=Status.UNHEALTHY, reason="cannot be used")

    found = duties([report("a")], [Health(part="a", status=Status.HEALTHY), broken])

    assert [(duty.name, duty.state, duty.status) for duty in found.shown] == [
        ("a", "running", "healthy"),
        ("plugin x", "unusable", "unhealthy"),
    ]
    assert found.names() == ["a"]
    assert [one.part for one in found.health()] == ["a", "plugin x"]


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
    """As the supervisor itself would say; where no critical daemon was started, nothing is known."""
    found = duties([report("beat", status, critical=True, state=state), report("other", Status.UNHEALTHY)])

    assert (bool(found.liveness()), bool(found.readiness())) == (alive, ready)
    assert bool(found.readiness().reasons) != ready


def test_a_node_that_says_nothing_is_not_well() -> None:
    """Unknown is not healthy."""
    assert not Duties().liveness()
    assert Duties().readiness().reasons == ("says nothing of its critical daemons",)


def test_the_record_of_an_older_node_is_read() -> None:
    """It has no duties, and everything else."""
    old = b'{"id":"n1","profile":"full","address":"/b","beat":7,"doing":{"daemons":3,"failing":["x"]}}'

    found = msgspec.json.decode(old, type=NodeRecord)

    assert found.doing == Doing(daemons=3, failing=("x",))
    assert msgspec.json.decode(msgspec.json.encode(found), type=NodeRecord) == found
