"""The verbs of files: pieces arrive in any order of mishaps, and a file gets its name only when it is what it says."""

import hashlib
import math
import os
from pathlib import Path

import pytest

from contract.coordinator_rig import Coordinator, RemoteNode, tell
from contract.engines import ManualClock
from ringrift.blobs.folder import FolderBlobs
from ringrift.coordinator.uploads import Uploads
from ringrift.jobs import Play
from ringrift.kernel.errors import Busy, Corrupt, InputError, InvalidId, NodeAway, NoRoute
from ringrift.kernel.wire_errors import Forbidden
from ringrift.store.ports import Renewal
from ringrift.sync import ledger
from ringrift.sync.blob_messages import (
    BlobFiles,
    BlobPiece,
    BlobReceipt,
    HaveBlobs,
    PresentBlobs,
    ReadBlob,
    ReadBlobs,
    WriteBlob,
)
from ringrift.wire.ports import CHUNK_BYTES

DATA = os.urandom(5) * (CHUNK_BYTES // 2)  # two and a half pieces
BLOB = hashlib.sha256(DATA).hexdigest()


async def write(node: RemoteNode, offset: int, data: bytes, *, blob: str = BLOB, total: int = len(DATA)) -> BlobReceipt:
    """Send one piece, without the patience of a worker."""
    body = WriteBlob(blob=blob, total=total, offset=offset, data=data)
    receipt: BlobReceipt = await node.connection.call("blob.write", body, BlobReceipt, seconds_max=0.2)
    return receipt


async def read(node: RemoteNode, blob: str, offset: int = 0, size: int = CHUNK_BYTES) -> BlobPiece:
    """Ask for one piece."""
    piece: BlobPiece = await node.call("blob.read", ReadBlob(blob=blob, offset=offset, size=size), BlobPiece)
    return piece


def parts_in(home: Path) -> list[str]:
    """The names of unfinished files."""
    folders = [home / "blobs" / name for name in ("tmp", "partial")]
    return sorted(name for folder in folders if folder.is_dir() for name in os.listdir(folder))


def test_a_file_arrives_in_pieces_and_a_repeated_or_early_piece_changes_nothing(tmp_path: Path) -> None:
    """Every receipt says where the next piece begins; the last one that it is whole and durable."""

    async def story(c: Coordinator) -> None:
        node = await c.node()
        one, two = CHUNK_BYTES, 2 * CHUNK_BYTES

        assert await write(node, 0, b"") == BlobReceipt(offset=0)
        assert await write(node, 0, DATA[:one]) == BlobReceipt(offset=one)
        assert await write(node, 0, DATA[:one]) == BlobReceipt(offset=one)
        assert await write(node, two, DATA[two:]) == BlobReceipt(offset=one)
        assert not await c.blobs.have([BLOB])
        assert await write(node, one, DATA[one:two]) == BlobReceipt(offset=two)
        assert await write(node, two, DATA[two:]) == BlobReceipt(offset=len(DATA), done=True)
        assert await write(node, two, DATA[two:]) == BlobReceipt(offset=len(DATA), done=True)

        assert b"".join([chunk async for chunk in c.blobs.read(BLOB)]) == DATA
        assert not parts_in(tmp_path)

    tell(tmp_path, story)


def test_bytes_that_are_not_the_file_are_dropped(tmp_path: Path) -> None:
    """A wrong hash is told, nothing gets the name, and the upload begins anew."""

    async def story(c: Coordinator) -> None:
        node = await c.node()
        one, two = CHUNK_BYTES, 2 * CHUNK_BYTES
        await write(node, 0, DATA[:one])
        await write(node, one, DATA[one:two])

        with pytest.raises(Corrupt):
            await write(node, two, bytes(len(DATA) - two))
        with pytest.raises(Corrupt):
            await write(node, 0, b"another", total=7)

        assert not await c.blobs.have([BLOB])
        assert not parts_in(tmp_path)
        assert await write(node, 0, b"") == BlobReceipt(offset=0)

    tell(tmp_path, story)


def test_nobody_adds_to_the_upload_of_another(tmp_path: Path) -> None:
    """Two nodes that bring the same file have a part each, and one that lies spoils only its own."""

    async def story(c: Coordinator) -> None:
        node, liar = await c.node(), await c.node("w2")
        one, two = CHUNK_BYTES, 2 * CHUNK_BYTES
        await write(liar, 0, bytes(one))
        assert await write(node, 0, b"") == BlobReceipt(offset=0)
        await write(node, 0, DATA[:one])
        await write(liar, one, bytes(one))
        await write(node, one, DATA[one:two])

        assert (await write(node, two, DATA[two:])).done
        assert (await c.blobs.verify([BLOB])) == []

    tell(tmp_path, story)


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "", "ab", "AB" * 32, "ab" * 32 + "\n", "\0" * 64])
def test_names_that_are_no_hashes_are_refused(tmp_path: Path, name: str) -> None:
    """No verb of files takes a path."""

    async def story(c: Coordinator) -> None:
        node = await c.node("r", ("play", "read"))
        for call in (
            write(node, 0, b"x", blob=name, total=1),
            read(node, name),
            node.call("blob.have", HaveBlobs(blobs=(name,)), PresentBlobs),
        ):
            with pytest.raises(InvalidId):
                await call

    tell(tmp_path, story)


