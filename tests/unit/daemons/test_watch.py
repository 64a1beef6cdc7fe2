"""The watcher says once what takes too long, who fell silent and who stands still, also after a restart."""

from pathlib import Path

import msgspec
import pytest

from ringrift.cluster.roster import NodeRecord, Roster
from ringrift.daemons.watch import watch
from ringrift.events import node, pipeline, reader
from ringrift.events.base import Event
from ringrift.kernel.errors import NotLeader, Overtaken
from ringrift.kernel.settings import BusSettings, Policy, StageLimits
from ringrift.kernel.watch import Watch
from ringrift.pipeline.line import Stage
from unit.pipeline.story import POLICY, VARIANT, at
from unit.work.world import World, play

LIMITS = msgspec.structs.replace(POLICY, stages=StageLimits(training_seconds_max=100.0, verifying_seconds_max=50.0))
SILENCE = 15.0
BUS = BusSettings(lapse_seconds=1000.0, lapse_seen_seconds=60.0)


class Watcher:
    """The daemon with what one life of its node knows."""

    def __init__(self, world: World) -> None:
        self.world, self.roster, self.readers = world, Roster(world.store, world.clock, 5.0), Watch()

    async def look(self, *kinds: type[Event], after: float = 0.0, policy: Policy = LIMITS) -> list[Event]:
        """Look once, *after* so many seconds; every event of *kinds* so far."""
        self.world.clock.seconds += after
        roles = await self.world.roles()
        await watch(
            store=self.world.store, roster=self.roster, roles=roles, scribe=self.world.scribe, clock=self.world.clock,
            policy=policy, bus_settings=BUS, reader_watch=self.readers,
        )  # fmt: skip
        await roles.resign()
        return await self.world.told(*kinds)


def test_a_stay_that_takes_too_long_is_told_once(tmp_path: Path) -> None:
    """Not before its limit, not again, not by another watcher; the next stay is told for itself."""

    async def story(world: World) -> None:
        first, now = Watcher(world), world.clock.now()
        line = msgspec.structs.replace(at(Stage.TRAINING).line, since=now)
        await world.keep(line)
        late = pipeline.Overdue(variant=VARIANT, stage="training", seconds=101.0, limit=100.0)

        assert await first.look(pipeline.Overdue, after=100.0) == []
        assert await first.look(pipeline.Overdue, after=1.0) == [late]
        assert await first.look(pipeline.Overdue, after=1.0) == [late]
        assert await Watcher(world).look(pipeline.Overdue, after=1.0) == [late]
        await world.keep(msgspec.structs.replace(at(Stage.VERIFYING).line, since=now + 103.0))
        assert len(await first.look(pipeline.Overdue, after=50.0)) == 1
        assert [said.stage for said in await first.look(pipeline.Overdue, after=1.0)] == ["training", "verifying"]

    play(tmp_path, story)


def test_a_node_is_lost_once_and_recovers_once(tmp_path: Path) -> None:
    """However often anybody looks, and whoever looks: each silence and each return is told one time."""

    async def story(world: World) -> None:
        lost, back = node.Lost(node="a", seconds=SILENCE), node.Recovered(node="a")
        first = Watcher(world)
        await world.beat("a")

        assert await first.look(node.Lost) == []
        assert await first.look(node.Lost, after=SILENCE) == [lost]
        assert await first.look(node.Lost, after=SILENCE) == [lost]
        second = Watcher(world)
        assert await second.look(node.Lost, node.Recovered) == [lost]
        assert await second.look(node.Lost, node.Recovered, after=SILENCE) == [lost]
        await world.beat("a")
        assert await second.look(node.Lost, node.Recovered) == [lost, back]
        assert await Watcher(world).look(node.Lost, node.Recovered) == [lost, back]
        assert await second.look(node.Lost, node.Recovered, after=SILENCE) == [lost, back, lost]

    play(tmp_path, story)


def test_a_node_that_took_its_leave_is_not_lost(tmp_path: Path) -> None:
    """Also when it does so only after it was given up for lost: then nothing is left to be remembered."""

    async def story(world: World) -> None:
        watcher = Watcher(world)
        gone = NodeRecord(id="a", profile="full", address="x", beat=1, gone=True)
        await world.roster.say(gone)
        await watcher.look()
        assert await watcher.look(node.Lost, after=100.0) == []

        await world.beat("b")
        await watcher.look()
        await watcher.look(after=SILENCE)
        await world.roster.say(msgspec.structs.replace(gone, id="b"))

        assert await watcher.look(node.Lost, node.Recovered) == [node.Lost(node="b", seconds=SILENCE)]
        async with world.store.read() as view:
            assert await view.scan("lost_node", "", 10) == []

    play(tmp_path, story)


def test_a_reader_that_stands_still_for_long_lapses_once(tmp_path: Path) -> None:
    """It must have old events waiting and be seen to stand; then it holds the log no more, and one event says so."""

    async def story(world: World) -> None:
        watcher = Watcher(world)
        await world.router.publish(node.Left(node="x"))
        async with world.store.begin() as tx:
            await tx.enrol("slow", 0)

        assert await watcher.look(reader.Lapsed, after=2000.0) == []
        assert await watcher.look(reader.Lapsed, after=59.0) == []
        [said] = await watcher.look(reader.Lapsed, after=1.0)
        assert (said.reader, said.position, said.seconds) == ("slow", 0, 2060.0)
        assert await watcher.look(reader.Lapsed, after=5000.0) == [said]
        async with world.store.begin() as tx:
            with pytest.raises(Overtaken):
                await tx.enrol("slow", 0)

    play(tmp_path, story)


def test_a_reader_that_moves_does_not_lapse(tmp_path: Path) -> None:
    """However far behind it is."""

    async def story(world: World) -> None:
        watcher = Watcher(world)
        await world.router.publish_many([node.Left(node=str(number)) for number in range(9)])
        async with world.store.begin() as tx:
            await tx.enrol("slow", 0)

        for place in range(5):
            assert await watcher.look(reader.Lapsed, after=2000.0) == []
            async with world.store.begin() as tx:
                await tx.advance("slow", place, place + 1)

    play(tmp_path, story)


def test_a_watcher_whose_term_is_over_says_nothing(tmp_path: Path) -> None:
    """Another node watches now."""

    async def story(world: World) -> None:
        watcher, roles = Watcher(world), await world.roles()
        await world.beat("a")
        await watcher.roster.look()
        world.clock.seconds += SILENCE
        await roles.resign()

        with pytest.raises(NotLeader):
            await watch(
                store=world.store, roster=watcher.roster, roles=roles, scribe=world.scribe, clock=world.clock,
                policy=LIMITS, bus_settings=BUS, reader_watch=watcher.readers,
            )  # fmt: skip

        assert await world.told(node.Lost) == []

    play(tmp_path, story)
