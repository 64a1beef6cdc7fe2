"""Files on their way to the coordinator: pieces are written beside, and the whole gets its name once its hash is right.

An upload belongs to the node that began it and to this process: after a restart, or when nothing came for a while, its
part is gone and it begins anew.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import suppress

from ringrift.blobs.ports import Blobs
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import Busy, Corrupt

_OF_NODE_MAX = 8  # uploads of one node at once
_MAX = 512  # of all nodes: each has a file open
_BYTES_OF_NODE_MAX = 1 << 32  # of the files that one node is uploading
_IDLE_SECONDS_MAX = 60.0  # after which an upload is dropped
_END = b""


class _Upload:
    """One file of one node; *received* bytes of it have been taken."""

    def __init__(self, blobs: Blobs, blob: str, total: int, tick: float) -> None:
        self.total, self.tick, self.received = total, tick, 0
        self.lock = asyncio.Lock()
        self._pieces = asyncio.Queue[bytes](1)
        self.task = asyncio.get_running_loop().create_task(blobs.write(blob, self._chunks()), name=f"upload:{blob:.12}")

    async def _chunks(self) -> AsyncIterator[bytes]:
        while piece := await self._pieces.get():
            yield piece

    async def add(self, data: bytes) -> bool:
        """Take the next piece; whether the file is whole, verified and durable.  Raises Corrupt, NoRoom, NodeAway."""
        await self._put(data)
        self.received += len(data)
        if self.received < self.total:
            return False
        await self._put(_END)
        await asyncio.wait((self.task,))  # not ended with its caller
        self.task.result()
        return True

    async def _put(self, piece: bytes) -> None:
        """Hand *piece* to the writer.  Raises its error if it has failed."""
        putting = asyncio.ensure_future(self._pieces.put(piece))
        try:
            done, _ = await asyncio.wait((putting, self.task), return_when=asyncio.FIRST_COMPLETED)
        finally:
            putting.cancel()
        if self.task in done:
            self.task.result()


class Uploads:
    """The uploads of all nodes, by node and blob."""

    def __init__(self, blobs: Blobs, clock: Clock) -> None:
        self._blobs, self._clock = blobs, clock
        self._uploads: dict[tuple[str, str], _Upload] = {}

    async def write(self, node: str, blob: str, total: int, offset: int, data: bytes) -> tuple[int, bool]:
        """Take *data* if it is the next piece of *node*'s upload; how many bytes there are, and whether that is all.

        Raises Busy if the node has too many uploads, and Corrupt if the whole is not *blob*: then nothing is left.
        """
        self.drop_idle()
        upload = self._uploads.get((node, blob))
        if upload is None or upload.total != total:
            if offset == 0 and len(data) == total:  # whole: no upload has to be kept
                if hashlib.sha256(data).hexdigest() != blob:
                    raise Corrupt(blob, "the received data")
                await self._blobs.put([data])
                return total, True
            if await self._blobs.renew([blob]):
                return total, True
            upload = await self._begin(node, blob, total)
        async with upload.lock:
            upload.tick = self._clock.tick()
            if offset != upload.received or not data:
                return upload.received, False
            try:
                done = await upload.add(data)
            except BaseException:
                await self._drop(node, blob)
                raise
            if done:
                self._uploads.pop((node, blob), None)
            return upload.received, done

    async def _begin(self, node: str, blob: str, total: int) -> _Upload:
        await self._drop(node, blob)
        sizes = [upload.total for (owner, _), upload in self._uploads.items() if owner == node]
        is_full = len(sizes) >= _OF_NODE_MAX or sum(sizes) + total > _BYTES_OF_NODE_MAX
        if is_full or len(self._uploads) >= _MAX:
            raise Busy("uploads", f"{'this node' if is_full else 'all nodes together'} have too many at once")
        upload = self._uploads[node, blob] = _Upload(self._blobs, blob, total, self._clock.tick())
        return upload

    async def _drop(self, node: str, blob: str) -> None:
        """End an upload; its part is deleted."""
        upload = self._uploads.pop((node, blob), None)
        if upload is not None:
            upload.task.cancel()
            await asyncio.wait((upload.task,))
            with suppress(asyncio.CancelledError):
                upload.task.exception()  # retrieved: whoever sent the piece has it, or nobody waits for it

    def drop_idle(self) -> None:
        """End the uploads of which nothing came for a while."""
        before = self._clock.tick() - _IDLE_SECONDS_MAX
        for key, upload in list(self._uploads.items()):
            if upload.tick < before and not upload.lock.locked():
                del self._uploads[key]
                upload.task.cancel()

    async def close(self) -> None:
        """End all uploads."""
        for node, blob in list(self._uploads):
            await self._drop(node, blob)
