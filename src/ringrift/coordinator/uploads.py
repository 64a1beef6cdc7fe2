"""Files on their way to the coordinator: pieces are added to a part, which becomes the file once its hash is right.

A part belongs to the node that began it and stays over restarts of both sides, so that an upload goes on where it was.
One that nothing came for rests, closed; those that rest are deleted by the sweep, and when their node begins too many.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import suppress

from ringrift.blobs.ports import Blobs, Part, StoredPart
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import Busy, NodeAway

_OF_NODE_MAX = 8  # parts of one node, open and at rest
_MAX = 512  # open ones of all nodes: each has a file open
_BYTES_OF_NODE_MAX = 1 << 32  # of the files that one node is uploading, and of its parts at rest
_IDLE_SECONDS_MAX = 60.0  # after which an upload rests
_Key = tuple[str, str]  # node and blob


class _Upload:
    """One file of one node; *received* bytes of it are in its part."""

    def __init__(self, part: Part, total: int, received: int, tick: float) -> None:
        self.part, self.total, self.received, self.tick = part, total, received, tick
        self.lock = asyncio.Lock()


def _choose_excess(parts: Sequence[StoredPart], open_keys: Collection[_Key], new: _Key, total: int) -> list[str]:
    """The blobs whose parts at rest go before *new*, of *total* bytes, begins: the oldest if its node has too many."""
    resting = [row for row in parts if row.owner == new[0] and (row.owner, row.blob) not in (*open_keys, new)]
    resting.sort(key=lambda row: -row.time)
    room, size = _OF_NODE_MAX - 1 - sum(node == new[0] for node, _ in open_keys), sum(row.size for row in resting)
    excess = list[str]()
    while resting and (len(resting) > room or size + total > _BYTES_OF_NODE_MAX):
        size -= resting[-1].size
        excess.append(resting.pop().blob)
    return excess


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


class Uploads:
    """The uploads of all nodes, by node and blob."""

    def __init__(self, blobs: Blobs, clock: Clock) -> None:
        self._blobs, self._clock = blobs, clock
        self._uploads: dict[_Key, _Upload] = {}
        self._beginning = asyncio.Lock()

    async def write(self, node: str, blob: str, total: int, offset: int, data: bytes) -> tuple[int, bool]:
        """Take *data* if it is the next piece of *node*'s upload; how many bytes there are, and whether that is all.

        Raises Busy if the node has too many uploads, and Corrupt if the whole is not *blob*: then nothing is left.
        """
        await self.rest_idle()
        key = (node, blob)
        upload = self._uploads.get(key)
        if upload is None or upload.total != total:
            if await self._blobs.renew([blob]):
                return total, True
            if offset == 0 and len(data) == total:  # whole: no part has to be kept
                await self._blobs.write(blob, _once(data))
                return total, True
            async with self._beginning:
                upload = self._uploads.get(key)
                if upload is None or upload.total != total:
                    upload = await self._begin(key, total)
        async with upload.lock:
            upload.tick = self._clock.tick()
            if self._uploads.get(key) is not upload:  # it has ended while this piece waited
                return (total, True) if await self._blobs.have([blob]) else (0, False)
            return await self._add(key, upload, data if offset == upload.received else b"")

    async def _add(self, key: _Key, upload: _Upload, data: bytes) -> tuple[int, bool]:
        """Add *data*; with the last byte the file is verified and durable.  An error leaves what is on the disk."""
        try:
            if data:
                await upload.part.append(data)
                upload.received += len(data)
            if upload.received < upload.total:
                return upload.received, False
            await upload.part.commit()
        except BaseException:
            await self._close(key, keep=True)
            raise
        await self._close(key, keep=True)
        return upload.total, True

    async def _begin(self, key: _Key, total: int) -> _Upload:
        """Go on with the part of an earlier process, or begin one.  Raises Busy."""
        await self._close(key, keep=False)
        node, blob = key
        sizes = [upload.total for (owner, _), upload in self._uploads.items() if owner == node]
        is_full = len(sizes) >= _OF_NODE_MAX or sum(sizes) + total > _BYTES_OF_NODE_MAX
        if is_full or len(self._uploads) >= _MAX:
            raise Busy("uploads", f"{'this node' if is_full else 'all nodes together'} have too many at once")
        stored = await self._blobs.parts()
        for name in _choose_excess(stored, self._uploads.keys(), key, total + sum(sizes)):
            with suppress(Busy):  # another process has it open
                old = self._blobs.part(name, node)
                await old.open()
                await old.close(keep=False)
        part = self._blobs.part(blob, node)
        received = await part.open()
        if received > total:  # it is not what this node says that it is
            await part.close(keep=False)
            received = await part.open()
        upload = self._uploads[key] = _Upload(part, total, received, self._clock.tick())
        return upload

    async def _close(self, key: _Key, *, keep: bool) -> None:
        """Close an upload; with *keep* its part rests."""
        upload = self._uploads.pop(key, None)
        if upload is not None:
            with suppress(NodeAway):  # its disk hangs: it is closed with the process
                await upload.part.close(keep=keep)

    async def rest_idle(self) -> None:
        """Close the uploads of which nothing came for a while."""
        before = self._clock.tick() - _IDLE_SECONDS_MAX
        for key, upload in list(self._uploads.items()):
            if upload.tick < before and not upload.lock.locked():
                await self._close(key, keep=True)

    async def close(self) -> None:
        """Close all uploads; another process goes on with them."""
        for key in list(self._uploads):
            await self._close(key, keep=True)
