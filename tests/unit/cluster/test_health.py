"""The health of the cluster is told from beats and open alerts, and who was not seen to live is not healthy."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ringrift.cluster.activity import Doing
from ringrift.cluster.alerts import Alert
from ringrift.cluster.health import ClusterHealth, judge
from ringrift.cluster.roster import NodeRecord
from ringrift.kernel.health import Health, Status
from unit.work.world import World, play

WELL = NodeRecord(id="n1", profile="full", address="/n1", beat=7, doing=Doing(daemons=9))


def alert(kind: str, subject: str = "n1", level: str = "severe", since: float = 50.0) -> Alert:
    """An open alert."""
    return Alert(kind=kind, subject=subject, level=level, detail="so it is", since=since)


def found(*alerts: Alert, silent: bool = False, moved: bool = True, **doing: Any) -> Health:
    """How a node is of which this is known."""
    node = msgspec.structs.replace(WELL, doing=msgspec.structs.replace(WELL.doing, **doing))
    [health] = judge([node], {"n1"} if silent else (), {"n1"} if moved else (), alerts, 15.0)
    return health


def test_a_node_that_beats_and_has_no_trouble_is_healthy() -> None:
    """Nothing wrong and a beat that moves: that is all it takes, and nothing less."""
    assert found() == Health(part="n1", status=Status.HEALTHY)


@pytest.mark.parametrize(
    ("health", "status", "reason"),
    [
        (found(moved=False), Status.UNKNOWN, "no beat of it has been seen yet"),
        (found(daemons=0), Status.UNKNOWN, "says of no daemon that it runs"),
        (found(silent=True), Status.UNHEALTHY, "not heard of for 15 s"),
        (found(failing=("fill", "rate")), Status.DEGRADED, "do not run: fill, rate"),
        (found(alert("quarantine")), Status.DEGRADED, "quarantine: so it is"),
        (found(alert("daemon", "n1/fill")), Status.UNHEALTHY, "fill: so it is"),
        (found(alert("health", level="minor")), Status.DEGRADED, "health: so it is"),
        (found(alert("health")), Status.UNHEALTHY, "health: so it is"),
        (found(alert("node_lost"), moved=False), Status.UNHEALTHY, "node_lost: so it is"),
        (found(alert("quarantine"), moved=False), Status.UNKNOWN, "no beat of it has been seen yet; quarantine"),
    ],
)
def test_what_is_known_decides(health: Health, status: Status, reason: str) -> None:
    """The worst counts, and every reason is told."""
    assert health.status is status
    assert reason in health.reason


@pytest.mark.parametrize(
    "other", [alert("node_lost"), alert("daemon", "n2/fill"), alert("overdue", "hex8_2p"), alert("letter", "n1")]
)
def test_what_is_not_about_the_node_now_says_nothing(other: Alert) -> None:
    """Trouble of other nodes and of lines, and a loss that is over since its beat moves, leave it healthy."""
    assert found(other).status is Status.HEALTHY


def test_it_is_so_since_the_first_of_the_worst() -> None:
    """A minor trouble from earlier does not date back the severe one."""
    assert found(alert("daemon", "n1/a", since=80.0), alert("daemon", "n1/b", since=60.0)).since == 60.0
    assert found(alert("daemon", "n1/a", since=80.0), alert("quarantine", since=5.0)).since == 80.0


def test_one_look_is_not_enough_to_call_a_node_healthy(tmp_path: Path) -> None:
    """A record may be old: a node becomes healthy when its beat moves, unhealthy when it stands still, and is gone
    from the list when it said good-bye."""

    async def story(world: World) -> None:
        looks = ClusterHealth(world.roster, world.store)

        async def beat(id: str, **changes: Any) -> None:
            number = int(world.clock.tick() * 1000)
            await world.roster.say(msgspec.structs.replace(WELL, id=id, beat=number, **changes))

        async def statuses() -> list[tuple[str, Status]]:
            return [(one.part, one.status) for one in await looks.look()]

        assert (await looks.whole()).status is Status.UNKNOWN, "there is nobody"
        await beat("n1")
        await beat("n2")
        assert await statuses() == [("n1", Status.UNKNOWN), ("n2", Status.UNKNOWN)]
        world.clock.seconds += 5.0
        await beat("n1")
        assert await statuses() == [("n1", Status.HEALTHY), ("n2", Status.UNKNOWN)]
        world.clock.seconds += 10.0
        await beat("n1")
        assert await statuses() == [("n1", Status.HEALTHY), ("n2", Status.UNHEALTHY)]
        assert (await looks.whole()).points == 0.5
        assert (await looks.whole()).reason.startswith("n2: not heard of for 15 s")
        await beat("n2", gone=True)
        assert await statuses() == [("n1", Status.HEALTHY)]

    play(tmp_path, story)
