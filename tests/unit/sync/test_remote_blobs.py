"""Files of a worker: inputs are fetched and outputs uploaded in pieces, verified, over breaks; the cache is bounded."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest

from ringrift.cluster.keys import StoredKey, store_keys
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import Corrupt, NoRoute
from ringrift.node import Node
from ringrift.sim.blobs import MemoryBlobs
from ringrift.sync.remote_blobs import BlobCache
from ringrift.wire.connection import Connection
from ringrift.wire.ports import CHUNK_BYTES
from unit.worker_rig import ADDRESS, DirectWire, coordinator, key_of
from wait import wait_until

BIG = bytes(range(256)) * (5 * CHUNK_BYTES // 512)  # two and a half pieces
Story = Callable[[Node, DirectWire, BlobCache, MemoryBlobs], Awaitable[None]]


def run(tmp_path: Path, story: Story) -> None:
    """Run *story* with a cache whose key may read everything."""

    async def main() -> None:
        wire, blobs = DirectWire(), MemoryBlobs("w1")
        async with coordinator(tmp_path, wire) as node:
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
