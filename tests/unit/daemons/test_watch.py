"""The watcher publishes each overdue stage, silent node and stalled reader once, also after a restart."""

from pathlib import Path

import msgspec
import pytest

from ringrift.cluster.roster import NodeRecord, Roster
from ringrift.daemons.watch import watch
from ringrift.events import node, pipeline, reader
from ringrift.events.base import Event
from ringrift.kernel.errors import NotLeader, Overtaken
from ringrift.kernel.settings import BusSettings, Policy, StageLimits
from ringrift.kernel.stall_detector import StallDetector
from ringrift.pipeline.line import Stage
from ringrift.work.run_states import set_run_state
from unit.pipeline.story import POLICY, VARIANT, at
from unit.work.world import World, play

LIMITS = msgspec.structs.replace(POLICY, stages=StageLimits(training_seconds_max=100.0, verifying_seconds_max=50.0))
SILENCE = 15.0
BUS = BusSettings(lapse_seconds=1000.0, lapse_watch_seconds=60.0)


class Watcher:
    """The daemon with the state of one run of its node."""

    def __init__(self, world: World) -> None:
        self.world, self.roster, self.readers = world, Roster(world.store, world.clock, 5.0), StallDetector()

    async def tick_once(self, *kinds: type[Event], after: float = 0.0, policy: Policy = LIMITS) -> list[Event]:
        """Tick once, *after* so many seconds; return every event of *kinds* so far."""
        self.world.clock.seconds += after
        roles = await self.world.roles()
        await watch(
            store=self.world.store,
            roster=self.roster,
            roles=roles,
            envelopes=self.world.envelopes,
            clock=self.world.clock,
            policy=policy,
            bus_settings=BUS,
            memory=self.readers,
        )
        await roles.resign()
        return await self.world.events(*kinds)


def test_an_overdue_stage_is_published_once(tmp_path: Path) -> None:
    """It is not published before its limit, not again, not by another watcher; the next stay is published for
    itself."""

    async def story(world: World) -> None:
        first, now = Watcher(world), world.clock.now()
        line = msgspec.structs.replace(at(Stage.TRAINING).line, since=now)
        await world.keep(line)
        late = pipeline.Overdue(variant=VARIANT, stage="training", seconds=101.0, limit=100.0)

        assert await first.tick_once(pipeline.Overdue, after=100.0) == []
        assert await first.tick_once(pipeline.Overdue, after=1.0) == [late]
        assert await first.tick_once(pipeline.Overdue, after=1.0) == [late]
        assert await Watcher(world).tick_once(pipeline.Overdue, after=1.0) == [late]
        await world.keep(msgspec.structs.replace(at(Stage.VERIFYING).line, since=now + 103.0))
        assert len(await first.tick_once(pipeline.Overdue, after=50.0)) == 1
        assert [verdict.stage for verdict in await first.tick_once(pipeline.Overdue, after=1.0)] == [
            "training",
            "verifying",
        ]

    play(tmp_path, story)


def test_a_node_is_lost_once_and_recovers_once(tmp_path: Path) -> None:
    """For any number of checks by any watcher, each silence and each return is published once."""

    async def story(world: World) -> None:
        lost, back = node.Lost(node="a", seconds=SILENCE), node.Recovered(node="a")
        first = Watcher(world)
        await world.beat("a")

        assert await first.tick_once(node.Lost) == []
        assert await first.tick_once(node.Lost, after=SILENCE) == [lost]
        assert await first.tick_once(node.Lost, after=SILENCE) == [lost]
        second = Watcher(world)
        assert await second.tick_once(node.Lost, node.Recovered) == [lost]
        assert await second.tick_once(node.Lost, node.Recovered, after=SILENCE) == [lost]
        await world.beat("a")
        assert await second.tick_once(node.Lost, node.Recovered) == [lost, back]
        assert await Watcher(world).tick_once(node.Lost, node.Recovered) == [lost, back]
        assert await second.tick_once(node.Lost, node.Recovered, after=SILENCE) == [lost, back, lost]

    play(tmp_path, story)


