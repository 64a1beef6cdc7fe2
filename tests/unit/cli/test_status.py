"""Status shows what each node does, and every alert that is open."""

from ringrift.cli.commands.alerts import alert_line
from ringrift.cli.commands.status import _LISTED_MAX, _as_text, _does
from ringrift.cluster.activity import Activity, _RunningJob
from ringrift.cluster.alerts import Alert
from ringrift.cluster.daemon_summary import DaemonSummary
from ringrift.cluster.roster import NodeRecord, NodeState
from ringrift.kernel.health import Health, Status
from ringrift.pipeline.system_health import SystemHealth
from ringrift.supervision.status import DaemonStatus

NOW = 10_000.0
IDLE = Activity()
TRAIN = _RunningJob(job="j", kind="train", variant="hex8_2p", since=0.0, done=0.4)


def state(*, activity: Activity = IDLE, gone: bool = False, alerts: int = 0) -> dict[str, object]:
    """A cluster of one node."""
    node = NodeRecord(id="n1", profile="full", address="/blobs", beat=1, gone=gone, activity=activity)
    open_alerts = [
        Alert(kind="daemon", subject=f"n1/{number}", level="severe", detail="no", since=NOW - 90.0, count=3)
        for number in range(alerts)
    ]
    health = SystemHealth(score=1.0, status=Status.HEALTHY, parts=())
    empty: dict[str, object] = {
        name: [] for name in ("run_states", "lines", "claimed", "dead", "roles", "deliveries", "breakers", "faults")
    }
    states = {"n1": NodeState.LEFT if gone else NodeState.ALIVE}
    empty |= {"position": 7, "tally": {}, "nodes": [node], "node_states": states, "spreads": {}}
    return empty | {"alerts": open_alerts, "health": health}


def test_a_node_shows_what_it_does() -> None:
    """Each job with its kind, its variant and how far it is; the rest is counted, and what fails is named."""
    failed = tuple(
        DaemonStatus(name=name, state="failed", health=Health(part=name, status=Status.UNHEALTHY))
        for name in ("fill", "measure_queues")
    )
    busy = Activity(jobs=(TRAIN,), more=2, daemons=DaemonSummary(statuses=failed))

    assert _does(busy) == "train hex8_2p 40 %, 2 more, FAILING: fill measure_queues"
    assert _does(IDLE) == "idle"
    assert "train hex8_2p 40 %" in _as_text(state(activity=Activity(jobs=(TRAIN,))), NOW)
    assert "left" in _as_text(state(activity=Activity(jobs=(TRAIN,)), gone=True), NOW)


def test_daemons_that_settings_forbid_are_named() -> None:
    """The node, the daemons and what to do; a node that has left and one that forbids nothing have no such line."""
    health = Health(part="fill", status=Status.UNKNOWN)
    off = tuple(DaemonStatus(name=name, state="resting", health=health, disabled=True) for name in ("fill", "rate"))
    activity = Activity(daemons=DaemonSummary(statuses=(*off, DaemonStatus(name="work", health=health))))

    text = _as_text(state(activity=activity), NOW)

    assert "off by settings on node n1: fill, rate (take them out of node.disabled_daemons" in text
    assert "off by settings" not in _as_text(state(activity=activity, gone=True), NOW)
    assert "off by settings" not in _as_text(state(), NOW)


def test_what_is_wrong_names_the_alerts() -> None:
    """With level, subject, reason, since when and how often; without any, nothing is wrong."""
    text = _as_text(state(alerts=1), NOW)

    assert "severe: daemon n1/0: no, since " in text
    assert "(1 min 30 s ago, 3 times)" in text
    assert "problems: none" in _as_text(state(), NOW)


def test_many_alerts_do_not_fill_the_screen() -> None:
    """So many are shown; who wants them all is told where they are."""
    text = _as_text(state(alerts=_LISTED_MAX + 5), NOW)

    assert text.count("severe: daemon") == _LISTED_MAX
    assert "… and 5 more alerts (all: ringrift alerts)" in text


def test_an_alert_that_is_over_says_so() -> None:
    """With the time at which it was cleared."""
    over = Alert(kind="disk", subject="n", level="info", detail="", since=NOW, until=NOW + 5.0)

    assert "disk n: no detail, since " in alert_line(over, NOW)
    assert ", cleared " in alert_line(over, NOW)
