"""The files of the coordinator, in pieces: a worker fetches the inputs of its jobs and uploads their outputs.

The folder of a worker is a cache and a spool.  No ledger lists it, so what is not needed any more may go at any time.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from functools import partial

from ringrift.blobs.ports import Blobs, StoredBlob
from ringrift.kernel.backoff import wait_out
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import Corrupt
from ringrift.kernel.value import Value
from ringrift.wire.connection import Connection
from ringrift.wire.ports import CHUNK_BYTES

_PAGE = 1000  # files that are listed at a time
_PIECE_SECONDS_MAX = 60.0  # for one piece; a slow link carries CHUNK_BYTES in that time
_UPLOADS_MAX = 3  # how often an upload begins anew because the bytes did not arrive as they were


class HaveBlobs(Value):
    """`blob.have`: which of *blobs* the coordinator has."""

    blobs: tuple[str, ...]


class PresentBlobs(Value):
    """Those that it has."""

    blobs: tuple[str, ...] = ()


class ReadBlob(Value):
    """`blob.read`: up to *size* bytes of *blob* from *offset* on, at most CHUNK_BYTES.  Raises NoRoute."""

    blob: str
    offset: int
    size: int


class BlobPiece(Value):
    """A piece of a blob; a piece without data is behind its end."""

    data: bytes
    total: int  #: Bytes of the whole blob.


class WriteBlob(Value):
    """`blob.write`: append *data*, which begins at *offset*, to what the node that asks has uploaded of *blob*.

    With the last piece the whole is hashed and stored durably.  Raises Corrupt, and then the upload begins anew.
    """

    blob: str
    total: int
    offset: int
    data: bytes


class BlobReceipt(Value):
    """How many bytes have been received: the next piece begins there.  *done*: verified and durable."""

    offset: int
    done: bool = False


def _choose_excess(
    stored: Sequence[StoredBlob], used: Mapping[str, float], pinned: Collection[str], bytes_max: int, before: float
) -> list[str]:
    """The files to delete so that at most *bytes_max* stay: those used longest ago first, by the times in *used*.

    None of *pinned* goes, and none that was stored or used at *before* or later: a running job may have made it.
    """
    excess, names = sum(row.size for row in stored) - bytes_max, list[str]()
    for row in sorted(stored, key=lambda row: (max(row.time, used.get(row.blob, 0.0)), row.blob)):
        if excess <= 0:
            break
        if row.blob not in pinned and max(row.time, used.get(row.blob, 0.0)) < before:
            names.append(row.blob)
            excess -= row.size
    return names


class BlobCache:
    """The blob folder of a worker, filled from the coordinator."""

    def __init__(self, connection: Connection, blobs: Blobs, clock: Clock) -> None:
        self._connection, self._blobs, self._clock = connection, blobs, clock
        self._fetching: dict[str, asyncio.Task[int]] = {}
        self._used: dict[str, float] = {}  # when each was last asked for, by this process; pruned with the files

    async def fetch(self, blobs: Sequence[str], on_progress: Callable[[], None] = lambda: None) -> None:
        """Bring a verified copy of each of *blobs* here, once for all jobs that wait for it.  Raises NoRoute."""
        self._used.update(dict.fromkeys(blobs, self._clock.now()))
        for blob in sorted(set(blobs) - await self._blobs.have(blobs)):
            task = self._fetching.get(blob)
            if task is None:
                task = asyncio.get_running_loop().create_task(self._fetch(blob, on_progress), name=f"fetch:{blob[:12]}")
                self._fetching[blob] = task
                task.add_done_callback(partial(self._forget, blob))
            while not task.done():
                # A job that is killed meanwhile leaves the transfer to the others, and one that waits for them lives.
                await asyncio.wait((task,), timeout=1.0)
                on_progress()
            task.result()

    def _forget(self, blob: str, _: "asyncio.Task[int]") -> None:
        del self._fetching[blob]

    async def _fetch(self, blob: str, on_progress: Callable[[], None]) -> int:
        return await self._blobs.write(blob, self._pieces(blob, on_progress))

    async def _pieces(self, blob: str, on_progress: Callable[[], None]) -> AsyncIterator[bytes]:
        offset = 0
        while True:
            ask = ReadBlob(blob=blob, offset=offset, size=CHUNK_BYTES)
            call = partial(self._connection.call, "blob.read", ask, BlobPiece, seconds_max=_PIECE_SECONDS_MAX)
            piece = await wait_out(call)  # a break in the middle goes on where it was
            on_progress()
            yield piece.data
            offset += len(piece.data)
            if not piece.data or offset >= piece.total:
                return

    async def upload(self, blobs: Collection[str]) -> None:
        """Bring each of *blobs* to the coordinator; returns when it has verified and stored them.  Raises NodeAway."""
        for blob in sorted(set(blobs)):
            for attempt in range(1, _UPLOADS_MAX + 1):
                try:
                    await self._upload(blob, await self._size(blob))
                    break
                except Corrupt:
                    # Damaged on its way, or here: reading it here once more tells.
                    if attempt == _UPLOADS_MAX or await self._blobs.verify([blob]):
                        raise

    async def _size(self, blob: str) -> int:
        return sum([row.size for row in await self._blobs.page(blob[:-1], 1) if row.blob == blob])

    async def _upload(self, blob: str, total: int) -> None:
        """Send the bytes that the coordinator does not have yet; a small file without asking how many those are."""
        receipt, at = BlobReceipt(offset=0), 0
        if not 0 < total <= CHUNK_BYTES:
            ask = HaveBlobs(blobs=(blob,))
            if (await self._connection.call("blob.have", ask, PresentBlobs)).blobs:
                return
            receipt = await self._write(WriteBlob(blob=blob, total=total, offset=0, data=b""))
        async for chunk in self._blobs.read(blob):
            skip = max(receipt.offset - at, 0)
            at += len(chunk)
            if skip < len(chunk) and not receipt.done:
                piece = WriteBlob(blob=blob, total=total, offset=at - len(chunk) + skip, data=chunk[skip:])
                receipt = await self._write(piece)
        if not receipt.done:
            raise Corrupt(blob, "the coordinator's copy")

    async def _write(self, piece: WriteBlob) -> BlobReceipt:
        return await self._connection.call("blob.write", piece, BlobReceipt, seconds_max=_PIECE_SECONDS_MAX)

    async def trim(self, pinned: Collection[str], bytes_max: int, before: float) -> int:
        """Delete what :func:`_choose_excess` names, and parts of files that nobody writes any more; how many files."""
        stored, page = list[StoredBlob](), await self._blobs.page("", _PAGE)
        while page:
            stored += page
            page = await self._blobs.page(page[-1].blob, _PAGE)
        names = _choose_excess(stored, self._used, pinned, bytes_max, before)
        stays = set(await self._blobs.delete(names, before)) if names else set[str]()
        here = {row.blob for row in stored}.difference(names) | stays
        self._used = {blob: time for blob, time in self._used.items() if blob in here or blob in self._fetching}
        await self._blobs.drop_parts()
        return len(names) - len(stays)