def test_a_deregistered_node_is_not_lost(tmp_path: Path) -> None:
    """If it deregisters only after it was published as lost, nothing is left to be remembered."""

    async def story(world: World) -> None:
        watcher = Watcher(world)
        gone = NodeRecord(id="a", profile="full", address="x", beat=1, gone=True)
        await world.roster.put(gone)
        await watcher.tick_once()
        assert await watcher.tick_once(node.Lost, after=100.0) == []

        await world.beat("b")
        await watcher.tick_once()
        await watcher.tick_once(after=SILENCE)
        await world.roster.put(msgspec.structs.replace(gone, id="b"))

        assert await watcher.tick_once(node.Lost, node.Recovered) == [node.Lost(node="b", seconds=SILENCE)]
        async with world.store.read() as view:
            assert await view.scan("lost_node", "", 10) == {}

    play(tmp_path, story)


def test_a_reader_that_stands_still_for_long_lapses_once(tmp_path: Path) -> None:
    """It must have events waiting and be observed to stand still for all that time, by however many watchers; then it
    holds the log no more, and one event is published."""

    async def story(world: World) -> None:
        watcher = Watcher(world)
        await world.router.publish(node.Left(node="x"))
        async with world.store.begin() as tx:
            await tx.register_reader("slow", 0)

        for number in range(16):
            assert await watcher.tick_once(reader.Lapsed) == []
            assert await watcher.tick_once(reader.Lapsed, after=59.0) == []
            watcher = Watcher(world) if number % 5 == 4 else watcher
            assert await watcher.tick_once(reader.Lapsed, after=1.0) == []
            await watcher.tick_once(after=60.0)
        await watcher.tick_once()
        [verdict] = await watcher.tick_once(reader.Lapsed, after=60.0)
        assert (verdict.reader, verdict.position, verdict.seconds) == ("slow", 0, 1020.0)
        assert await watcher.tick_once(reader.Lapsed, after=5000.0) == [verdict]
        async with world.store.begin() as tx:
            with pytest.raises(Overtaken):
                await tx.register_reader("slow", 0)

    play(tmp_path, story)


def test_a_reader_that_moves_does_not_lapse(tmp_path: Path) -> None:
    """This holds however far behind it is."""

    async def story(world: World) -> None:
        watcher = Watcher(world)
        await world.router.publish_many([node.Left(node=str(number)) for number in range(9)])
        async with world.store.begin() as tx:
            await tx.register_reader("slow", 0)

        for place in range(5):
            assert await watcher.tick_once(reader.Lapsed, after=2000.0) == []
            async with world.store.begin() as tx:
                await tx.advance("slow", place, place + 1)

    play(tmp_path, story)


def test_a_watcher_with_an_expired_term_publishes_nothing(tmp_path: Path) -> None:
    """Another node watches now."""

    async def story(world: World) -> None:
        watcher, roles = Watcher(world), await world.roles()
        await world.beat("a")
        await watcher.roster.survey()
        world.clock.seconds += SILENCE
        await roles.resign()

        with pytest.raises(NotLeader):
            await watch(
                store=world.store,
                roster=watcher.roster,
                roles=roles,
                envelopes=world.envelopes,
                clock=world.clock,
                policy=LIMITS,
                bus_settings=BUS,
                memory=watcher.readers,
            )

        assert await world.events(node.Lost) == []

    play(tmp_path, story)


@pytest.mark.parametrize("scope", ["cluster", f"variant:{VARIANT}", "stage:train"])
def test_a_line_that_a_person_has_stopped_is_not_overdue(tmp_path: Path, scope: str) -> None:
    """Under a brake on the cluster, its variant or a stage it may take all the time; other brakes do not matter."""

    async def story(world: World) -> None:
        now = world.clock.now()
        await world.keep(msgspec.structs.replace(at(Stage.TRAINING).line, since=now))
        async with world.store.begin() as tx:
            for name in (scope, "node:n", "variant:hex8_3p"):
                await set_run_state(tx, world.envelopes, scope=name, state="paused", now=now)
        assert await Watcher(world).tick_once(pipeline.Overdue, after=101.0) == []

        async with world.store.begin() as tx:
            await set_run_state(tx, world.envelopes, scope=scope, state="running", now=world.clock.now())

        assert len(await Watcher(world).tick_once(pipeline.Overdue, after=1.0)) == 1

    play(tmp_path, story)
