"""Queues are measured from the store: what waits, what was drained, and what presses on nothing."""

from pathlib import Path

import msgspec
import pytest

from ringrift.cluster.leadership import Roles
from ringrift.daemons.measure_queues import measure_queues
from ringrift.events.work import PressureChanged
from ringrift.kernel.errors import NotLeader
from ringrift.kernel.settings import WorkSettings
from ringrift.pipeline.line import Stage
from ringrift.pipeline.queues import read_queues
from ringrift.pipeline.trust import TRUSTS, Trust
from ringrift.store.ports import JobRequest, Renewal
from ringrift.work.pressure import BOUNDS, PRESSURES, DrainWindow, QueuePressure, QueueReading
from ringrift.work.run_states import set_run_state
from unit.pipeline.story import POLICY, VARIANT, at
from unit.work.world import World, play


async def enqueue(world: World, count: int, kind: str) -> None:
    """Let *count* more jobs of *kind* wait."""
    async with world.store.begin() as tx:
        await tx.enqueue(
            [
                JobRequest(id=(id := world.ids.next()), kind=kind, variant=VARIANT, key=id, body=b"{}")
                for _ in range(count)
            ]
        )


class Measured:
    """The daemon that measures queues, with its memory, called every ten seconds."""

    def __init__(self, world: World, roles: Roles) -> None:
        self.world, self.roles, self.memory = world, roles, dict[str, DrainWindow]()

    async def look(self, seconds: float = 10.0) -> list[tuple[str, str, str]]:
        """Measure once; every change of a level so far."""
        self.world.clock.seconds += seconds
        await measure_queues(
            store=self.world.store,
            envelopes=self.world.envelopes,
            roles=self.roles,
            work_settings=WorkSettings(),
            clock=self.world.clock,
            memory=self.memory,
        )
        return [(event.queue, event.before, event.level) for event in await self.world.events(PressureChanged)]

    async def pressures(self) -> dict[str, QueuePressure]:
        async with self.world.store.read() as view:
            return await PRESSURES.scan(view)


def test_pressure_is_published_only_when_it_changes(tmp_path: Path) -> None:
    """An unchanged level publishes nothing, also after a restart; each change of a queue is published once."""

    async def story(world: World) -> None:
        queues = Measured(world, await world.roles())
        assert await queues.look() == []
        await enqueue(world, 20, "export")
        await enqueue(world, 10_000, "play")
        assert await queues.look() == [("export", "none", "medium")]
        await enqueue(world, 1, "export")
        assert await queues.look() == [("export", "none", "medium")]
        queues.memory.clear()
        assert await queues.look() == [("export", "none", "medium")], "a new process of the same node"
        await enqueue(world, 50, "sync")
        assert (await queues.look())[1:] == [("sync", "none", "low")]
        async with world.store.begin() as tx:
            await tx.cancel([row.id for row in await tx.jobs(("ready",), 20_000)])
        assert (await queues.look())[2:] == [("sync", "low", "none"), ("export", "medium", "none")]
        [first, *_] = await world.events(PressureChanged)
        assert (first.depth, first.drain_seconds, first.limit, first.backpressure) == (20, None, 100, "")

    play(tmp_path, story)


def test_every_queue_is_stored_with_its_depth_and_its_drain(tmp_path: Path) -> None:
    """Games of lines and jobs of the desk: the rate is what left the queue while it held anything."""

    async def story(world: World) -> None:
        queues = Measured(world, await world.roles())
        line = at(Stage.TRAINING).line
        games = POLICY.games_per_export * 3
        played = {name: getattr(line.counts, name) + games for name in ("games", "games_kept")}
        counts = msgspec.structs.replace(line.counts, **played)
        line = msgspec.structs.replace(line, counts=counts, fresh=games)
        await world.keep(line)
        await enqueue(world, 8, "match")
        await queues.look()
        assert {queue: row.depth for queue, row in (await queues.pressures()).items() if row.depth} == {
            "training_data": games,
            "evaluation": 8,
        }
        assert {row.drain_seconds for row in (await queues.pressures()).values()} == {None}

        leases = await world.desk().claim({"match"}, 4)
        async with world.store.begin() as tx:
            await tx.finish([Renewal(job=lease.job, fence=lease.fence) for lease in leases])
        await world.keep(msgspec.structs.replace(line, fresh=POLICY.games_per_export))
        await queues.look(20.0)

        pressures = await queues.pressures()
        assert pressures["evaluation"].rate == 0.2
        assert pressures["evaluation"].drain_seconds == 20.0
        assert pressures["training_data"].rate == games * 2 / 3 / 20.0
        assert pressures.keys() == BOUNDS.keys()

    play(tmp_path, story)


