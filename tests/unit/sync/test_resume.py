"""A transfer goes on where it broke off, over transports, holders and restarts, and never publishes a bad file."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from ringrift.blobs.folder import FolderBlobs
from ringrift.kernel.errors import NodeAway, NoRoom, NoRoute
from ringrift.sim.blobs import MemoryBlobs
from ringrift.sync.receipts import TRAFFIC, Receipt, measured_links, receipts_of
from ringrift.sync.transfer import Transfer
from ringrift.sync.transports.ports import Endpoint
from ringrift.sync.wants import TransferClass
from unit.sync.links import Network, Post, Wire
from unit.sync.test_transfer import Nodes
from unit.work.world import World, play

DATA = b"0123456789abcdefghijklmnopqrstuvwxyz"
_Story = Callable[[World, Nodes], Coroutine[None, None, None]]


def with_silent_folders(folder: Path, story: _Story) -> None:
    """Run *story* with nodes whose folders nobody else can open: only transports reach them."""

    async def whole(world: World) -> None:
        nodes = Nodes(folder)
        nodes.silent = {"near", "far"}
        await story(world, nodes)

    play(folder, whole)


def transfer_of(world: World, nodes: Nodes, network: Network) -> Transfer:
    """The transfer of the node "here", as after a start."""
    here = FolderBlobs(nodes.folders["here"].folder.root)
    return Transfer("here", world.store, here, nodes.reach, world.envelopes, clock=world.clock, endpoints=network)


async def receipt_of(world: World, blob: str, node: str = "here") -> Receipt:
    """The receipt of the copy of *blob* on *node*."""
    async with world.store.read() as view:
        [receipt] = [row for row in await receipts_of(view, blob) if row.node == node]
    return receipt


def test_the_next_transport_goes_on_where_the_first_broke_off(tmp_path: Path) -> None:
    """No byte moves twice, both links are reported, and the receipt names the link that ended it."""

    async def story(world: World, nodes: Nodes) -> None:
        blob = await nodes.put(DATA, "far")
        await world.hold(blob, "far")
        first, second = Wire("first", nodes.folders, ("cut", 21)), Wire("second", nodes.folders)
        network = Network(first, second)

        assert await transfer_of(world, nodes, network).copy(
            blob, "here", transfer_class=TransferClass.CHAMPION
        ) == len(DATA)

        assert (first.offsets, second.offsets, first.carried + second.carried) == ([0], [20], len(DATA))
        assert network.reports == [("far", "first", False), ("far", "second", True)]
        receipt = await receipt_of(world, blob)
        assert (receipt.source, receipt.transport, receipt.size) == ("far", "second", len(DATA))
        assert (receipt.resumed, receipt.transfer_class) == (20, "champion")

    with_silent_folders(tmp_path, story)


def test_a_transfer_goes_on_after_a_restart(tmp_path: Path) -> None:
    """What had arrived when the process ended is not sent again, whoever sends the rest."""

    async def story(world: World, nodes: Nodes) -> None:
        blob = await nodes.put(DATA, "far", "near")
        await world.hold(blob, "far", "near")
        before, after = Wire("wire", nodes.folders, ("cut", 14), ("cut", 10)), Wire("wire", nodes.folders)

        with pytest.raises(NoRoute) as no_route:
            await transfer_of(world, nodes, Network(before)).copy(blob, "here")
        await transfer_of(world, nodes, Network(after)).copy(blob, "here")

        assert not no_route.value.gone
        assert (before.offsets, after.offsets) == ([0, 12], [20])
        assert before.carried + after.carried == len(DATA)
        assert await nodes.folders["here"].parts() == []

    with_silent_folders(tmp_path, story)


@pytest.mark.parametrize("fault", [("flip", 5), ("end", 9)])
def test_damage_on_the_way_is_not_the_holders_fault(tmp_path: Path, fault: tuple[str, int]) -> None:
    """The next transport brings it whole, the ledger still lists the holder, and the first link has failed."""

    async def story(world: World, nodes: Nodes) -> None:
        blob = await nodes.put(DATA, "far")
        await world.hold(blob, "far")
        network = Network(Wire("binary", nodes.folders, fault), Wire("text", nodes.folders))

        await transfer_of(world, nodes, network).copy(blob, "here")

        assert network.reports == [("far", "binary", False), ("far", "text", True)]
        assert await world.holders(blob) == ["far", "here"]
        assert (await receipt_of(world, blob)).resumed == 0

    with_silent_folders(tmp_path, story)


def test_bytes_that_an_earlier_try_left_are_not_believed(tmp_path: Path) -> None:
    """A power cut may have garbled a part: then all is fetched again, and no holder is blamed."""

    async def story(world: World, nodes: Nodes) -> None:
        blob = await nodes.put(DATA, "far")
        await world.hold(blob, "far")
        wire = Wire("wire", nodes.folders, ("cut", 16))
        with pytest.raises(NoRoute):
            await transfer_of(world, nodes, Network(wire)).copy(blob, "here")
        [part] = (nodes.folders["here"].folder.root / "partial").iterdir()
        part.write_bytes(b"?" * part.stat().st_size)

        network = Network(wire)
        await transfer_of(world, nodes, network).copy(blob, "here")

        assert wire.offsets == [0, 16, 0]
        assert network.reports == [("far", "wire", True)]
        assert await world.holders(blob) == ["far", "here"]

    with_silent_folders(tmp_path, story)


def test_a_link_whose_breaker_is_open_is_not_tried(tmp_path: Path) -> None:
    """The next way is taken at once."""

    async def story(world: World, nodes: Nodes) -> None:
        blob = await nodes.put(DATA, "far")
        await world.hold(blob, "far")
        broken, other = Wire("broken", nodes.folders), Wire("other", nodes.folders)
        network = Network(broken, other)
        network.broken = {("far", "broken")}

        await transfer_of(world, nodes, network).copy(blob, "here")

        assert (broken.offsets, other.offsets) == ([], [0])

    with_silent_folders(tmp_path, story)


def test_a_full_disk_keeps_no_part(tmp_path: Path) -> None:
    """The bytes that arrived are deleted, since others need the room, and the error is that of the target."""

    class SmallBlobs(MemoryBlobs):
        def _mounted(self) -> dict[str, bytes]:
            if sum(map(len, self.partial.values())) > 8:
                raise NoRoom("small")
            return super()._mounted()

    async def story(world: World, nodes: Nodes) -> None:
        blob = await nodes.put(DATA, "far")
        await world.hold(blob, "far")
        small, wire = SmallBlobs(), Wire("wire", nodes.folders)
        transfer = Transfer(
            "here", world.store, small, nodes.reach, world.envelopes, clock=world.clock, endpoints=Network(wire)
        )

        with pytest.raises(NoRoom):
            await transfer.copy(blob, "here")

        assert small.partial == {}
        assert await world.holders(blob) == ["far"]

    with_silent_folders(tmp_path, story)


def test_a_blob_is_pushed_to_a_node_that_cannot_be_read(tmp_path: Path) -> None:
    """A push that broke off goes on where it was; the receipt counts what was sent in the end."""

    async def story(world: World, nodes: Nodes) -> None:
        blob = await nodes.put(DATA, "here")
        await world.hold(blob, "here")
        transfer = transfer_of(world, nodes, Network(Post(nodes.folders, pieces=1)))

        with pytest.raises(NodeAway, match="far"):
            await transfer.copy(blob, "far")
        assert await transfer.copy(blob, "far") == len(DATA)

        assert await nodes.have(blob) == ["here", "far"]
        receipt = await receipt_of(world, blob, "far")
        assert (receipt.source, receipt.transport, receipt.resumed) == ("here", "post", len(DATA) // 2)
        assert await world.holders(blob) == ["far", "here"]

    with_silent_folders(tmp_path, story)


def test_a_hub_counts_by_the_ledger_while_it_can_be_reached(tmp_path: Path) -> None:
    """A machine that runs nothing of ours cannot be asked about files: its room tells whether it is there."""

    async def story(world: World, nodes: Nodes) -> None:
        blob = await nodes.put(DATA, "here")
        await world.hold(blob, "here")
        post = Post(nodes.folders)
        network = Network(Wire("wire", nodes.folders), post)
        network.hub_names, post.rooms = ("far", "near"), {"far": 100, "near": 9}
        post.away = {"near"}
        transfer = transfer_of(world, nodes, network)

        await transfer.copy(blob, "far")

        assert await transfer.hubs.rooms() == {"far": 100, "near": None}
        assert await transfer.find_holders(blob, ["here"]) == ["here", "far"]
        assert await transfer.find_away(["here", "far", "near"]) == {"near"}
        post.away = {"far"}
        assert await transfer.find_away(["far"]) == set()
        world.clock.seconds += 20
        assert await transfer.find_away(["here", "far"]) == {"far"}
        assert await world.holders(blob) == ["far", "here"]

    with_silent_folders(tmp_path, story)


def test_a_transfer_that_waits_for_its_first_byte_is_alive(tmp_path: Path) -> None:
    """Connecting, waiting in line and hashing take time in which no byte moves: progress is reported all the same."""

    async def story(world: World) -> None:
        near, reports, enough = MemoryBlobs(), list[int](), asyncio.Event()
        blob = near.add(DATA)
        await world.hold(blob, "near")

        class SlowWire(Wire):
            async def read(self, endpoint: Endpoint, blob: str, offset: int) -> AsyncIterator[bytes]:
                await enough.wait()
                async for chunk in super().read(endpoint, blob, offset):
                    yield chunk

        async def reach(node: str) -> MemoryBlobs:
            raise NodeAway(node)

        def report() -> None:
            reports.append(1)
            if len(reports) == 3:
                enough.set()

        network = Network(SlowWire("wire", {"near": near}))
        transfer = Transfer(
            "here", world.store, MemoryBlobs(), reach, world.envelopes, clock=world.clock, endpoints=network
        )
        assert await transfer.copy(blob, "here", report) == len(DATA)

    play(tmp_path, story, simulated=True)


def test_receipts_add_up_and_go_with_their_copies(tmp_path: Path) -> None:
    """Sums for each node outlive the receipts of copies that the ledger forgets."""

    async def story(world: World, nodes: Nodes) -> None:
        blob = await nodes.put(DATA, "far")
        await world.hold(blob, "far")
        nodes.silent = set()
        transfer = transfer_of(world, nodes, Network())

        await transfer.copy(blob, "here")
        await transfer.copy(blob, "near")
        nodes.folders["near"].folder.path(blob).unlink()
        assert await transfer.find_holders(blob, []) == ["far", "here"]

        async with world.store.read() as view:
            assert [receipt.node for receipt in await receipts_of(view, blob)] == ["here"]
            sums = {row.node: (row.received_bytes, row.sent_bytes) for row in await TRAFFIC.all(view)}
            links = [(link.source, link.transport) for link in await measured_links(view)]
        assert sums == {"here": (36, 0), "near": (36, 0), "far": (0, 72)}
        assert links == [("far", "folder")]

    with_silent_folders(tmp_path, story)


@pytest.mark.parametrize("seed", range(100))
def test_no_fault_on_the_way_publishes_a_bad_file(tmp_path: Path, seed: int) -> None:
    """Cut, damaged and shortened at random bytes, with restarts between: whole in the end, and never anything else."""

    async def story(world: World, nodes: Nodes) -> None:
        rng = Random(seed)
        data = rng.randbytes(rng.randint(1, 200))
        blob = await nodes.put(data, "far", "near")
        await world.hold(blob, "far", "near")
        wires = [Wire(name, nodes.folders) for name in ("first", "second")]
        for _ in range(rng.randint(1, 6)):
            for wire in wires:
                wire.faults = [(rng.choice(["cut", "flip", "end"]), rng.randrange(len(data))) for _ in range(2)]
            with suppress(NoRoute):
                await transfer_of(world, nodes, Network(*wires)).copy(blob, "here")
            here = nodes.folders["here"].folder.path(blob)
            assert not here.exists() or here.read_bytes() == data

        for wire in wires:
            wire.faults = []
        await transfer_of(world, nodes, Network(*wires)).copy(blob, "here")
        assert nodes.folders["here"].folder.open(blob).read_bytes() == data
        assert await world.holders(blob) == ["far", "here", "near"]

    with_silent_folders(tmp_path, story)
