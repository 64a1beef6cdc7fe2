"""A blob comes from any node with a good copy, and a node without one is removed from the ledger."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ringrift.blobs.folder import FolderBlobs
from ringrift.kernel.errors import NodeAway, NoRoute
from ringrift.sync.transfer import Transfer
from unit.work.world import World, play


class Nodes:
    """Folders of three nodes, and which of them answer."""

    def __init__(self, root: Path) -> None:
        self.folders = {name: FolderBlobs(root / name) for name in ("here", "near", "far")}
        self.silent: set[str] = set()

    async def reach(self, node: str) -> FolderBlobs:
        if node in self.silent or node not in self.folders:
            raise NodeAway(node)
        return self.folders[node]

    async def put(self, data: bytes, *nodes: str) -> str:
        for node in nodes:
            [blob] = await self.folders[node].put([data])
        return blob

    def damage(self, node: str, blob: str) -> None:
        path = self.folders[node].folder.path(blob)
        path.write_bytes(path.read_bytes()[:-1] + b"!")

    async def have(self, blob: str) -> Sequence[str]:
        return [name for name, folder in self.folders.items() if await folder.have([blob])]


def with_nodes(folder: Path, story: Callable[[World, Nodes, Transfer], object]) -> None:
    """Run *story* with three nodes, of which this one is "here"."""

    async def whole(world: World) -> None:
        nodes = Nodes(folder)
        await story(
            world,
            nodes,
            Transfer("here", world.store, nodes.folders["here"], nodes.reach, world.envelopes, clock=world.clock),
        )

    play(folder, whole)


def test_a_blob_is_fetched_once(tmp_path: Path) -> None:
    """It comes from a holder, is recorded, moves its bytes once, and is there the next time."""

    async def story(world: World, nodes: Nodes, transfer: Transfer) -> None:
        blob = await nodes.put(b"games", "far")
        await world.hold(blob, "far")
        moves: list[int] = []

        await transfer.fetch([blob], lambda: moves.append(1))
        await transfer.fetch([blob], lambda: moves.append(1))

        assert await nodes.have(blob) == ["here", "far"]
        assert await world.holders(blob) == ["far", "here"]
        assert moves == [1]
        assert await transfer.copy(blob, "here") == 0
        assert await transfer.copy(blob, "near") == 5

    with_nodes(tmp_path, story)


@pytest.mark.parametrize("fault", ["corrupt", "absent"])
def test_the_second_holder_helps_when_the_first_cannot(tmp_path: Path, fault: str) -> None:
    """A corrupt or missing copy is struck off the ledger, and the next holder's good one is taken."""

    async def story(world: World, nodes: Nodes, transfer: Transfer) -> None:
        blob = await nodes.put(b"a model", "near", "far")
        await world.hold(blob, "far", "near")
        if fault == "corrupt":
            nodes.damage("far", blob)
        else:
            nodes.folders["far"].folder.path(blob).unlink()

        await transfer.fetch([blob])

        assert await nodes.have(blob) == ["here", "near"]
        assert await world.holders(blob) == ["here", "near"]

    with_nodes(tmp_path, story)


def test_a_holder_that_does_not_answer_is_passed_over_but_not_struck_off(tmp_path: Path) -> None:
    """Silence proves nothing: the ledger keeps what the node may hold still."""

    async def story(world: World, nodes: Nodes, transfer: Transfer) -> None:
        blob = await nodes.put(b"a model", "near", "far")
        await world.hold(blob, "far", "near")
        nodes.silent = {"far"}

        await transfer.fetch([blob])

        assert await world.holders(blob) == ["far", "here", "near"]

    with_nodes(tmp_path, story)


def test_a_blob_of_a_silent_node_is_not_lost(tmp_path: Path) -> None:
    """There is no route now, but the last copy is not reported as lost."""

    async def story(world: World, nodes: Nodes, transfer: Transfer) -> None:
        blob = await nodes.put(b"a model", "far")
        await world.hold(blob, "far", "near")
        nodes.silent = {"far"}

        with pytest.raises(NoRoute) as lost:
            await transfer.fetch([blob])

        assert (lost.value.tried, lost.value.gone) == (("far", "near"), False)
        assert await world.holders(blob) == ["far"]

    with_nodes(tmp_path, story)


def test_without_a_good_copy_there_is_no_route(tmp_path: Path) -> None:
    """The error names the blob and every tried node, and nothing half-done is left."""

    async def story(world: World, nodes: Nodes, transfer: Transfer) -> None:
        blob = await nodes.put(b"a model", "near", "far")
        await world.hold(blob, "far", "near")
        nodes.damage("far", blob)
        nodes.damage("near", blob)

        with pytest.raises(NoRoute) as lost:
            await transfer.fetch([blob])
        with pytest.raises(NoRoute, match="no known holder"):
            await transfer.fetch([blob])

        assert (lost.value.blob, lost.value.tried, lost.value.gone) == (blob, ("far", "near"), True)
        assert await nodes.have(blob) == []
        assert await world.holders(blob) == []
        assert list((tmp_path / "here" / "partial").iterdir()) == []

    with_nodes(tmp_path, story)


def test_the_source_is_tried_first_even_if_it_is_not_in_the_ledger(tmp_path: Path) -> None:
    """The maker of a blob has it before the ledger lists it."""

    async def story(world: World, nodes: Nodes, transfer: Transfer) -> None:
        blob = await nodes.put(b"fresh games", "near")

        size = await transfer.copy(blob, "here", source="near")

        assert size == 11
        assert await world.holders(blob) == ["here"]

    with_nodes(tmp_path, story)


def test_a_copy_can_be_brought_to_another_node(tmp_path: Path) -> None:
    """This node sends what it has, and the ledger learns of it."""

    async def story(world: World, nodes: Nodes, transfer: Transfer) -> None:
        blob = await nodes.put(b"champion", "here")

        await transfer.copy(blob, "far", source="here")

        assert await nodes.have(blob) == ["here", "far"]
        assert await world.holders(blob) == ["far"]

    with_nodes(tmp_path, story)


def test_holders_are_queried_and_the_ledger_is_corrected(tmp_path: Path) -> None:
    """Holders with the blob count, those that answer without it are removed, silent ones stay listed."""

    async def story(world: World, nodes: Nodes, transfer: Transfer) -> None:
        blob = await nodes.put(b"games", "here")
        await world.hold(blob, "near", "far")
        nodes.silent = {"far"}

        have = await transfer.find_holders(blob, ["here"])

        assert have == ["here"]
        assert await world.holders(blob) == ["far", "here"]

    with_nodes(tmp_path, story)