@pytest.mark.parametrize(
    ("offset", "size", "total"), [(-1, 1, 9), (0, CHUNK_BYTES + 1, 1 << 30), (9, 1, 9), (0, 0, -1), (0, 1, 1 << 40)]
)
def test_pieces_that_do_not_fit_are_refused(tmp_path: Path, offset: int, size: int, total: int) -> None:
    """Every number is bounded before anything is written."""

    async def story(c: Coordinator) -> None:
        with pytest.raises(InputError):
            await write(await c.node(), offset, bytes(size), total=total)
        assert not parts_in(tmp_path)

    tell(tmp_path, story)


def test_a_node_has_few_uploads_at_once_and_those_that_rest_make_room(tmp_path: Path) -> None:
    """One that nothing came for is closed and goes on later, unless its node begins too many others."""
    clock = ManualClock()

    async def story(c: Coordinator) -> None:
        node, other = await c.node(), await c.node("w2")
        for number in range(8):
            await write(node, 0, b"x", blob=f"{number:064x}", total=9)
            os.utime(tmp_path / "blobs" / "partial" / f"{number:064x}.w1", (clock.now() + number, clock.now() + number))
        with pytest.raises(Busy):
            await write(node, 0, b"x", blob="ab" * 32, total=9)
        await write(other, 0, b"x", blob="ab" * 32, total=9)
        assert len(parts_in(tmp_path)) == 9

        clock.seconds += 61.0
        await write(node, 0, b"x", blob="cd" * 32, total=9)

        assert f"{0:064x}.w1" not in parts_in(tmp_path)
        assert len(parts_in(tmp_path)) == 9
        assert await write(node, 0, b"", blob=f"{1:064x}", total=9) == BlobReceipt(offset=1)
        assert await write(other, 0, b"", blob="ab" * 32, total=9) == BlobReceipt(offset=1)

    tell(tmp_path, story, clock)


def test_a_part_that_rested_for_long_is_deleted_and_no_other(tmp_path: Path) -> None:
    """Whoever brought it: that node may never return.  One that is open stays, and one to which something came."""

    async def story(c: Coordinator) -> None:
        node, now = await c.node(), c.parts.clock.now()
        ages = {"ab" * 32: 100.0, "cd" * 32: 10.0, "ef" * 32: 100.0}
        for blob in ages:
            if blob.startswith("ef"):
                await c.parts.desks.uploads.close()  # the two before
            await write(node, 0, b"x", blob=blob, total=9)
        for blob, age in ages.items():
            os.utime(tmp_path / "blobs" / "partial" / f"{blob}.w1", (now - age, now - age))
        assert await c.blobs.drop_parts(now - 50.0) == 1
        assert parts_in(tmp_path) == [f"{'cd' * 32}.w1", f"{'ef' * 32}.w1"]

    tell(tmp_path, story)


