"""The one health: every part that is unwell lowers the score and is named with what to do; nothing is outweighed."""

from typing import Any

import pytest

from ringrift.cluster.alerts import Alert
from ringrift.cluster.recovery import ErrorReport
from ringrift.kernel.breaker import BreakerState
from ringrift.kernel.health import Health, Status
from ringrift.pipeline import system_health as rules
from ringrift.pipeline.system_health import _PARTS, HealthFacts, SystemHealth
from ringrift.supervision.status import DaemonStatus
from ringrift.work.breakers import StoredBreaker
from ringrift.work.pressure import QueuePressure
from ringrift.work.run_states import RunState

N1 = Health(part="n1", status=Status.HEALTHY)


def daemon(name: str, status: Status = Status.HEALTHY, state: str = "running", critical: bool = False) -> DaemonStatus:
    """A daemon."""
    health = Health(part=name, status=status, reason="given up: no disk" if state == "failed" else "")
    return DaemonStatus(name=name, state=state, health=health, critical=critical)


def judged(**facts: Any) -> SystemHealth:
    """The health of a system that is well but for these *facts*."""
    return rules.judge(HealthFacts(**{"nodes": (N1,), "daemons": {"n1": (daemon("beat"),)}} | facts))


def part_of(health: SystemHealth, name: str) -> Health | None:
    """The health of the part *name*; None if it is outside the score."""
    return next((part for part in health.parts if part.part == name), None)


def status_of(part: str, **facts: Any) -> Status | None:
    """The status of *part* in that system; None if it is outside the score."""
    health = part_of(judged(**facts), part)
    return health and health.status


def brake(state: str, scope: str = "cluster") -> dict[str, Any]:
    return {"run_states": (RunState(scope=scope, state=state, by="anna", reason="upgrade", since=5.0),)}


def alert(kind: str, subject: str, detail: str) -> dict[str, Any]:
    return {"alerts": (Alert(kind=kind, subject=subject, level="severe", detail=detail),)}


def queue(level: str, name: str = "export") -> dict[str, Any]:
    fields = {"queue": name, "depth": 100, "level": level, "trend": "rising", "drain_seconds": None, "since": 5.0}
    return {"pressures": (QueuePressure(**fields),)}


def breaker(subject: str, state: BreakerState = BreakerState.OPEN) -> dict[str, Any]:
    return {"breakers": (StoredBreaker(subject=subject, state=state, error="no loss"),)}


def daemons(*rows: DaemonStatus) -> dict[str, Any]:
    return {"daemons": {"n1": rows}}


SILENT = Health(part="n2", status=Status.UNHEALTHY, reason="no heartbeat for 15 s")
ERROR = ErrorReport(id="1", component="trainer", error="no loss", severity="error", node="n1", time=5.0)
WAITING = DaemonStatus(
    name="rate", state="waiting", health=Health(part="rate", status=Status.HEALTHY, reason="no room")
)
UNWELL: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "an emergency": ("jobs", brake("emergency"), "cluster is in emergency (by anna; upgrade)", "ringrift resume"),
    "a pause": ("jobs", brake("paused"), "cluster is paused", "ringrift resume"),
    "a stage": ("jobs", brake("stopped", "stage:train"), "stage:train is stopped", "ringrift resume --stage train"),
    "a buried job": (
        *("jobs", alert("work_buried", "hex8_2p/train", "no loss")),
        *("hex8_2p/train: no loss", "ringrift why hex8_2p"),
    ),
    "an error": (
        *("jobs", {"errors": (ERROR,)}),
        *("1 errors reported in the last hour, last: trainer: no loss", "correct what reports them"),
    ),
    "a severe alert": ("jobs", alert("daemon", "n1/fill", "no"), "alert daemon n1/fill: no", "ringrift alerts"),
    "a stuck slot": ("slots", {"stuck": {"train:x": "train on n9"}}, "on n9 shows no sign of life", "rescue"),
    "a queue at stop": ("queues", queue("stop"), "pressure is stop: 100 wait, rising", "ringrift join"),
    "a queue at hard": ("queues", queue("hard"), "pressure is hard", "drains by itself"),
    "an open breaker": ("breakers", breaker("stage:train"), "open: no loss", "the next success closes it"),
    "a lapsed reader": ("readers", {"lapsed": ("mine",)}, "has lapsed", "ringrift readers forget mine"),
    "a dead letter": (
        *("dead_letters", {"deliveries": {("mine", "dead"): 2}}),
        *("2 deliveries were abandoned", "ringrift dlq list"),
    ),
    "a parked delivery": (
        *("dead_letters", {"deliveries": {("mine", "parked"): 1}}),
        *("1 deliveries wait for a retry", "ringrift dlq list"),
    ),
    "a failed daemon": (
        *("daemons", daemons(daemon("beat"), daemon("rate", Status.UNHEALTHY, "failed"), daemon("fill"))),
        *("given up: no disk", "ringrift daemons clear rate --node n1"),
    ),
    "a stopped daemon": (
        *("daemons", daemons(daemon("beat"), daemon("rate", Status.UNKNOWN, "stopped"), daemon("fill"))),
        *("unknown", "ringrift daemons start rate --node n1"),
    ),
    "a silent node": ("nodes", {"nodes": (N1, SILENT)}, "no heartbeat for 15 s", "ringrift join"),
    "no node": ("nodes", {"nodes": ()}, "no node is running", "ringrift run"),
    "lost data": ("blobs", alert("data_lost", "hex8_2p", "gone"), "data lost: gone", "ringrift alerts"),
    "too few copies": ("blobs", {"thin": {"hex8_2p": 3}}, "3 files have too few copies", "start a node"),
    "a full disk": ("store", daemons(WAITING, WAITING), "no room", "free disk space"),
}


