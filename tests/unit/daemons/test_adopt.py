"""Files that no record lists are adopted: listed, reported, and not deleted before a person could notice."""

from pathlib import Path

from ringrift.daemons.adopt import SPEC, adopt, adopt_left_over
from ringrift.events.data import Adopted
from ringrift.jobs import Verify
from ringrift.sync.orphans import ADOPTIONS
from unit.pipeline.blob_rig import DAY, Shelf, collecting, made, write
from unit.pipeline.story import VARIANT, blob
from unit.work.world import World, play


class Rig:
    """The blobs of one node, and the daemon that adopts."""

    def __init__(self, world: World) -> None:
        self.world, self.shelf = world, Shelf(world)
        assert SPEC.memory is not None
        self.memory = SPEC.memory()

    async def look(self) -> int:
        """Look once, a minute after the look before."""
        self.world.clock.seconds += 60.0
        world, blobs = self.world, self.shelf.blobs
        return await adopt(
            store=world.store, blobs=blobs, envelopes=world.envelopes, clock=world.clock, memory=self.memory
        )

    async def bring(self, *names: str) -> list[str]:
        """Store files that no record mentions."""
        return list(await self.shelf.blobs.put([name.encode() for name in names]))


def test_an_orphan_is_adopted_at_the_second_look(tmp_path: Path) -> None:
    """A file may be on its way into the records at the first; then it is listed and reported once."""

    async def story(world: World) -> None:
        rig = Rig(world)
        [listed] = await rig.shelf.put("listed")
        [orphan, recorded] = await rig.bring("orphan", "recorded")
        await write(world, made(recorded, "games", 0.0))

        assert [await rig.look() for _ in range(3)] == [0, 2, 0]

        assert await world.holders(orphan) == await world.holders(recorded) == await world.holders(listed) == ["here"]
        assert await world.events(Adopted) == [Adopted(node="here", blobs=(orphan,), count=1, bytes=6)]
        async with world.store.read() as view:
            assert list(await ADOPTIONS.scan(view)) == [orphan]

    play(tmp_path, story)


def test_what_went_between_two_looks_is_not_adopted(tmp_path: Path) -> None:
    """A file that was deleted meanwhile, or is listed by now, is no orphan."""

    async def story(world: World) -> None:
        rig = Rig(world)
        [deleted, listed] = await rig.bring("deleted", "listed")
        await rig.look()
        del rig.shelf.blobs.files[deleted]
        await world.hold(listed, "here")

        assert [await rig.look() for _ in range(2)] == [0, 0]
        assert await world.holders(deleted) == []
        assert await world.events(Adopted) == []

    play(tmp_path, story)


def test_a_file_of_a_job_that_runs_is_none(tmp_path: Path) -> None:
    """What was stored since the oldest job under way began may be its output; when it has ended, it is an orphan."""

    async def story(world: World) -> None:
        rig = Rig(world)
        [older] = await rig.bring("older")
        world.clock.seconds += 1.0
        await world.claim(Verify(variant=VARIANT, model=blob("m")))
        world.clock.seconds += 1.0
        [output] = await rig.bring("output")

        assert [await rig.look() for _ in range(3)] == [0, 1, 0]
        assert await world.holders(older) == ["here"]
        assert await world.holders(output) == []

    play(tmp_path, story)


def test_a_node_that_starts_adopts_at_once(tmp_path: Path) -> None:
    """What a crash has left is listed before the node does anything else."""

    async def story(world: World) -> None:
        rig = Rig(world)
        names = await rig.bring(*(f"orphan {number}" for number in range(450)))

        await adopt_left_over(world.store, rig.shelf.blobs, world.envelopes, world.clock)

        events = await world.events(Adopted)
        assert [event.count for event in events if isinstance(event, Adopted)] == [200, 200, 50]
        async with world.store.read() as view:
            assert set(await ADOPTIONS.scan(view)) == set(names)

    play(tmp_path, story)


def test_an_adopted_file_has_its_time_of_grace_from_then_on(tmp_path: Path) -> None:
    """However old it looks: whoever brought it can still say what it is.  Then it goes, with its record."""

    async def story(world: World) -> None:
        rig = Rig(world)
        [champion] = await rig.shelf.put("champion")
        await world.keep(collecting(champion))
        [orphan] = await rig.bring("orphan")
        world.clock.seconds += 20 * DAY
        await rig.look()
        await rig.look()

        assert await rig.shelf.sweep() == {champion, orphan}
        world.clock.seconds += 4 * DAY
        assert await rig.shelf.sweep() == {champion, orphan}
        world.clock.seconds += 2 * DAY
        assert await rig.shelf.sweep() == {champion}
        async with world.store.read() as view:
            assert await ADOPTIONS.scan(view) == {}

    play(tmp_path, story)
