"""A served wire as a target: raw connections to it, and whether it still serves others afterwards."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from contract.engines import run
from contract.wire_rig import Echo
from ringrift.kernel.settings import WireSettings
from ringrift.wire.http.engine import HttpWire
from ringrift.wire.http.limits import Limits
from ringrift.wire.open import open_wire
from ringrift.wire.ports import Request

SECONDS = 10.0
HEAD = b"POST /wire/echo HTTP/1.1\r\nhost: 127.0.0.1\r\n"
GOOD = HEAD + b"content-length: 2\r\n\r\nhi"
Story = Callable[["Target"], Awaitable[None]]


class Target:
    """A served Echo, and raw connections to it."""

    def __init__(self, address: str, echo: Echo) -> None:
        self.address, self.echo = address, echo
        self.port = int(address.rpartition(":")[2])

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A raw connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield reader, writer
        finally:
            writer.close()

    async def send(self, *pieces: bytes) -> bytes:
        """Send *pieces* one after the other; everything that comes back until the server ends the connection."""
        async with self.connect() as (reader, writer), asyncio.timeout(SECONDS):
            try:
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                return await rest_of(reader)
            except ConnectionError:
                return b""

    async def works(self) -> bool:
        """Whether others are served."""
        wire = open_wire(WireSettings())
        try:
            return (await wire.request(self.address, Request(verb="echo", body=b"x"), SECONDS)).body == b"x"
        finally:
            wire.close()


def play(story: Story, settings: WireSettings | None = None, limits: Limits | None = None) -> None:
    """Run *story* against a server with *settings* and *limits*; afterwards others are still served."""

    async def main() -> None:
        echo = Echo()
        async with HttpWire(settings or WireSettings(), limits=limits).serve("127.0.0.1:0", echo) as address:
            target = Target(address, echo)
            await story(target)
            assert await target.works()

    run(main())


async def rest_of(reader: asyncio.StreamReader) -> bytes:
    """What comes until the connection ends, in good order or not."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


def refused(*pieces: bytes, status: bytes) -> None:
    """Sent *pieces*, a server answers once, with *status*, ends the connection, and its service has seen nothing."""

    async def story(target: Target) -> None:
        answer = await target.send(*pieces)
        assert answer.startswith(b"HTTP/1.1 " + status), answer[:200]
        assert answer.count(b"HTTP/1.1 ") == 1
        assert not target.echo.requests

    play(story)