@pytest.mark.parametrize(("stage", "due"), [(Stage.COLLECTING, 0), (Stage.TRAINING, 900), (Stage.EVALUATING, 900)])
def test_games_of_a_line_that_collects_wait_for_more_games(tmp_path: Path, stage: Stage, due: int) -> None:
    """However many it has, it may need more than others: if they pressed, self-play would stop, and so would it."""

    async def story(world: World) -> None:
        await world.keep(msgspec.structs.replace(at(stage).line, fresh=900))
        async with world.store.read() as view:
            reading = (await read_queues(view, world.clock.now()))["training_data"]

        assert (reading.depth, reading.depth - reading.idle) == (900, due)

    play(tmp_path, story)


def test_canaries_that_wait_for_their_nodes_press_on_nothing(tmp_path: Path) -> None:
    """A drained node leaves its canaries for days: they stand still, and the tests of candidates must not."""

    async def story(world: World) -> None:
        await enqueue(world, 7, "match")
        async with world.store.begin() as tx:
            await TRUSTS.put(tx, [Trust(node="a", open_jobs=2), Trust(node="b", open_jobs=1)])
        async with world.store.read() as view:
            assert (await read_queues(view, world.clock.now()))["evaluation"] == QueueReading(
                depth=7, drained=0, idle=3
            )
        async with world.store.begin() as tx:
            await tx.cancel([row.id for row in await tx.jobs(("ready",), 6)])
        async with world.store.read() as view:
            assert (await read_queues(view, world.clock.now()))["evaluation"] == QueueReading(
                depth=1, drained=0, idle=1
            )

    play(tmp_path, story)


@pytest.mark.parametrize(("scope", "idle"), [(f"variant:{VARIANT}", 900), ("variant:hex8_3p", 0), ("stage:export", 0)])
def test_what_a_person_has_paused_slows_no_other_line_down(tmp_path: Path, scope: str, idle: int) -> None:
    """Games and jobs of a paused variant stand still by intent; those of a stage keep all lines from their exports."""

    async def story(world: World) -> None:
        await world.keep(msgspec.structs.replace(at(Stage.TRAINING).line, fresh=900))
        await enqueue(world, 3, "export")
        async with world.store.begin() as tx:
            await set_run_state(tx, world.envelopes, scope=scope, state="paused", now=world.clock.now())
        async with world.store.read() as view:
            readings = await read_queues(view, world.clock.now())

        assert (readings["training_data"].depth, readings["training_data"].idle) == (900, idle)
        assert (readings["export"].depth, readings["export"].idle) == (3, 3 if idle else 0)

    play(tmp_path, story)


def test_an_idle_queue_is_not_written_again(tmp_path: Path) -> None:
    """A look at queues that stay as they are leaves the records as they are."""

    async def story(world: World) -> None:
        queues = Measured(world, await world.roles())
        await enqueue(world, 30, "export")
        await queues.look()
        before = await queues.pressures()
        await queues.look()

        assert await queues.pressures() == before
        assert before["export"].since == world.clock.now() - 10.0

    play(tmp_path, story)


def test_a_gauge_with_an_expired_term_publishes_nothing(tmp_path: Path) -> None:
    """Another node measures now."""

    async def story(world: World) -> None:
        roles = await world.roles()
        await roles.resign()

        with pytest.raises(NotLeader):
            await Measured(world, roles).look()

    play(tmp_path, story)
