"""Files of a worker: inputs are fetched and outputs uploaded in pieces, verified, over breaks; the cache is bounded."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest

from ringrift.cluster.keys import StoredKey, store_keys
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import Corrupt, NoRoute
from ringrift.kernel.transfer_settings import BandwidthSettings
from ringrift.node import Node
from ringrift.sim.blobs import MemoryBlobs
from ringrift.sync.blob_messages import SMALL_BYTES_MAX
from ringrift.sync.remote_blobs import BlobCache
from ringrift.sync.shaper import Shaper
from ringrift.wire.connection import Connection
from ringrift.wire.ports import CHUNK_BYTES
from unit.worker_rig import ADDRESS, DirectWire, coordinator, key_of
from wait import wait_until

BIG = bytes(range(256)) * (5 * CHUNK_BYTES // 512)  # two and a half pieces
Story = Callable[[Node, DirectWire, BlobCache, MemoryBlobs], Awaitable[None]]


def run(tmp_path: Path, story: Story, **settings: object) -> None:
    """Run *story* with a cache whose key may read everything, and a coordinator with *settings*."""

    async def main() -> None:
        wire, blobs = DirectWire(), MemoryBlobs("w1")
        async with coordinator(tmp_path, wire, **settings) as node:
            scopes = ("play", "read")
            async with node.store.begin() as tx:
                await store_keys(tx, [StoredKey(node="w1", public=key_of("w1").public, scopes=scopes, profile="full")])
            connection = Connection(wire, [ADDRESS], key_of("w1"), Random(1), boot="b1")
            await story(node, wire, BlobCache(connection, blobs, SystemClock()), blobs)

    asyncio.run(main())


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, len(BIG)])
def test_a_file_arrives_whole_whatever_its_size(tmp_path: Path, size: int) -> None:
    """It is on the disk of the coordinator, verified, when the upload returns; once more costs no bytes."""

    async def story(node: Node, wire: DirectWire, cache: BlobCache, blobs: MemoryBlobs) -> None:
        blob = blobs.add(BIG[:size])
        await cache.upload([blob])
        is_same = b"".join([chunk async for chunk in node.blobs.read(blob)]) == BIG[:size]
        assert is_same
        writes = wire.calls["blob.write"]
        await cache.upload([blob])
        assert wire.calls["blob.write"] <= writes + 1

    run(tmp_path, story)


def test_replies_that_get_lost_damage_nothing(tmp_path: Path) -> None:
    """Both ways: a piece that was stored and is sent again, and one that is read twice."""

    async def story(node: Node, wire: DirectWire, cache: BlobCache, blobs: MemoryBlobs) -> None:
        wire.loses = {"blob.write", "blob.read", "blob.have"}
        blob = blobs.add(BIG)
        await cache.upload([blob])
        [other] = await node.blobs.put([BIG[::-1]])
        await cache.fetch([other])
        assert not await blobs.verify([other])
        assert not await node.blobs.verify([blob])
        assert wire.lost_replies["blob.write"] >= 2

    run(tmp_path, story)


def test_a_broken_upload_goes_on_where_it_was(tmp_path: Path) -> None:
    """After a break only the pieces that are missing are sent."""

    async def story(node: Node, wire: DirectWire, cache: BlobCache, blobs: MemoryBlobs) -> None:
        blob = blobs.add(BIG)
        task = asyncio.get_running_loop().create_task(cache.upload([blob]))
        await wait_until(lambda: wire.calls["blob.write"] >= 3)  # the question, and two of three pieces
        wire.is_cut = True
        await wait_until(lambda: wire.refused > 0)
        task.cancel()
        await asyncio.wait((task,))
        wire.is_cut, before = False, wire.calls["blob.write"]
        await cache.upload([blob])
        assert wire.calls["blob.write"] - before <= 2
        assert not await node.blobs.verify([blob])

    run(tmp_path, story)


def test_a_broken_upload_goes_on_in_the_next_coordinator(tmp_path: Path) -> None:
    """Only the pieces that had not arrived are sent, by a worker that was started anew as well."""

    async def main() -> None:
        wire, blobs = DirectWire(), MemoryBlobs("w1")
        blob, total = blobs.add(BIG), -(-len(BIG) // CHUNK_BYTES)
        async with coordinator(tmp_path, wire, "w1"):
            connection = Connection(wire, [ADDRESS], key_of("w1"), Random(1), boot="b1")
            upload = asyncio.get_running_loop().create_task(BlobCache(connection, blobs, SystemClock()).upload([blob]))
            await wait_until(lambda: wire.calls["blob.write"] >= 3)  # the question, and two of three pieces
            wire.is_cut = True
            upload.cancel()
            await asyncio.wait((upload,))
        wire.is_cut, before = False, wire.calls["blob.write"]
        async with coordinator(tmp_path, wire, "w1") as node:
            connection = Connection(wire, [ADDRESS], key_of("w1"), Random(2), boot="b2")
            await BlobCache(connection, blobs, SystemClock()).upload([blob])
            assert not await node.blobs.verify([blob])
            assert await node.blobs.have([blob])
        assert wire.calls["blob.write"] - before <= 1 + total - 1  # the question, and fewer pieces than the file has

    asyncio.run(main())


@pytest.mark.parametrize("damage", [b"", bytes(CHUNK_BYTES), BIG[:100]])
def test_an_upload_survives_what_a_power_cut_leaves_of_it(tmp_path: Path, damage: bytes) -> None:
    """Fewer bytes than the worker was told, or wrong ones: the file arrives whole all the same."""

    async def story(node: Node, wire: DirectWire, cache: BlobCache, blobs: MemoryBlobs) -> None:
        blob = blobs.add(BIG)
        folder = Path(node.settings.blobs.address()) / "partial"
        folder.mkdir()
        (folder / f"{blob}.w1").write_bytes(damage)
        await cache.upload([blob])
        assert not await node.blobs.verify([blob])
        assert await node.blobs.have([blob])

    run(tmp_path, story)


def test_a_file_that_is_damaged_here_is_not_delivered(tmp_path: Path) -> None:
    """Its name is the hash of its bytes, and the coordinator looks."""

    async def story(node: Node, wire: DirectWire, cache: BlobCache, blobs: MemoryBlobs) -> None:
        blob = blobs.add(b"games")
        blobs.files[blob] = b"gamez"
        with pytest.raises((Corrupt, NoRoute)):
            await cache.upload([blob])
        assert not await node.blobs.have([blob])

    run(tmp_path, story)


def test_many_that_wait_for_one_file_fetch_it_once(tmp_path: Path) -> None:
    """Jobs of one model start together; all of them report life while it comes."""

    async def story(node: Node, wire: DirectWire, cache: BlobCache, blobs: MemoryBlobs) -> None:
        [blob] = await node.blobs.put([BIG])
        beats = list[int]()
        await asyncio.gather(*(cache.fetch([blob], lambda number=n: beats.append(number)) for n in range(8)))
        assert wire.calls["blob.read"] == 3
        assert set(beats) == set(range(8))
        assert not await blobs.verify([blob])

    run(tmp_path, story)


def test_many_small_files_come_together(tmp_path: Path) -> None:
    """One question for many; what is large, and what the coordinator does not have, is asked for by itself."""

    async def story(node: Node, wire: DirectWire, cache: BlobCache, blobs: MemoryBlobs) -> None:
        small = await node.blobs.put([bytes([n]) * 30_000 for n in range(100)])
        large = await node.blobs.put([bytes([n]) * SMALL_BYTES_MAX + b"+" for n in range(3)])
        await cache.fetch([*small, *large])
        assert set(blobs.files) == {*small, *large}
        assert wire.calls["blob.read_many"] <= 5
        assert wire.calls["blob.read"] == len(large)

        more = await node.blobs.put([bytes([n]) * 7 for n in range(20)])
        with pytest.raises(NoRoute):
            await cache.fetch([*more, "f" * 64])
        assert set(more) <= set(blobs.files)

    run(tmp_path, story)


def test_small_files_that_were_damaged_do_not_come(tmp_path: Path) -> None:
    """What arrives has the name of its bytes, so nobody takes it for another file."""

    async def story(node: Node, wire: DirectWire, cache: BlobCache, blobs: MemoryBlobs) -> None:
        small = await node.blobs.put([bytes([n]) * 1000 for n in range(20)])
        path = Path(node.settings.blobs.address()) / small[3][:2] / small[3]
        path.write_bytes(b"damaged")
        with pytest.raises((Corrupt, NoRoute)):
            await cache.fetch(small)
        assert small[3] not in blobs.files
        assert set(small) - {small[3]} <= set(blobs.files)

    run(tmp_path, story)


def test_what_a_worker_moves_is_within_its_rate(tmp_path: Path) -> None:
    """Both ways: a fetch, and an upload."""

    async def story(node: Node, wire: DirectWire, cache: BlobCache, blobs: MemoryBlobs) -> None:
        loop, clock = asyncio.get_running_loop(), SystemClock()
        shaper = Shaper(BandwidthSettings(bytes_per_second=2 * len(BIG)), clock)
        shaped = BlobCache(cache._connection, blobs, clock, None, shaper)
        [blob] = await node.blobs.put([BIG])
        begin = loop.time()
        await shaped.fetch([blob])
        fetched = loop.time()
        await shaped.upload([blobs.add(BIG[::-1])])
        assert fetched - begin >= 0.3
        assert loop.time() - fetched >= 0.3

    run(tmp_path, story)


def test_what_a_coordinator_serves_is_within_its_rate(tmp_path: Path) -> None:
    """Whoever asks, and whether it sends or receives."""

    async def story(node: Node, wire: DirectWire, cache: BlobCache, blobs: MemoryBlobs) -> None:
        loop, files = asyncio.get_running_loop(), await node.blobs.put([BIG])
        for move in (cache.fetch(files), cache.upload([blobs.add(BIG[::-1])])):
            begin = loop.time()
            await move
            assert loop.time() - begin >= 0.3

    run(tmp_path, story, **{"bandwidth.bytes_per_second": len(BIG)})


def test_a_file_that_nobody_has_is_no_reason_to_wait(tmp_path: Path) -> None:
    """It is refused by name, as on one machine."""

    async def story(node: Node, wire: DirectWire, cache: BlobCache, blobs: MemoryBlobs) -> None:
        with pytest.raises(NoRoute):
            await cache.fetch(["f" * 64])

    run(tmp_path, story)


def test_the_cache_is_bounded_and_keeps_what_is_needed(tmp_path: Path) -> None:
    """Those used longest ago go first; none that is pinned, and none that is younger than a job may be."""

    async def main() -> None:
        time = [100.0]
        blobs = MemoryBlobs("w1", lambda: time[0])
        connection = Connection(DirectWire(), [ADDRESS], key_of("w1"), Random(1), boot="b1")
        cache = BlobCache(connection, blobs, SystemClock())
        names = list[str]()
        for number in range(6):
            time[0] += 1
            names.append(blobs.add(bytes([number]) * 10))
        pinned = {names[0]}
        assert await cache.trim(pinned, 60, before=1000.0) == 0
        assert await cache.trim(pinned, 35, before=1000.0) == 3
        assert sorted(blobs.files) == sorted([names[0], names[4], names[5]])
        assert await cache.trim(pinned, 0, before=105.5) == 1
        assert sorted(blobs.files) == sorted([names[0], names[5]])

    asyncio.run(main())
