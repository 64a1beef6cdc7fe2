"""One file on its way to a worker: from peers where there are any, else from the coordinator, over breaks and restarts.

What has come is passed on to peers already while the rest is still on its way.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from functools import partial

from ringrift.blobs.ports import Part
from ringrift.kernel.backoff import wait_out
from ringrift.kernel.errors import Corrupt, NodeAway, NoRoute, UnknownName
from ringrift.sync.blob_messages import BlobPiece, BlobSource, FindBlob, ReadBlob
from ringrift.sync.receive import Take
from ringrift.sync.transports.http import PeerReader, read_pieces
from ringrift.wire.connection import Connection
from ringrift.wire.ports import CHUNK_BYTES

COORDINATOR = "coordinator"  #: As the host of a transfer.
PIECE_SECONDS_MAX = 60.0  #: For one piece; a slow link carries CHUNK_BYTES in that time.
_SOURCES_MAX = 16  # that are tried, and then the coordinator
_QUESTIONS_MAX = 100  # where to read from, while the answer is to wait
_PAUSE_SECONDS_MAX = 5.0
_EARLIER = "an earlier process"  # as a source
_RELAY_SECONDS_MAX = 20.0  # how long a peer waits here for bytes that have not come yet


class Fetch:
    """The fetch of *blob* into *part*; without *peers* from the coordinator alone."""

    def __init__(
        self,
        blob: str,
        part: Part,
        connection: Connection,
        peers: PeerReader | None,
        on_progress: Callable[[], None],
        place: Take,
    ) -> None:
        self._blob, self._part, self._connection, self._peers = blob, part, connection, peers
        self._on_progress, self._place = on_progress, place
        self._failed: list[str] = []  # peers that did not send it, or not as it is
        self._used = set[str]()  # sources of what is in the part
        self._received, self._total, self._is_over = 0, -1, False
        self._moved = asyncio.Event()

    async def run(self) -> None:
        """Bring the file here, verified.  Raises NoRoute or Corrupt if the coordinator cannot send it."""
        try:
            self._received = await self._part.open()
            self._used = {_EARLIER} if self._received else set()
            while True:
                source = await self._find()
                self._used.add(source.node)
                try:
                    await self._read(source)
                except (NodeAway, NoRoute):
                    if not source.node:
                        raise
                    self._failed.append(source.node)
                    continue
                try:
                    await self._part.commit()
                    return
                except Corrupt:
                    if self._used == {""}:
                        raise  # all of it came from the coordinator
                    await self._begin_anew()
        finally:
            self._is_over = True
            self._notify()
            await self._part.close(keep=True)

    async def _begin_anew(self) -> None:
        """Some source, or the disk, has damaged it: none of them is asked again."""
        self._failed += sorted(self._used.difference(self._failed, {"", _EARLIER}))
        self._used = set()
        await self._part.close(keep=False)
        self._received = await self._part.open()

    async def _find(self) -> BlobSource:
        """From where to read, as the coordinator says."""
        if self._peers is None or len(self._failed) >= _SOURCES_MAX:
            return BlobSource()
        ask = FindBlob(blob=self._blob, failed=tuple(self._failed))
        for _ in range(_QUESTIONS_MAX):
            try:
                source = await wait_out(partial(self._connection.call, "blob.find", ask, BlobSource))
            except UnknownName:  # a coordinator of an earlier version
                return BlobSource()
            if not source.wait_seconds:
                return source
            self._on_progress()
            await asyncio.sleep(min(source.wait_seconds, _PAUSE_SECONDS_MAX))
        return BlobSource()

    async def _read(self, source: BlobSource) -> None:
        if source.node:
            assert self._peers is not None
            pieces = self._peers.pieces(source, self._blob, self._received)
        else:
            pieces = read_pieces(COORDINATOR, self._ask, self._received)
        async with aclosing(pieces):
            async for piece in pieces:
                await self._place.take(len(piece.data))
                await self._part.append(piece.data)
                self._received, self._total = self._received + len(piece.data), piece.total
                self._notify()
                self._on_progress()

    async def _ask(self, offset: int) -> BlobPiece:
        """The piece at *offset*, from the coordinator, over breaks."""
        ask = ReadBlob(blob=self._blob, offset=offset, size=CHUNK_BYTES)
        call = partial(self._connection.call, "blob.read", ask, BlobPiece, seconds_max=PIECE_SECONDS_MAX)
        return await wait_out(call)

    def _notify(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    async def relay(self, offset: int, size: int) -> BlobPiece | None:
        """A piece for a peer, once it has come; None if this has ended.  Raises NodeAway if it does not come."""
        try:
            async with asyncio.timeout(_RELAY_SECONDS_MAX):
                while not self._is_over and (self._received <= offset or self._total < 0):
                    await self._moved.wait()
        except TimeoutError as error:
            raise NodeAway("source of this node", f"no more of {self._blob:.12} has come") from error
        if self._is_over:
            return None
        data, total = await self._part.read(offset, min(size, self._received - offset)), self._total
        return BlobPiece(data=data, total=total) if data else None
