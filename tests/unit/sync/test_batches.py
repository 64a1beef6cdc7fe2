"""Many small blobs come in few streams and stay packs; what does not come whole that way comes one by one."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringrift.kernel.transfer_settings import LinkSettings
from ringrift.sync import batches, ledger
from ringrift.sync.receipts import receipts_of
from ringrift.sync.transfer import Transfer
from unit.sync.links import BatchWire, Network
from unit.sync.test_resume import with_silent_folders
from unit.sync.test_transfer import Nodes
from unit.work.world import World


@pytest.mark.parametrize(("fault", "singles"), [(None, 0), (("flip", 7), 1), (("cut", 12), 12), (("hang", 12), 12)])
def test_many_small_blobs_come_in_one_stream(tmp_path: Path, fault: tuple[str, int] | None, singles: int) -> None:
    """They are kept as a pack; what does not come whole that way is fetched one by one, and each has its receipt."""

    async def story(world: World, nodes: Nodes) -> None:
        blobs = [await nodes.put(bytes([number]), "far") for number in range(24)]
        async with world.store.begin() as tx:
            await ledger.add(tx, [(blob, "far", 1) for blob in blobs])
        wire = BatchWire("wire", nodes.folders, fault)
        here, limits = nodes.folders["here"], LinkSettings(silence_seconds_max=0.5)
        parts = {"endpoints": Network(wire), "limits": limits, "clock": world.clock}
        transfer = Transfer("here", world.store, here, nodes.reach, world.envelopes, **parts)

        await transfer.fetch(blobs)

        assert (wire.streams, len(wire.offsets)) == (1, singles)
        assert await here.have(blobs) == set(blobs)
        assert await here.verify(blobs) == []
        assert len(list((here.folder.root / "packs").glob("*.pack"))) == 1
        async with world.store.read() as view:
            receipts = [await receipts_of(view, blob) for blob in blobs]
        assert [[row.node for row in rows] for rows in receipts] == 24 * [["here"]]

    with_silent_folders(tmp_path, story)


def test_a_stream_that_breaks_fails_its_link(tmp_path: Path) -> None:
    """What came before the break counts, and the breaker of the link is told."""

    async def story(world: World, nodes: Nodes) -> None:
        blobs = [await nodes.put(bytes([number]), "far") for number in range(20)]
        async with world.store.begin() as tx:
            await ledger.add(tx, [(blob, "far", 1) for blob in blobs])
        network = Network(BatchWire("wire", nodes.folders, ("cut", 5)))
        transfer = Transfer(
            "here",
            world.store,
            nodes.folders["here"],
            nodes.reach,
            world.envelopes,
            clock=world.clock,
            endpoints=network,
        )

        await transfer.fetch(blobs)

        assert network.reports == [("far", "wire", False), *15 * [("far", "wire", True)]]

    with_silent_folders(tmp_path, story)


@given(st.lists(st.integers(1, 1 << 20), max_size=600))
def test_streams_are_neither_long_nor_large(sizes: list[int]) -> None:
    """Every blob is in one of them, in order."""
    names = {str(number): size for number, size in enumerate(sizes)}

    streams = batches.split(list(names), names)

    assert [name for stream in streams for name in stream] == list(names)
    assert all(sum(names[name] for name in stream) <= 1 << 28 for stream in streams)


def test_blobs_are_grouped_by_the_holder_that_has_most() -> None:
    """Large ones, ones of unknown size and those of holders with few are left to other ways."""
    few = {f"few{number}": (["c"], 1) for number in range(batches.BATCH_MIN - 1)}
    many = {f"many{number}": (["a", "b", "here"] if number else ["b", "here"], 1) for number in range(20)}
    odd = {"large": (["b"], 1 << 30), "unknown": (["b"], 0), "here": (["here"], 1)}

    groups = batches.group([*few, *many, *odd], few | many | odd, "here")

    assert groups == {"b": list(many)}
