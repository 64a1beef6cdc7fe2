"""The health of a node follows from its beats and open alerts; a node that was not observed to live is not healthy."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ringrift.cluster.activity import Activity
from ringrift.cluster.alerts import Alert
from ringrift.cluster.daemon_summary import DaemonSummary
from ringrift.cluster.health import ClusterHealth, SurveyedNodes, judge
from ringrift.cluster.roster import NodeRecord
from ringrift.kernel.health import Health, Status
from ringrift.supervision.status import DaemonStatus
from unit.work.world import World, play

WELL = NodeRecord(id="n1", profile="full", address="/n1", beat=7, activity=Activity(daemons=DaemonSummary(more=9)))


def alert(kind: str, subject: str = "n1", level: str = "severe", since: float = 50.0) -> Alert:
    """An open alert."""
    return Alert(kind=kind, subject=subject, level=level, detail="so it is", since=since)


def failed(*names: str) -> DaemonSummary:
    """Daemons that were given up, beside one that runs."""
    health = Health(part="d", status=Status.UNHEALTHY)
    return DaemonSummary(more=1, statuses=tuple(DaemonStatus(name=n, health=health, state="failed") for n in names))


def judged(
    *alerts: Alert, silent: bool = False, moved: bool = True, daemons: DaemonSummary = WELL.activity.daemons
) -> Health:
    """The health of a node in this situation."""
    node = msgspec.structs.replace(WELL, activity=Activity(daemons=daemons))
    quiet, lively = (frozenset({"n1"} if is_so else ()) for is_so in (silent, moved))
    [health] = judge(SurveyedNodes(nodes=(node,), silent=quiet, moved=lively, seconds=15.0), alerts)
    return health


def test_a_node_that_beats_and_has_no_trouble_is_healthy() -> None:
    """Nothing wrong and a beat that moves: that is all it takes, and nothing less."""
    assert judged() == Health(part="n1", status=Status.HEALTHY)


@pytest.mark.parametrize(
    ("health", "status", "reason"),
    [
        (judged(moved=False), Status.UNKNOWN, "no heartbeat was observed yet"),
        (judged(daemons=DaemonSummary()), Status.UNKNOWN, "reports no running daemon"),
        (judged(silent=True), Status.UNHEALTHY, "no heartbeat for 15 s"),
        (judged(daemons=failed("fill", "rate")), Status.DEGRADED, "do not run: fill, rate"),
        (judged(alert("quarantine")), Status.DEGRADED, "quarantine: so it is"),
        (judged(alert("daemon", "n1/fill")), Status.UNHEALTHY, "fill: so it is"),
        (judged(alert("health", level="minor")), Status.DEGRADED, "health: so it is"),
        (judged(alert("health")), Status.UNHEALTHY, "health: so it is"),
        (judged(alert("node_lost"), moved=False), Status.UNHEALTHY, "node_lost: so it is"),
        (judged(alert("quarantine"), moved=False), Status.UNKNOWN, "no heartbeat was observed yet; quarantine"),
    ],
)
def test_the_worst_reason_decides(health: Health, status: Status, reason: str) -> None:
    """The worst counts, and every reason is listed."""
    assert health.status is status
    assert reason in health.reason


@pytest.mark.parametrize(
    "other", [alert("node_lost"), alert("daemon", "n2/fill"), alert("overdue", "hex8_2p"), alert("dead_letter", "n1")]
)
def test_unrelated_and_past_trouble_does_not_count(other: Alert) -> None:
    """Trouble of other nodes and of lines, and a loss that is over since its beat moves, leave it healthy."""
    assert judged(other).status is Status.HEALTHY


def test_a_status_dates_from_its_first_worst_reason() -> None:
    """A minor trouble from earlier does not date back the severe one."""
    assert judged(alert("daemon", "n1/a", since=80.0), alert("daemon", "n1/b", since=60.0)).since == 60.0
    assert judged(alert("daemon", "n1/a", since=80.0), alert("quarantine", since=5.0)).since == 80.0


def test_a_single_observation_does_not_make_a_node_healthy(tmp_path: Path) -> None:
    """A record may be old: a node becomes healthy when its beat moves, unhealthy when it stands still, and leaves the
    list when it deregisters."""

    async def story(world: World) -> None:
        observer = ClusterHealth(world.roster)

        async def beat(id: str, **changes: Any) -> None:
            number = int(world.clock.tick() * 1000)
            await world.roster.put(msgspec.structs.replace(WELL, id=id, beat=number, **changes))

        async def statuses() -> list[tuple[str, Status]]:
            return [(part.part, part.status) for part in judge(await observer.survey(), ())]

        assert await statuses() == []
        await beat("n1")
        await beat("n2")
        assert await statuses() == [("n1", Status.UNKNOWN), ("n2", Status.UNKNOWN)]
        world.clock.seconds += 5.0
        await beat("n1")
        assert await statuses() == [("n1", Status.HEALTHY), ("n2", Status.UNKNOWN)]
        world.clock.seconds += 10.0
        await beat("n1")
        assert await statuses() == [("n1", Status.HEALTHY), ("n2", Status.UNHEALTHY)]
        assert judge(await observer.survey(), ())[1].reason.startswith("no heartbeat for 15 s")
        await beat("n2", gone=True)
        assert await statuses() == [("n1", Status.HEALTHY)]

    play(tmp_path, story)
