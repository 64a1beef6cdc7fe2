"""A bucket holds copies as a machine does: files are pushed there, come back from there, and damage is noticed."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

from ringrift.blobs.folder import FolderBlobs
from ringrift.kernel.errors import NodeAway, NoRoute, SettingsError
from ringrift.kernel.transfer_settings import BandwidthSettings, LinkSettings
from ringrift.sync.places import open_place
from ringrift.sync.receipts import receipts_of
from ringrift.sync.transfer import Transfer
from ringrift.sync.transports.endpoints import open_endpoints
from ringrift.work.link_breakers import LinkBreakers
from s3_server import S3Server
from unit.work.world import World, play

LARGE, DATA = bytes(range(256)) * 40_000, b"some games" * 1000  # the large one needs more than one request
Story = Callable[[World, Transfer, FolderBlobs], Awaitable[None]]


def run(tmp_path: Path, address: str, story: Story) -> None:
    """Run *story* with a node whose settings name the bucket at *address*."""
    links, here = LinkSettings(bucket=address), FolderBlobs(tmp_path / "here")

    async def reach(node: str) -> FolderBlobs:
        raise NodeAway(node)

    async def opened(world: World) -> None:
        health = LinkBreakers(world.store, world.envelopes, world.clock, links)
        parts = {"clock": world.clock, "endpoints": open_endpoints(links, BandwidthSettings(), [], health)}
        await story(world, Transfer("here", world.store, here, reach, world.envelopes, **parts, limits=links), here)

    play(tmp_path, opened)


def key_of(blob: str) -> str:
    """Where *blob* lies below the address."""
    return f"copies/blobs/{blob[:2]}/{blob}"


def test_a_file_goes_to_a_bucket_and_comes_back(s3: S3Server, tmp_path: Path) -> None:
    """With a receipt each way; it is a durable copy with room for more."""

    async def story(world: World, transfer: Transfer, here: FolderBlobs) -> None:
        [blob] = await here.put([LARGE])
        await world.hold(blob, "here")
        assert ((await transfer.hubs.rooms())["bucket"] or 0) > len(LARGE)
        assert await transfer.find_away(["bucket"]) == set()

        assert await transfer.copy(blob, "bucket") == len(LARGE)
        assert await world.holders(blob) == ["bucket", "here"]
        here.folder.path(blob).unlink()
        await transfer.fetch([blob])

        assert here.folder.open(blob).read_bytes() == LARGE
        async with world.store.read() as view:
            rows = {(row.source, row.node, row.transport) for row in await receipts_of(view, blob)}
        assert rows == {("here", "bucket", "s3"), ("bucket", "here", "s3")}

    run(tmp_path, s3.address, story)


def test_a_damaged_copy_in_a_bucket_is_no_copy(s3: S3Server, tmp_path: Path) -> None:
    """No reader gets it, and the ledger forgets it, so that it is sent again; one that is gone likewise."""
    bucket = S3Store.from_url(s3.address, client_options={"allow_http": True})

    async def story(world: World, transfer: Transfer, here: FolderBlobs) -> None:
        damaged, gone = [await _put_far(transfer, world, here, data) for data in (DATA, b"gone")]
        obstore.put(bucket, key_of(damaged), b"damaged")
        obstore.delete(bucket, key_of(gone))
        for blob in (damaged, gone):
            here.folder.path(blob).unlink()
            with pytest.raises(NoRoute):
                await transfer.fetch([blob])
            assert "bucket" not in await world.holders(blob)
        assert await here.have([damaged, gone]) == frozenset()

        [blob] = await here.put([DATA])
        await world.hold(blob, "here")
        await transfer.copy(blob, "bucket")
        assert bytes(obstore.get(bucket, key_of(blob)).bytes()) == DATA

    run(tmp_path, s3.address, story)


async def _put_far(transfer: Transfer, world: World, here: FolderBlobs, data: bytes) -> str:
    [blob] = await here.put([data])
    await world.hold(blob, "here")
    await transfer.copy(blob, "bucket")
    return blob


def test_a_bucket_that_is_away_keeps_its_copies_in_the_ledger(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Away is not gone, and it is not chosen for copies meanwhile."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")

    async def story(world: World, transfer: Transfer, here: FolderBlobs) -> None:
        blob = "0" * 64
        await world.hold(blob, "bucket")
        assert await transfer.hubs.rooms() == {"bucket": None}
        assert await transfer.find_away(["bucket"]) == {"bucket"}
        with pytest.raises(NoRoute) as error:
            await transfer.fetch([blob])

        assert not error.value.gone
        assert await world.holders(blob) == ["bucket"]

    run(tmp_path, s3.address, story)


def test_backups_at_the_same_address_leave_copies_alone(s3: S3Server, tmp_path: Path) -> None:
    """Pruning a place deletes what no backup needs; copies of nodes lie apart."""

    async def story(world: World, transfer: Transfer, here: FolderBlobs) -> None:
        blob, place = await _put_far(transfer, world, here, DATA), open_place(s3.address)
        names = [name async for page in place.names() for name in page]
        assert names == []
        await place.delete([blob])
        here.folder.path(blob).unlink()

        await transfer.fetch([blob])

        assert here.folder.open(blob).read_bytes() == DATA

    run(tmp_path, s3.address, story)


def test_the_address_of_a_bucket_is_checked() -> None:
    """A folder is no bucket."""
    with pytest.raises(SettingsError, match="s3://"):
        LinkSettings(bucket="/mnt/usb")
