"""Reads blobs from folders that this process can open itself, verified before the first byte."""

from collections.abc import AsyncIterator, Awaitable, Callable

from ringrift.blobs.ports import CHUNK, Blobs
from ringrift.sync.transports.ports import Endpoint

Reach = Callable[[str], Awaitable[Blobs]]  #: The blobs of a node, by its id.  Raises NodeAway if it cannot be reached.
FOLDER = "folder"


class FolderTransport:
    """:class:`ringrift.sync.transports.ports.Transport` for the folders that *at* opens."""

    name = FOLDER

    def __init__(self, at: Reach) -> None:
        self._at = at

    async def read(self, endpoint: Endpoint, blob: str, offset: int) -> AsyncIterator[bytes]:
        """The bytes of *blob* from *offset* on; from the beginning on they are verified before the first one."""
        blobs = await self._at(endpoint.node)
        if not offset:
            async for chunk in blobs.read(blob):
                yield chunk
            return
        data, total = await blobs.read_piece(blob, offset, CHUNK)
        while data:
            yield data
            offset += len(data)
            data = (await blobs.read_piece(blob, offset, CHUNK))[0] if offset < total else b""

    async def is_good(self, endpoint: Endpoint, blob: str) -> bool:
        """Whether the copy there matches its name; if not it is set aside."""
        return not await (await self._at(endpoint.node)).verify([blob])