def test_an_upload_goes_on_after_a_restart(tmp_path: Path) -> None:
    """What had arrived is there in the next process; a whole part that had no name yet gets it when it is asked for."""
    one, two = CHUNK_BYTES, 2 * CHUNK_BYTES

    async def begin(c: Coordinator) -> None:
        node = await c.node()
        await write(node, 0, DATA[:one])

    async def go_on(c: Coordinator) -> None:
        node = await c.node()
        assert await write(node, 0, b"") == BlobReceipt(offset=one)
        assert await write(node, one, DATA[one:two]) == BlobReceipt(offset=two)
        with (tmp_path / "blobs" / "partial" / f"{BLOB}.w1").open("ab") as part:
            part.write(DATA[two:])  # as if it had been killed between the last piece and the rename
        await c.parts.desks.uploads.close()

    async def end(c: Coordinator) -> None:
        assert await write(await c.node(), 0, b"") == BlobReceipt(offset=len(DATA), done=True)
        assert b"".join([chunk async for chunk in c.blobs.read(BLOB)]) == DATA
        assert not parts_in(tmp_path)

    for story in (begin, go_on, end):
        tell(tmp_path, story)


def test_a_part_that_a_power_cut_has_damaged_never_becomes_the_file(tmp_path: Path) -> None:
    """Its bytes are hashed as a whole: the upload ends as corrupt and begins anew; a part that is too long does too."""

    async def story(c: Coordinator) -> None:
        node, one, part = await c.node(), CHUNK_BYTES, tmp_path / "blobs" / "partial" / f"{BLOB}.w1"
        await write(node, 0, DATA[:one])
        await c.parts.desks.uploads.close()
        part.write_bytes(bytes(one))
        assert await write(node, 0, b"") == BlobReceipt(offset=one)
        await write(node, one, DATA[one : 2 * one])
        with pytest.raises(Corrupt):
            await write(node, 2 * one, DATA[2 * one :])
        assert not await c.blobs.have([BLOB])
        assert not parts_in(tmp_path)

        part.write_bytes(DATA + b"more")
        assert await write(node, 0, b"") == BlobReceipt(offset=0)

    tell(tmp_path, story)


def test_two_processes_do_not_add_to_one_part(tmp_path: Path) -> None:
    """A coordinator that was given up for dead may still write: the other one waits until it has ended."""

    async def story(c: Coordinator) -> None:
        node = await c.node()
        await write(node, 0, DATA[:CHUNK_BYTES])
        other = Uploads(c.blobs, c.parts.clock)
        with pytest.raises(Busy):
            await other.write("w1", BLOB, len(DATA), 0, b"")
        await c.parts.desks.uploads.close()
        assert await other.write("w1", BLOB, len(DATA), 0, b"") == (CHUNK_BYTES, False)
        await other.close()

    tell(tmp_path, story)


def test_a_present_file_is_not_written_again_and_counts_as_new(tmp_path: Path) -> None:
    """What is about to be named in a result is not deleted as an old file meanwhile."""

    async def story(c: Coordinator) -> None:
        [blob] = await c.blobs.put([b"old"])
        path = tmp_path / "blobs" / blob[:2] / blob
        os.utime(path, (1.0, 1.0))
        inode = path.stat().st_ino
        node = await c.node()

        assert await node.upload(blob, b"old") == BlobReceipt(offset=3, done=True)

        assert path.stat().st_ino == inode
        assert path.stat().st_mtime > 1.0
        os.utime(path, (1.0, 1.0))
        question = HaveBlobs(blobs=(blob, "ab" * 32))
        assert (await node.call("blob.have", question, PresentBlobs)).blobs == (blob,)
        assert path.stat().st_mtime > 1.0

    tell(tmp_path, story)


def test_a_damaged_file_is_not_present(tmp_path: Path) -> None:
    """A worker brings it again, and a reader does not get it."""

    async def story(c: Coordinator) -> None:
        [blob] = await c.blobs.put([b"good"])
        (tmp_path / "blobs" / blob[:2] / blob).write_bytes(b"evil")
        node = await c.node("w1", ("play", "read"))

        assert (await node.call("blob.have", HaveBlobs(blobs=(blob,)), PresentBlobs)).blobs == ()
        with pytest.raises(Corrupt):
            await read(node, blob)
        assert (await node.upload(blob, b"good")).done
        assert (await read(node, blob)).data == b"good"

    tell(tmp_path, story)


