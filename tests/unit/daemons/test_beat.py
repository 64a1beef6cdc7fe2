"""With every beat a node records its activity, and a change of its health is published once."""

import asyncio
from pathlib import Path

from ringrift.cluster.activity import ActivityTracker
from ringrift.cluster.facts import FactsMeter
from ringrift.cluster.roster import NodeRecord
from ringrift.daemons.beat import _ClockWatch, beat
from ringrift.events.health import Changed
from ringrift.events.work import Progressed
from ringrift.supervision.supervisor import Supervisor
from unit.supervision.watched import PARTS, QUICK, health, supervisor, ticking
from unit.work.world import World, play
from wait import wait_until

RECORD = NodeRecord(id="here", profile="full", address="/blobs", beat=0)


class Heart:
    """The daemon with the parts of one run of its node."""

    def __init__(self, world: World, sup: Supervisor) -> None:
        self.world, self.supervisor, self.activity = world, sup, ActivityTracker("here")

    async def beats(self) -> list[tuple[str, str]]:
        """Beat once; return every change of health published so far."""
        await beat(
            roster=self.world.roster,
            record=RECORD,
            clock=self.world.clock,
            activity=self.activity,
            supervisor=self.supervisor,
            router=self.world.router,
            facts=FactsMeter("", {}, None),
            memory=_ClockWatch(),
        )
        return [(event.before, event.status) for event in await self.world.events(Changed)]


def test_a_beat_records_the_activity_of_the_node(tmp_path: Path) -> None:
    """The published progress of a job stands in the node's record with the next beat."""

    async def story(world: World) -> None:
        heart = Heart(world, supervisor(world))
        event = Progressed(job="j", kind="train", variant="hex8_2p", node="here", done=0.4)
        await heart.activity.apply(event, world.envelope(event))

        await heart.beats()

        [actual] = await world.roster.all_nodes()
        assert [(job.kind, job.variant, job.done) for job in actual.activity.jobs] == [("train", "hex8_2p", 0.4)]

    play(tmp_path, story)


def test_a_healthy_start_publishes_no_change(tmp_path: Path) -> None:
    """Parts that are not ready yet do not count, and neither do healthy ones."""

    async def story(world: World) -> None:
        sup, ready = supervisor(world), asyncio.Event()
        heart = Heart(world, sup)

        async def slow() -> None:
            ready.set()
            await asyncio.Event().wait()

        async def quick() -> None:
            pass

        starting = sup.run([ticking("quick", quick), ticking("slow", slow)], PARTS, "full")
        opening = asyncio.create_task(starting.__aenter__())
        await ready.wait()
        assert await heart.beats() == []
        opening.cancel()
        await asyncio.wait([opening])

        assert await heart.beats() == []

    play(tmp_path, story)


def test_each_change_of_health_is_published_once(tmp_path: Path) -> None:
    """A daemon that is given up makes its node unhealthy; cleared by an operator it makes it healthy again."""

    async def story(world: World) -> None:
        sup, broken = supervisor(world), True
        heart = Heart(world, sup)

        async def body() -> None:
            if broken:
                raise ValueError("no")

        async with sup.run([ticking("weak", body)], PARTS, "full"):
            await wait_until(lambda: health(sup, "weak").reason.startswith("given up"))
            assert await heart.beats() == [("healthy", "unhealthy")]
            assert await heart.beats() == [("healthy", "unhealthy")]
            broken = False
            await sup.clear("weak")

            assert await heart.beats() == [("healthy", "unhealthy"), ("unhealthy", "healthy")]

    play(tmp_path, story)


def test_failures_are_forgotten_in_time(tmp_path: Path) -> None:
    """A daemon that failed is degraded; when it has worked for the time of its budget, its node is healthy again."""

    async def story(world: World) -> None:
        sup, done, runs = supervisor(world), asyncio.Event(), iter([ValueError("no")])
        heart = Heart(world, sup)

        async def body() -> None:
            for errors in runs:
                raise errors
            done.set()

        async with sup.run([ticking("weak", body)], PARTS, "full"):
            await done.wait()
            await wait_until(lambda: health(sup, "weak").reason.startswith("1 recent"))
            assert await heart.beats() == [("healthy", "degraded")]
            world.clock.seconds += QUICK.seconds
            await wait_until(lambda: health(sup, "weak").reason == "")

            assert (await heart.beats())[1:] == [("degraded", "healthy")]

    play(tmp_path, story)
