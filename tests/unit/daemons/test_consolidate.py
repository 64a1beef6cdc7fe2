"""Small files of games that rest are packed; nothing else is, and no reader notices."""

import os
from pathlib import Path

from ringrift.blobs.folder import FolderBlobs
from ringrift.daemons.consolidate import SPEC, consolidate
from ringrift.kernel.settings import Settings
from ringrift.kernel.transfer_settings import UpkeepSettings
from ringrift.kernel.value import changed
from unit.pipeline.blob_rig import DAY, made, write
from unit.work.world import World, play

SETTINGS = UpkeepSettings(rest_seconds=DAY, pack_files_min=4, small_bytes_max=1000)


class Rig:
    """The folder of one node, and the daemon that packs it."""

    def __init__(self, world: World, folder: Path, settings: UpkeepSettings = SETTINGS) -> None:
        self.world, self.blobs, self.settings = world, FolderBlobs(folder), settings
        assert SPEC.memory is not None
        self.memory = SPEC.memory()

    async def put(self, kind: str, *datas: bytes, days: float = 2.0) -> list[str]:
        """Store a file of *kind* for each of *datas*, as long ago as *days*."""
        names = list(await self.blobs.put(datas))
        time = self.world.clock.now() - days * DAY
        for name in names:
            os.utime(self.blobs.folder.path(name), (time, time))
        await write(self.world, *(made(name, kind, time) for name in names))
        return names

    async def look(self) -> int:
        """Look once, a while after everything was opened last."""
        clock = self.world.clock
        # The time of an inode cannot be set: files of tests were always changed just now, by the clock of the machine.
        newest = max((path.stat().st_ctime for path in self.blobs.folder.root.glob("??/*")), default=0.0)
        assert newest < clock.now() - self.settings.rest_seconds, "the clock of the test is ahead"
        settings = self.settings
        return await consolidate(
            store=self.world.store,
            blobs=self.blobs,
            envelopes=self.world.envelopes,
            clock=clock,
            settings=changed(Settings(), upkeep=settings),
            memory=self.memory,
        )

    def loose(self) -> set[str]:
        """The files of their own."""
        return {path.name for path in self.blobs.folder.root.glob("??/*")}


def test_small_games_that_rest_are_packed(tmp_path: Path) -> None:
    """Fresh, large and unknown files and those of other kinds stay as they are, and everything can be read."""

    async def story(world: World) -> None:
        world.clock.seconds += 1e9  # ahead of the machine's clock
        rig = Rig(world, tmp_path / "blobs")
        games = await rig.put("games", *(f"game {number}".encode() for number in range(6)))
        model = await rig.put("model", b"model")
        both = await rig.put("games", b"both")
        await write(world, changed(made(both[0], "samples", 0.0), node="there"))
        large = await rig.put("games", bytes(1001))
        fresh = await rig.put("games", b"fresh", days=0.5)
        unknown = list(await rig.blobs.put([b"unknown"]))
        os.utime(rig.blobs.folder.path(unknown[0]), (1.0, 1.0))

        assert await rig.look() == 6

        assert rig.loose() == {*model, *both, *large, *fresh, *unknown}
        assert await rig.blobs.have(games) == set(games)
        assert await rig.blobs.verify(games) == []
        assert await rig.look() == 0

    play(tmp_path, story)


def test_a_few_files_wait_for_others(tmp_path: Path) -> None:
    """A pack of two files is not worth its name; when enough are there, all go."""

    async def story(world: World) -> None:
        world.clock.seconds += 1e9
        rig = Rig(world, tmp_path / "blobs")
        await rig.put("games", b"a", b"b", b"c")
        assert await rig.look() == 0
        await rig.put("games", b"d")

        assert await rig.look() == 4
        assert len(list((tmp_path / "blobs" / "packs").glob("*.pack"))) == 1

    play(tmp_path, story)


def test_many_files_become_several_packs(tmp_path: Path) -> None:
    """No pack is larger than its limit, and a look goes through the whole folder."""

    async def story(world: World) -> None:
        world.clock.seconds += 1e9
        settings = UpkeepSettings(rest_seconds=DAY, pack_files_min=2, pack_bytes_max=1 << 16)
        rig = Rig(world, tmp_path / "blobs", settings)
        games = await rig.put("games", *(bytes([number]) * 30_000 for number in range(12)))

        for _ in range(3):
            await rig.look()

        packs = list((tmp_path / "blobs" / "packs").glob("*.pack"))
        assert rig.loose() == set()
        assert len(packs) >= 5
        assert max(pack.stat().st_size for pack in packs) < (1 << 16) + 1000
        assert await rig.blobs.verify(games) == []

    play(tmp_path, story)


def test_packs_of_which_little_is_left_are_written_anew(tmp_path: Path) -> None:
    """Deleted games give their room back even if nothing new is to be packed."""

    async def story(world: World) -> None:
        world.clock.seconds += 1e9
        rig = Rig(world, tmp_path / "blobs")
        games = await rig.put("games", *(bytes([number]) * 900 for number in range(8)))
        await rig.look()
        [pack] = (tmp_path / "blobs" / "packs").glob("*.pack")
        await rig.blobs.delete(games[:6], 1e12)

        assert await rig.look() == 0

        [smaller] = (tmp_path / "blobs" / "packs").glob("*.pack")
        assert smaller != pack
        assert smaller.stat().st_size < 3000
        assert await rig.blobs.have(games) == set(games[6:])

    play(tmp_path, story)