def test_a_worker_reads_the_inputs_of_its_jobs_and_champions_alone(tmp_path: Path) -> None:
    """And only while it holds the job; with the scope read a program reads all."""

    async def story(c: Coordinator) -> None:
        model, champion, secret = await c.blobs.put([b"model", b"champion", b"secret"])
        await c.open_line("hex8_2p", champion)
        await c.enqueue(Play(variant="v", model=model, games=2))
        node, other = await c.node(), await c.node("w2")
        [lease] = await node.claim()

        assert (await read(node, model)) == BlobPiece(data=b"model", total=5)
        assert (await read(other, champion)).data == b"champion"
        files = await node.call("blob.read_many", ReadBlobs(blobs=(model, champion)), BlobFiles)
        assert files == BlobFiles(files=((model, b"model"), (champion, b"champion")), count=2)
        for reader, blob in ((node, secret), (other, model)):
            with pytest.raises(Forbidden):
                await read(reader, blob)
            with pytest.raises(Forbidden):
                await reader.call("blob.read_many", ReadBlobs(blobs=(champion, blob)), BlobFiles)
        reader = await c.node("r", ("read",), beats=False)
        assert (await read(reader, secret)).data == b"secret"
        fence = Renewal(job=lease.job, fence=lease.fence)
        async with c.store.begin() as tx:
            await tx.finish([fence])
        with pytest.raises(Forbidden):
            await read(node, model)

    tell(tmp_path, story)


def test_a_file_that_another_node_has_is_fetched_for_a_reader(tmp_path: Path) -> None:
    """Also in the middle of it: the copy here may have gone since its first piece was read."""

    async def story(c: Coordinator) -> None:
        node, far = await c.node("r", ("play", "read")), FolderBlobs(tmp_path / "far", "far")
        await far.open(is_new=True)
        [blob] = await far.put([DATA])
        async with c.store.begin() as tx:
            await ledger.add(tx, [(blob, "far", len(DATA))])

        async def reach(_: str) -> FolderBlobs:
            return far

        assert c.parts.transfer is not None
        c.parts.transfer._reach = reach
        for offset in (CHUNK_BYTES, 0):
            assert (await read(node, blob, offset)).data == DATA[offset : offset + CHUNK_BYTES]
            assert not await c.blobs.delete([blob], math.inf)

    tell(tmp_path, story)


def test_a_file_is_read_in_pieces(tmp_path: Path) -> None:
    """By offset, never more than a piece; what is behind the end is empty, what is not here has no route."""

    async def story(c: Coordinator) -> None:
        await c.blobs.put([DATA])
        node = await c.node("r", ("read",), beats=False)

        pieces = [await read(node, BLOB, offset, 1 << 40) for offset in range(0, len(DATA) + 1, CHUNK_BYTES)]

        assert b"".join(piece.data for piece in pieces) == DATA
        assert {piece.total for piece in pieces} == {len(DATA)}
        assert (await read(node, BLOB, len(DATA) + 5)).data == b""
        assert (await read(node, BLOB, 1, 2)).data == DATA[1:3]
        for offset in (0, 7):
            with pytest.raises(NoRoute):
                await read(node, "ab" * 32, offset)
        with pytest.raises(InputError):
            await read(node, BLOB, -1)

    tell(tmp_path, story)


def test_an_upload_whose_disk_goes_away_goes_on_when_it_is_back(tmp_path: Path) -> None:
    """The error reaches whoever sends the next piece, nothing hangs, and the file is whole in the end."""

    async def story(c: Coordinator) -> None:
        node, marker = await c.node(), tmp_path / "blobs" / "node"
        await write(node, 0, DATA[:CHUNK_BYTES])
        marker.rename(marker.with_suffix(".away"))

        with pytest.raises(NodeAway):
            await write(node, CHUNK_BYTES, DATA[CHUNK_BYTES : 2 * CHUNK_BYTES])

        marker.with_suffix(".away").rename(marker)
        at = (await write(node, 0, b"")).offset
        assert at in (CHUNK_BYTES, 2 * CHUNK_BYTES)
        receipts = [
            await write(node, start, DATA[start : start + CHUNK_BYTES]) for start in range(at, len(DATA), CHUNK_BYTES)
        ]
        assert receipts[-1].done
        assert not await c.blobs.verify([BLOB])

    tell(tmp_path, story)
