"""A wall clock that is moved by days changes no decision: how long something lasted is what an observer has seen."""

from pathlib import Path

import msgspec
import pytest

from ringrift.cluster.roster import NodeRecord
from ringrift.daemons.beat import _ClockWatch
from ringrift.daemons.ladder import ladder
from ringrift.events import node, reader
from ringrift.events.alert import Cleared, Raised
from ringrift.kernel.stall_detector import StallDetector
from ringrift.pipeline.ratings import RATINGS
from unit.daemons.test_trust import LOST, WON, canary, join, react, shut
from unit.daemons.test_watch import Watcher
from unit.kernel.manual_clock import ManualClock
from unit.pipeline.test_ladder import CLIMBS, HOUR, LINE, RATED
from unit.work.world import World, play

DAY = 86_400.0
STEPS = pytest.mark.parametrize("step", [-30 * DAY, -DAY, DAY, 30 * DAY])


@STEPS
def test_no_reader_lapses_by_the_wall_clock(tmp_path: Path, step: float) -> None:
    """It was seen to stand still twice, not for all the time that it may."""

    async def story(world: World) -> None:
        watcher = Watcher(world)
        await world.router.publish(node.Left(node="x"))
        async with world.store.begin() as tx:
            await tx.register_reader("slow", 0)
        await watcher.tick_once()
        await watcher.tick_once(after=60.0)
        world.clock.step = step

        await watcher.tick_once()
        assert await watcher.tick_once(reader.Lapsed, after=60.0) == []

    play(tmp_path, story)


@STEPS
def test_a_round_of_the_ladder_is_due_after_its_interval(tmp_path: Path, step: float) -> None:
    """Neither before it nor a day later."""

    async def story(world: World) -> None:
        roles, memory = await world.roles(), StallDetector()

        async def tick(seconds: float) -> int:
            world.clock.seconds += seconds
            parts = {"store": world.store, "envelopes": world.envelopes, "clock": world.clock}
            await ladder(roles=roles, policy=CLIMBS, memory=memory, **parts)
            return len(await world.jobs("ready"))

        await world.keep(LINE)
        async with world.store.begin() as tx:
            await RATINGS.put(tx, [RATED])
        await tick(0.0)
        world.clock.step = step
        assert await tick(HOUR - 1.0) == 0
        assert await tick(1.0) == 4

    play(tmp_path, story)


@STEPS
def test_no_leader_is_trusted_alone_by_the_wall_clock(tmp_path: Path, step: float) -> None:
    """A node has just joined, and its clock or the leader's is moved: still more may come."""

    async def story(world: World) -> None:
        await join(world, "a", "b")
        await react(world, node.Joined(node="b", profile="full"))
        world.clock.step = step
        await canary(world, "b", LOST)
        await canary(world, "a", WON)
        assert await shut(world) == []

    play(tmp_path, story)


def test_the_leaders_time_begins_anew_with_its_machine(tmp_path: Path) -> None:
    """A heartbeat from before a restart of the machine is larger than all that follow for a while."""

    async def story(world: World) -> None:
        await join(world, "a", "b")
        leader = NodeRecord(id="a", profile="full", address="", beat=9_000_000)
        await world.roster.put(leader)
        await react(world, node.Joined(node="b", profile="full"))
        await world.roster.put(msgspec.structs.replace(leader, beat=1_000))
        await canary(world, "b", LOST)
        await canary(world, "a", WON)
        assert await shut(world) == []

        await world.roster.put(msgspec.structs.replace(leader, beat=601_000))
        await canary(world, "b", LOST)
        await canary(world, "a", WON)
        assert await shut(world) == ["b"]

    play(tmp_path, story)


@pytest.mark.parametrize("step", [-DAY, DAY])
def test_a_step_of_the_wall_clock_is_an_alert_that_closes_itself(step: float) -> None:
    """One when it jumps, none while it stays there, and an end when it has run evenly for some minutes."""
    clock, watch = ManualClock(), _ClockWatch()
    assert [watch.look("n1", clock) for _ in range(3)] == [None] * 3

    clock.step = step
    clock.seconds += 5.0
    alert = watch.look("n1", clock)
    clock.seconds += 5.0
    quiet = watch.look("n1", clock)
    clock.seconds += 600.0
    end = watch.look("n1", clock)

    assert isinstance(alert, Raised)
    assert (alert.kind, alert.subject) == ("wall_clock", "n1")
    assert f"{step:+.0f} s" in alert.detail
    assert quiet is None
    assert end == Cleared(kind="wall_clock", subject="n1")
    assert watch.look("n1", clock) is None
