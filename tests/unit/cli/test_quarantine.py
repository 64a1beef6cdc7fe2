"""Damaged files are listed, and return into service only if their bytes are right."""

from pathlib import Path

import pytest

from ringrift.blobs.folder import Folder
from ringrift.cluster.roster import NodeRecord
from ringrift.kernel.errors import Corrupt, InputError, UnknownName
from unit.cli.command_output import ask
from unit.work.world import World, play


async def damage(world: World, folder: Folder, data: bytes) -> str:
    """A blob whose bytes were found to be wrong, on a node of this machine."""
    folder.mark()
    await world.roster.put(NodeRecord(id="here", profile="full", address=str(folder.root), beat=1))
    blob = folder.put(data)
    folder.path(blob).write_bytes(b"damaged")
    with pytest.raises(Corrupt):
        folder.open(blob)
    return blob


def test_damaged_files_are_listed(tmp_path: Path) -> None:
    """With their node and size; a node whose disk is away does not keep the others from being listed."""

    async def story(world: World) -> None:
        blob = await damage(world, Folder(tmp_path / "blobs", "here"), b"games")
        await world.roster.put(NodeRecord(id="there", profile="full", address="/nowhere", beat=1))

        output = await ask(world.store, "quarantine", "list")

        assert output.value[0]["file"] == blob
        assert (output.value[0]["node"], output.value[0]["size"]) == ("here", 7)
        assert blob[:12] in output.text

    play(tmp_path, story)


def test_a_file_returns_only_with_the_right_bytes(tmp_path: Path) -> None:
    """Wrong bytes are refused and stay; once they are right, the node holds the file again."""

    async def story(world: World) -> None:
        folder = Folder(tmp_path / "blobs", "here")
        blob = await damage(world, folder, b"games")
        with pytest.raises(InputError, match=f"data where {blob[:12]}"):
            await ask(world.store, "quarantine", "release", blob)
        assert (folder.root / "bad" / blob).exists()
        assert folder.have([blob]) == set()

        (folder.root / "bad" / blob).write_bytes(b"games")
        output = await ask(world.store, "quarantine", "release", blob[:8])

        assert "in service again" in output.text
        assert folder.open(blob).read_bytes() == b"games"
        assert not (folder.root / "bad" / blob).exists()
        assert await world.holders(blob) == ["here"]

    play(tmp_path, story)


def test_other_names_are_those_of_nodes(tmp_path: Path) -> None:
    """A few characters never mean a file, and what is neither a file nor a node is refused."""

    async def story(world: World) -> None:
        blob = await damage(world, Folder(tmp_path / "blobs", "here"), b"games")

        for name in (blob[:5], "f" * 64):
            with pytest.raises(UnknownName):
                await ask(world.store, "quarantine", "release", name)

    play(tmp_path, story)
