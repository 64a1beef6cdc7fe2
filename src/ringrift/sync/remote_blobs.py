"""The files of a worker: it fetches the inputs of its jobs and uploads their outputs, in pieces.

The folder of a worker is a cache and a spool.  No ledger lists it, so what is not needed any more may go at any time.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from functools import partial

from ringrift.blobs.ports import Blobs, StoredBlob
from ringrift.kernel.backoff import wait_out
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import Corrupt, UnknownName
from ringrift.sync.blob_messages import (
    BLOBS_MAX,
    BlobFiles,
    BlobPiece,
    BlobReceipt,
    HaveBlobs,
    PresentBlobs,
    ReadBlobs,
    WriteBlob,
)
from ringrift.sync.fetch import COORDINATOR, PIECE_SECONDS_MAX, Fetch
from ringrift.sync.receive import Take, keep_alive, open_place
from ringrift.sync.shaper import Shaper
from ringrift.sync.transports.http import PeerReader
from ringrift.sync.wants import TransferClass
from ringrift.threads import beside
from ringrift.wire.connection import Connection
from ringrift.wire.ports import CHUNK_BYTES

_TOGETHER_MIN = 8  # files; fewer are fetched one by one
_QUESTIONS_MAX = 4  # for many files, at once
_OWNER = "fetch"  # of the parts of files that are being fetched
_PAGE = 1000  # files that are listed at a time
_READY_MAX = 256  # files that are remembered as ready
_PAYING_MAX = 1000  # uploads that wait for bandwidth
_REPEATS_MAX = 8  # pieces of one upload that did not bring it on
_UPLOADS_MAX = 3  # how often an upload begins anew because the bytes did not arrive as they were

_Question = tuple[tuple[str, ...], "asyncio.Task[BlobFiles]"]


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
    """The blob folder of a worker, filled from its peers and the coordinator."""

    def __init__(
        self,
        connection: Connection,
        blobs: Blobs,
        clock: Clock,
        peers: PeerReader | None = None,
        shaper: Shaper | None = None,
    ) -> None:
        self._connection, self._blobs, self._clock = connection, blobs, clock
        self._peers, self._shaper = peers, shaper
        self._fetching: dict[str, asyncio.Task[None]] = {}
        self._fetches: dict[str, Fetch] = {}  # those under way
        self._used: dict[str, float] = {}  # when each was last asked for, by this process; pruned with the files
        self._ready: dict[str, None] = {}  # files that were fetched or asked for here, the last used last
        self.changed = asyncio.Event()  #: Set when others are ready than before.

    async def fetch(
        self,
        blobs: Sequence[str],
        on_progress: Callable[[], None] = lambda: None,
        transfer_class: TransferClass = TransferClass.SAMPLES,
    ) -> None:
        """Bring a verified copy of each of *blobs* here, once for all jobs that wait for it.  Raises NoRoute."""
        self._used.update(dict.fromkeys(blobs, self._clock.now()))
        if missing := set(blobs) - await self._blobs.have(blobs):
            async with beside(keep_alive(on_progress)):
                await self._fetch_missing(missing, on_progress, transfer_class)
        self._note_ready(blobs)

    async def _fetch_missing(
        self, missing: set[str], on_progress: Callable[[], None], transfer_class: TransferClass
    ) -> None:
        if len(missing) >= _TOGETHER_MIN:
            missing = await self._fetch_together(sorted(missing), transfer_class)
        for blob in sorted(missing):
            task = self._fetching.get(blob)
            if task is None:
                call = self._fetch(blob, on_progress, transfer_class)
                task = asyncio.get_running_loop().create_task(call, name=f"fetch:{blob[:12]}")
                self._fetching[blob] = task
                task.add_done_callback(partial(self._forget, blob))
            await asyncio.wait((task,))  # a job that is killed meanwhile leaves the transfer to the others
            on_progress()
            task.result()

    async def _fetch_together(self, blobs: Sequence[str], transfer_class: TransferClass) -> set[str]:
        """Fetch the small ones of *blobs* into packs; those that are still missing."""
        async with open_place(self._shaper, COORDINATOR, transfer_class) as place:
            return set(blobs).difference(await self._blobs.write_pack(self._read_many(blobs, place)))

    async def _read_many(self, blobs: Sequence[str], place: Take) -> AsyncIterator[tuple[str, bytes]]:
        """The small ones of *blobs*, many with each question, some of which are asked ahead."""
        loop, pending, rest = asyncio.get_running_loop(), deque[_Question](), deque(blobs)
        try:
            while rest or pending:
                while rest and len(pending) < _QUESTIONS_MAX:
                    names = tuple(rest.popleft() for _ in range(min(BLOBS_MAX, len(rest))))
                    pending.append((names, loop.create_task(self._ask_many(names), name=f"many:{names[0][:12]}")))
                names, task = pending.popleft()
                answer = await task
                rest.extendleft(reversed(names[max(answer.count, 1) :]))
                await place.take(sum(len(data) for _, data in answer.files))
                for file in answer.files:
                    yield file
        except UnknownName:  # a coordinator of an earlier version
            return
        finally:
            for _, task in pending:
                task.cancel()
            await asyncio.gather(*(task for _, task in pending), return_exceptions=True)

    async def _ask_many(self, blobs: tuple[str, ...]) -> BlobFiles:
        ask = ReadBlobs(blobs=blobs)
        call = partial(self._connection.call, "blob.read_many", ask, BlobFiles, seconds_max=PIECE_SECONDS_MAX)
        return await wait_out(call)

    def _forget(self, blob: str, task: "asyncio.Task[None]") -> None:
        del self._fetching[blob]
        _ = task.cancelled() or task.exception()  # retrieved: whoever waited for it may have gone

    async def _fetch(self, blob: str, on_progress: Callable[[], None], transfer_class: TransferClass) -> None:
        async with open_place(self._shaper, COORDINATOR, transfer_class) as place:
            part = self._blobs.part(blob, _OWNER)
            fetch = self._fetches[blob] = Fetch(blob, part, self._connection, self._peers, on_progress, place)
            try:
                await fetch.run()
                self._note_ready([blob])
            finally:
                del self._fetches[blob]

    def _note_ready(self, blobs: Sequence[str]) -> None:
        before = set(self._ready)
        for blob in blobs:
            self._ready.pop(blob, None)
            self._ready[blob] = None
        for blob in list(self._ready)[:-_READY_MAX]:
            del self._ready[blob]
        if before != set(self._ready):
            self.changed.set()

    def ready(self, limit: int) -> tuple[str, ...]:
        """The files that were used last, at most *limit*."""
        return tuple(self._ready)[-limit:]

    async def read_coming(self, blob: str, offset: int, size: int) -> BlobPiece | None:
        """A piece of a file that is being fetched, once it has come; None if it is not."""
        fetch = self._fetches.get(blob)
        return None if fetch is None else await fetch.relay(offset, size)

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
        """Send the bytes that the coordinator does not have yet; a small file without asking how many those are.

        It may have fewer than before, after a power cut: then from there on.
        """
        receipt, repeats = BlobReceipt(offset=0), 0
        if not 0 < total <= CHUNK_BYTES:
            ask = HaveBlobs(blobs=(blob,))
            if (await self._connection.call("blob.have", ask, PresentBlobs)).blobs:
                return
            receipt = await self._write(WriteBlob(blob=blob, total=total, offset=0, data=b""))
        while not receipt.done:
            data, _ = await self._blobs.read_piece(blob, receipt.offset, CHUNK_BYTES)
            before, piece = receipt.offset, WriteBlob(blob=blob, total=total, offset=receipt.offset, data=data)
            if self._shaper is not None:  # a result does not wait for a place behind files that come
                await self._shaper.pay(COORDINATOR, TransferClass.URGENT, len(data), _PAYING_MAX)
            receipt = await self._write(piece)
            repeats += receipt.offset <= before
            if repeats > _REPEATS_MAX:
                raise Corrupt(blob, "the coordinator's copy")

    async def _write(self, piece: WriteBlob) -> BlobReceipt:
        return await self._connection.call("blob.write", piece, BlobReceipt, seconds_max=PIECE_SECONDS_MAX)

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
        if gone := [blob for blob in self._ready if blob not in here]:
            self._ready = {blob: None for blob in self._ready if blob not in gone}
            self.changed.set()
        await self._blobs.drop_parts(before)
        return len(names) - len(stays)
