"""Receives a blob from one holder by one transport, going on where an earlier try ended."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Never, Protocol

from ringrift.blobs.ports import CHUNK, Blobs, Part
from ringrift.kernel.errors import Corrupt, NoRoom, TransferError
from ringrift.kernel.transfer_settings import LinkSettings
from ringrift.kernel.value import Value
from ringrift.kernel.wire_errors import LinkBroken
from ringrift.sync.shaper import Shaper
from ringrift.sync.stall import watch, watch_append
from ringrift.sync.transports.ports import AnyTransport, Endpoint, FileTransport, OnBytes, Transport
from ringrift.sync.wants import TransferClass

_ALIVE_SECONDS = 1.0


class SourceFailed(Exception):
    """The holder or the way from it has failed with *error*; nothing is wrong on the side that receives."""

    def __init__(self, error: TransferError) -> None:
        self.error = error
        super().__init__(str(error))


class Take(Protocol):
    """The right to move bytes, which a shaper gives out."""

    async def take(self, size: int) -> None:
        """Return when *size* more bytes may move."""


class _NoLimit:
    async def take(self, size: int) -> None:
        """Return at once."""


def open_place(
    shaper: Shaper | None, host: str, transfer_class: TransferClass, rate_max: float = 0.0
) -> AbstractAsyncContextManager[Take]:
    """A place for one transfer to or from *host*; without a *shaper* there is always one, and no limit."""
    return nullcontext(_NoLimit()) if shaper is None else shaper.place(host, transfer_class, rate_max)


async def keep_alive(on_progress: Callable[[], None]) -> Never:
    """Report progress while nothing arrives: connecting and hashing have limits of their own, a place in line none."""
    while True:
        await asyncio.sleep(_ALIVE_SECONDS)
        on_progress()


class Arrival(Value):
    """A blob that has arrived whole: its size, and how much of it an earlier try had left."""

    size: int
    resumed: int


async def receive(to: Blobs, blob: str, owner: str, source: "Source", on_bytes: OnBytes) -> Arrival:
    """Bring *blob* into *to*, verified and durable.  Raises SourceFailed; NoRoom, NodeAway if *to* fails.

    What has arrived stays for the next try of *owner*, here or after a restart.  Raises Corrupt if the bytes changed on
    their way; where an earlier try had left some of them, all are fetched again first.
    """
    while True:
        part, arrived = to.part(blob, owner), 0
        resumed = await part.open()

        def note(size: int) -> None:
            nonlocal arrived
            arrived += size
            on_bytes(size)

        is_over = False
        try:
            await source.fill(part, blob, resumed, note)
            size = await part.commit()
            is_over = True
            return Arrival(size=size, resumed=resumed)
        except (NoRoom, Corrupt) as error:
            is_over = True  # a full disk needs the room for other files
            if isinstance(error, NoRoom) or not resumed:
                raise
        finally:
            await part.close(keep=not is_over and resumed + arrived > 0)


class Source:
    """One holder, by one transport, within the limits of a shaper and of patience."""

    def __init__(self, endpoint: Endpoint, transport: AnyTransport, place: Take, limits: LinkSettings) -> None:
        self._endpoint, self._transport, self._place, self._limits = endpoint, transport, place, limits

    async def fill(self, part: Part, blob: str, offset: int, on_bytes: OnBytes) -> None:
        """Add everything behind *offset* to *part*.  Raises SourceFailed."""
        if not isinstance(self._transport, Transport):
            await self._append(self._transport, part, blob, on_bytes)
            return
        chunks = watch(self._transport.read(self._endpoint, blob, offset), self._limits, self._endpoint)
        try:
            while (chunk := await _next(chunks)) is not None:
                await self._place.take(len(chunk))
                await part.append(chunk)
                on_bytes(len(chunk))
        finally:
            if isinstance(chunks, AsyncGenerator):
                await chunks.aclose()  # ends the connection now, not when it is collected

    async def _append(self, transport: AnyTransport, part: Part, blob: str, on_bytes: OnBytes) -> None:
        """Let *transport* write the part.  It cannot be slowed down, so its bytes are paid for when it has ended."""
        if part.path is None or not isinstance(transport, FileTransport):
            raise SourceFailed(LinkBroken(self._endpoint.node, self._endpoint.transport, "it cannot be read from here"))
        sizes = list[int]()

        def add(size: int) -> None:
            sizes.append(size)
            on_bytes(size)

        try:
            await watch_append(transport, self._endpoint, blob, part.path, add, self._limits)
        except NoRoom:
            raise
        except TransferError as error:
            raise SourceFailed(error) from error
        for _ in range(0, sum(sizes), CHUNK):
            await self._place.take(CHUNK)


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    try:
        return await anext(chunks, None)
    except TransferError as error:
        raise SourceFailed(error) from error
