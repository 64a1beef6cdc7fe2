"""A copy that cannot be made is tried four times more, after 30, 60, 120 and 240 s, and then a person is alerted."""

from itertools import pairwise
from pathlib import Path

from ringrift.events.alert import Cleared, Raised
from ringrift.kernel.value import changed
from ringrift.pipeline.copies import WAITING
from ringrift.pipeline.line import Stage
from ringrift.sync.failed_copies import FAILED, FailedCopy
from unit.daemons.disks import Disks
from unit.pipeline.story import at
from unit.work.world import World, play


async def champion_on(world: World, disks: Disks, *nodes: str) -> str:
    """A line whose champion lies on the disks of *nodes*."""
    line = changed(at(Stage.COLLECTING, rounds=0).line, pending=(), window=())
    blobs = [disks[node].add(b"champion") for node in nodes]
    await world.keep(changed(line, champion=blobs[0], counts=type(line.counts)()))
    await world.hold(blobs[0], *nodes)
    return blobs[0]


async def rows(world: World) -> list[FailedCopy]:
    """The copies that could not be made yet."""
    async with world.store.read() as view:
        return await FAILED.all(view)


def test_a_failed_copy_is_tried_again_until_a_person_is_alerted(tmp_path: Path) -> None:
    """Each try waits twice as long as the one before, on the observer's clock; then there are no more."""

    async def story(world: World) -> None:
        disks, roles = Disks(world), await world.roles()
        await champion_on(world, disks, "a")
        disks.fill("b")
        tries = list[float]()
        for second in range(0, 900, 5):
            for node in ("a", "b"):
                await world.beat(node)
            await disks.replicate(roles)
            if await disks.do_jobs():
                tries.append(second)
            world.clock.seconds += 5

        waits = [later - earlier for earlier, later in pairwise(tries)]
        assert all(0 <= wait - least <= 10 for wait, least in zip(waits, [30, 60, 120, 240], strict=True))
        [row] = await rows(world)
        assert (row.target, row.failures, row.given_up) == ("b", 5, True)
        [alert] = await world.events(Raised)
        assert (alert.kind, alert.subject) == ("copy_failed", "b")
        assert "no room left" in alert.detail

    play(tmp_path, story)


def test_a_copy_that_arrives_ends_the_tries_and_the_alert(tmp_path: Path) -> None:
    """However it came: the row goes with the receipt, and the alert of the last one that was given up is closed."""

    async def story(world: World) -> None:
        disks = Disks(world)
        blob = await champion_on(world, disks, "a")
        row = FailedCopy(blob=blob, target="b", kind="model", variant="v", error="full", failures=5, given_up=True)
        other = changed(row, blob="0" * 64)
        async with world.store.begin() as tx:
            await FAILED.put(tx, [row, other])

        await disks.transfer.copy(blob, "b")
        assert await rows(world) == [other]
        assert await world.events(Cleared) == []
        async with world.store.begin() as tx:
            await FAILED.put(tx, [row])
            await FAILED.delete(tx, [other.id])
        await disks.transfer.copy(blob, "b")

        assert await rows(world) == []
        assert await world.events(Cleared) == [Cleared(kind="copy_failed", subject="b")]

    play(tmp_path, story)


def test_what_nobody_waits_for_is_not_tried_again(tmp_path: Path) -> None:
    """A target that has left, or holds the file by now, and a file that no node has any more."""

    async def story(world: World) -> None:
        disks, roles = Disks(world), await world.roles()
        blob = await champion_on(world, disks, "a", "b")
        for node in ("a", "b"):
            await world.beat(node)
        facts = {"kind": "model", "variant": "v", "error": "away"}
        failed = [
            FailedCopy(blob=blob, target="left", **facts),
            FailedCopy(blob=blob, target="b", **facts),
            FailedCopy(blob="0" * 64, target="a", **facts),
        ]
        async with world.store.begin() as tx:
            await FAILED.put(tx, failed)

        await disks.replicate(roles)

        assert await rows(world) == []
        assert await disks.do_jobs() == 0

    play(tmp_path, story)


def test_why_copies_wait_is_written_down(tmp_path: Path) -> None:
    """The last look tells the rule, how many wait by it, and one of them."""

    async def story(world: World) -> None:
        disks, roles = Disks(world), await world.roles()
        blob = await champion_on(world, disks, "a")
        await world.beat("a")

        await disks.replicate(roles)

        async with world.store.read() as view:
            assert await WAITING.get(view, "last") == {"there is no other node": (1, blob)}
        await world.beat("b")
        await disks.replicate(roles)
        async with world.store.read() as view:
            assert await WAITING.get(view, "last") == {}

    play(tmp_path, story)