@pytest.mark.parametrize("name", UNWELL)
def test_each_fault_lowers_the_score_and_is_named_with_what_to_do(name: str) -> None:
    """Below healthy, with one issue that has the part, the reason and the remedy."""
    part, facts, reason, remedy = UNWELL[name]

    health = judged(**facts)

    assert health.score < rules.HEALTHY_FROM
    assert health.status is not Status.HEALTHY
    [issue] = health.issues
    assert issue.part.partition("/")[0] == part
    assert [row.part for row in health.parts if row.status is not Status.HEALTHY] == [part]
    [sentence] = health.reasons()
    assert reason in sentence
    assert remedy in issue.remedy
    assert issue.remedy in sentence


def test_a_system_without_faults_has_every_point() -> None:
    """Ten healthy parts, or fewer where some are not built: a part that nothing runs does not count."""
    well = judged()
    assert (well.score, well.status, well.issues, well.off) == (1.0, Status.HEALTHY, (), ())
    assert [part.part for part in well.parts] == list(_PARTS)
    fewer = judged(daemons={})
    assert (fewer.score, fewer.status, fewer.off) == (1.0, Status.HEALTHY, ("daemons",))
    assert part_of(fewer, "daemons") is None
    alone = rules.judge(HealthFacts(nodes=(N1,)), ("nodes", "daemons"))
    assert [part.part for part in alone.parts] == ["nodes"]
    assert rules.judge(HealthFacts(), ("daemons",)).score == 0.0


def test_queues_that_only_slow_down_are_healthy() -> None:
    """A level below hard is the loop at work."""
    assert {judged(**queue(level)).score for level in ("none", "low", "soft", "medium")} == {1.0}


def test_unknown_counts_nothing() -> None:
    """A part that was built and is not measured has no points, and the system is not healthy."""
    health = judged(nodes=(Health(part="n1", status=Status.UNKNOWN, reason="no heartbeat was observed yet"),))

    nodes = part_of(health, "nodes")
    assert nodes is not None
    assert (nodes.status, nodes.points) == (Status.UNKNOWN, 0.0)
    assert health.status is Status.DEGRADED


@pytest.mark.parametrize(
    ("state", "status"),
    [("paused", Status.DEGRADED), ("draining", Status.DEGRADED), ("stopped", Status.UNHEALTHY)],
)
def test_a_brake_on_the_cluster_is_as_bad_as_it_is_strong(state: str, status: Status) -> None:
    """A pause by a person is degraded with that reason; a stop means that nothing works; one stage is never all."""
    assert judged(**brake(state)).status is status
    assert judged(**brake(state, "stage:train")).status is Status.DEGRADED


def test_the_score_falls_with_every_essential_part() -> None:
    """One that is unhealthy makes the system unhealthy, two make it critical; others never do."""
    one, two = judged(nodes=()), judged(nodes=(), **breaker("stage:train"))

    assert (one.score, one.is_critical) == (0.59, False)
    assert (two.score, two.is_critical) == (0.39, True)
    assert judged(deliveries={("r", "dead"): 1}, **queue("stop", "sync")).score == 0.79


def test_most_of_the_nodes_decide() -> None:
    """Of two nodes one that is silent is a fault, of three two are the end of useful work."""
    assert status_of("nodes", nodes=(N1, SILENT)) is Status.DEGRADED
    assert status_of("nodes", nodes=(N1, SILENT, SILENT)) is Status.UNHEALTHY


def test_the_breaker_of_a_node_is_not_that_of_all() -> None:
    """Others go on without a node or a link; no node goes on without a stage or a workload, until one job is tried."""
    for name, state, status in (
        ("node:n1", BreakerState.OPEN, Status.DEGRADED),
        ("link:n1/ssh", BreakerState.OPEN, Status.DEGRADED),
        ("stage:train", BreakerState.OPEN, Status.UNHEALTHY),
        ("workload:fake", BreakerState.OPEN, Status.UNHEALTHY),
        ("workload:fake", BreakerState.HALF_OPEN, Status.DEGRADED),
    ):
        assert status_of("breakers", **breaker(name, state)) is status


def test_a_critical_daemon_counts_more_than_others_and_one_that_rests_not_at_all() -> None:
    """The node is not alive without it; a daemon that was never started is not meant to run."""
    well = [daemon(name) for name in "abcdef"]
    ordinary, critical = (daemon("beat", Status.UNHEALTHY, "failed", critical) for critical in (False, True))
    resting = daemon("rate", Status.UNKNOWN, "resting")

    assert status_of("daemons", **daemons(*well, ordinary)) is Status.DEGRADED
    assert status_of("daemons", **daemons(*well, critical)) is Status.UNHEALTHY
    assert status_of("daemons", **daemons(*well, resting)) is Status.HEALTHY
    assert judged(**daemons(resting)).off == ("daemons", "daemons/n1/rate")


@pytest.mark.parametrize(
    ("score", "status"),
    [
        (1.0, Status.HEALTHY),
        (0.8, Status.HEALTHY),
        (0.799, Status.DEGRADED),
        (0.6, Status.DEGRADED),
        (0.599, 0),
        (0, 0),
    ],
)
def test_each_score_has_its_word(score: float, status: Status) -> None:
    """Healthy from 0.8, degraded from 0.6."""
    assert rules._status_of(score) is Status(status)
