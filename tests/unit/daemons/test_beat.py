"""With every beat a node says what it does, and when its health changes it says so once."""

import asyncio
from pathlib import Path

from ringrift.cluster.activity import Activity
from ringrift.cluster.roster import NodeRecord
from ringrift.daemons.beat import beat
from ringrift.events.health import Changed
from ringrift.events.work import Progressed
from ringrift.supervision.supervisor import Supervisor
from unit.supervision.watched import PARTS, QUICK, health, supervisor, ticking
from unit.work.world import World, play
from waiting import wait_until

RECORD = NodeRecord(id="here", profile="full", address="/blobs", beat=0)


class Heart:
    """The daemon with the parts of one life of its node."""

    def __init__(self, world: World, sup: Supervisor) -> None:
        self.world, self.supervisor, self.activity = world, sup, Activity("here")

    async def beats(self) -> list[tuple[str, str]]:
        """Beat once; every change of health that has been told so far."""
        await beat(
            roster=self.world.roster, record=RECORD, clock=self.world.clock, activity=self.activity,
            supervisor=self.supervisor, router=self.world.router,
        )  # fmt: skip
        return [(said.before, said.status) for said in await self.world.told(Changed)]


def test_a_beat_says_what_the_node_does(tmp_path: Path) -> None:
    """What was told of a job stands in the node's record with the next beat."""

    async def story(world: World) -> None:
        heart = Heart(world, supervisor(world))
        event = Progressed(job="j", kind="train", variant="hex8_2p", node="here", done=0.4)
        await heart.activity.hear(event, world.envelope(event))

        await heart.beats()

        [found] = await world.roster.everyone()
        assert [(job.kind, job.variant, job.done) for job in found.doing.jobs] == [("train", "hex8_2p", 0.4)]

    play(tmp_path, story)


def test_a_node_that_starts_well_says_nothing_of_its_health(tmp_path: Path) -> None:
    """Parts that are not ready yet are no news, and neither are parts that are well."""

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


def test_a_change_for_the_worse_and_for_the_better_is_told_once_each(tmp_path: Path) -> None:
    """A daemon that is given up makes its node unhealthy; cleared by hand it makes it healthy again."""

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
            for wrong in runs:
                raise wrong
            done.set()

        async with sup.run([ticking("weak", body)], PARTS, "full"):
            await done.wait()
            await wait_until(lambda: health(sup, "weak").reason.startswith("1 recent"))
            assert await heart.beats() == [("healthy", "degraded")]
            world.clock.seconds += QUICK.seconds
            await wait_until(lambda: health(sup, "weak").reason == "")

            assert (await heart.beats())[1:] == [("degraded", "healthy")]

    play(tmp_path, story)
