"""Links between folders that break, damage and cut short what they carry, as told, and the breakers of such links."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

from ringrift.blobs.ports import Blobs
from ringrift.kernel.errors import NodeAway
from ringrift.kernel.wire_errors import LinkBroken
from ringrift.sync.transports.ports import AnyTransport, Endpoint, OnBytes, Source

CHUNK = 4  # bytes that these links carry at a time


class Wire:
    """A transport between folders; each read meets the next of *faults*: (what, at which byte of the stream)."""

    def __init__(self, name: str, folders: Mapping[str, Blobs], *faults: tuple[str, int] | None) -> None:
        self.name, self._folders, self.faults = name, folders, list(faults)
        self.offsets: list[int] = []  #: Where each read began.
        self.carried = 0  #: Bytes in all.

    async def read(self, endpoint: Endpoint, blob: str, offset: int) -> AsyncIterator[bytes]:
        fault, at = (self.faults.pop(0) if self.faults else None) or ("", -1)
        self.offsets.append(offset)
        data = b"".join([chunk async for chunk in self._folders[endpoint.node].read(blob)])[offset:]
        for first in range(0, len(data), CHUNK):
            chunk = data[first : first + CHUNK]
            if first <= at < first + CHUNK:
                if fault == "cut":
                    raise LinkBroken(endpoint.node, self.name, "cut")
                if fault == "end":
                    return
                if fault == "flip":
                    chunk = bytes(byte ^ 1 for byte in chunk)
            self.carried += len(chunk)
            yield chunk


class BatchWire(Wire):
    """A transport that also sends many blobs in one stream, in which faults are met at the nth blob."""

    streams = 0

    async def read_batch(self, endpoint: Endpoint, blobs: Sequence[str]) -> AsyncIterator[tuple[str, bytes]]:
        fault, at = (self.faults.pop(0) if self.faults else None) or ("", -1)
        self.streams += 1
        for number, blob in enumerate(blobs):
            data = b"".join([chunk async for chunk in self._folders[endpoint.node].read(blob)])
            if number == at:
                if fault == "cut":
                    raise LinkBroken(endpoint.node, self.name, "cut")
                if fault == "hang":
                    await asyncio.Event().wait()
                data = bytes(byte ^ 1 for byte in data)
            yield blob, data


class Post:
    """A transport that brings blobs to folders which cannot be opened from here; it breaks off after *pieces*."""

    name = "post"

    def __init__(self, folders: Mapping[str, Blobs], pieces: int | None = None) -> None:
        self._folders, self._pieces = folders, pieces
        self.rooms: dict[str, int] = {}
        self.away: set[str] = set()

    async def room(self, endpoint: Endpoint) -> int:
        if endpoint.node in self.away:
            raise NodeAway(endpoint.node)
        return self.rooms[endpoint.node]

    async def push(self, endpoint: Endpoint, blob: str, size: int, source: Source, on_bytes: OnBytes) -> int:
        part, sent = self._folders[endpoint.node].part(blob, "post"), 0
        offset = await part.open()
        try:
            async for chunk in source(offset):
                if self._pieces is not None:
                    await part.append(chunk[: len(chunk) // 2])
                    self._pieces = None
                    raise LinkBroken(endpoint.node, self.name, "cut")
                await part.append(chunk)
                sent += len(chunk)
                on_bytes(len(chunk))
            assert await part.commit() == size
        finally:
            await part.close(keep=True)
        return sent


class Network:
    """:class:`ringrift.sync.transports.ports.Endpoints`, and breakers of its links that open at the first failure."""

    def __init__(self, *transports: AnyTransport) -> None:
        self.transports = {transport.name: transport for transport in transports}
        self.reports: list[tuple[str, str, bool]] = []  #: (node, transport, whether the bytes arrived)
        self.broken: set[tuple[str, str]] = set()
        self.hub_names: Sequence[str] = ()  #: Machines that only transports reach.

    @property
    def health(self) -> "Network":
        return self

    async def find(self, node: str) -> Sequence[Endpoint]:
        return [Endpoint(node=node, transport=name) for name in self.transports]

    def hubs(self) -> Sequence[str]:
        return self.hub_names

    async def allows(self, node: str, transport: str) -> bool:
        return (node, transport) not in self.broken

    async def report(self, node: str, transport: str, error: str | None) -> None:
        self.reports.append((node, transport, error is None))
