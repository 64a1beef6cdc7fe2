"""The HTTP engine gives strangers no more memory, time and connections than its limits say, and no answer more."""

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from contract.engines import run
from contract.wire_rig import read, settle_at
from contract.wire_target import GOOD, HEAD, SECONDS, Target, play, refused, rest_of
from ringrift.kernel.errors import NodeAway, TooLarge
from ringrift.kernel.settings import WireSettings
from ringrift.kernel.wire_errors import WireError
from ringrift.wire.http import messages
from ringrift.wire.http.engine import HttpWire
from ringrift.wire.http.limits import Limits
from ringrift.wire.ports import BODY_BYTES_MAX, Request
from wait import wait_until


def test_a_huge_head_ends_the_connection() -> None:
    """In one line, in many, without an end, or a line per packet."""
    refused(HEAD + b"x-a: " + b"a" * 20_000 + b"\r\n\r\n", status=b"431")
    refused(HEAD + b"x-a: " + b"a" * 20_000, status=b"431")
    refused(b"POST /" + b"a" * 20_000, status=b"431")
    refused(HEAD + b"".join(b"x-%d: b\r\n" % number for number in range(100)) + b"\r\n", status=b"400")
    refused(HEAD, *(b"x-%d: %b\r\n" % (number, b"b" * 1000) for number in range(30)), status=b"4")


def test_a_huge_body_is_refused_by_its_head() -> None:
    """It is not read."""
    refused(HEAD + b"content-length: %d\r\n\r\n" % (BODY_BYTES_MAX + 1), status=b"413")


def test_bodies_of_all_connections_together_are_bounded() -> None:
    """When they are too many, large ones are refused, and small ones still come through."""
    large = HEAD + b"content-length: 90000\r\n\r\n" + b"x" * 80_000

    async def story(target: Target) -> None:
        async with target.connect() as (_, writer):
            writer.write(large)
            await writer.drain()
            answer = b""
            while not answer.startswith(b"HTTP/1.1 503"):  # until the first has arrived
                async with target.connect() as (reader, second):
                    second.write(large)
                    await second.drain()
                    answer = await reader.read() if writer.transport.get_write_buffer_size() == 0 else b""
            assert await target.works()
            assert not [request for request in target.echo.requests if len(request.body) > 1]
        whole = HEAD + b"connection: close\r\ncontent-length: 90000\r\n\r\n" + b"x" * 90_000

        async def is_free() -> bool:
            return (await target.send(whole)).startswith(b"HTTP/1.1 200")

        await wait_until(is_free, SECONDS)  # what ended connections held

    play(story, limits=Limits(receiving_bytes_max=100_000))


def test_a_body_that_unpacks_to_too_much_is_refused_unseen() -> None:
    """A zip bomb, a body that is cut off, one with something behind it, and one that is no compressed body at all."""

    def compressed(body: bytes) -> bytes:
        head = b"content-encoding: deflate\r\ncontent-length: %d\r\n\r\n" % len(body)
        return HEAD + head + body

    refused(compressed(zlib.compress(bytes(100 * 1024 * 1024), 1)), status=b"413")
    good = zlib.compress(b"hello")
    for bad in (good[:-1], good + b"!", b"hello", b""):
        refused(compressed(bad), status=b"400")


def test_a_slow_head_and_a_slow_body_end() -> None:
    """Slow-loris: a byte now and then does not keep a connection; nor does silence."""

    async def drip(target: Target, begin: bytes) -> None:
        async with target.connect() as (reader, writer):
            writer.write(begin)
            ended = asyncio.ensure_future(rest_of(reader))

            async def is_over() -> bool:
                if begin:
                    writer.write(b"x")
                return ended.done()

            await wait_until(is_over, SECONDS)
            assert await ended == b""

    async def story(target: Target) -> None:
        begins = (HEAD + b"x-a: ", HEAD + b"content-length: 1000000\r\n\r\n", b"")
        await asyncio.gather(*(drip(target, begin) for begin in begins for _ in range(20)))
        assert not target.echo.requests

    limits = Limits(request_seconds_max=0.3, idle_seconds_max=0.3, sweep_seconds=0.05)
    play(story, WireSettings(header_seconds_max=0.3), limits)


def test_a_reader_that_does_not_read_is_ended() -> None:
    """Notes for it are not produced without end, and its connection is not kept for ever."""
    body = b"x" * 10_000

    async def story(target: Target) -> None:
        async with target.connect() as (_, writer):
            head = b"POST /wire/endless HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n"
            writer.write(head + b"content-length: %d\r\n\r\n" % len(body) + body)
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # it is a read transport too
            await wait_until(lambda: target.echo.produced > 0)
            assert await settle_at(lambda: target.echo.produced) < 10_000
            assert target.echo.streams == 1
            await wait_until(lambda: target.echo.streams == 0, SECONDS)

    play(story, limits=Limits(stall_seconds_max=4.0, sweep_seconds=0.05))


@pytest.mark.parametrize(("beacon_seconds", "is_kept"), [(0.2, True), (1e9, False)])
def test_a_silent_stream_says_that_it_is_there(beacon_seconds: float, is_kept: bool) -> None:
    """A reader waits as long as there are beacons, and not much longer."""
    limits = Limits(sweep_seconds=0.05, beacon_seconds=beacon_seconds, silence_seconds_max=1.0)

    async def story(target: Target) -> None:
        wire, notes = HttpWire(WireSettings(), limits=limits), list[bytes]()
        reading = asyncio.ensure_future(read(wire, target.address, "held", notes))
        await wait_until(lambda: len(notes) == 204)
        await asyncio.wait((reading,), timeout=2.5)
        assert reading.done() != is_kept
        reading.cancel()
        with pytest.raises((NodeAway, asyncio.CancelledError)):
            await reading
        await wait_until(lambda: target.echo.streams == 0)

    play(story, limits=limits)


def test_more_connections_than_allowed_are_told_to_come_later() -> None:
    """The others go on."""

    async def story(target: Target) -> None:
        async with target.connect() as (reader, writer), target.connect():
            writer.write(GOOD)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            third = await target.send(b"")
            assert third.startswith(b"HTTP/1.1 503")
            reply = messages.decode_reply({b"content-type": messages.REPLY_TYPE}, third.partition(b"\r\n\r\n")[2])
            assert reply is not None
            assert (reply.error, reply.wait_seconds > 0) == ("Backpressure", True)
        await wait_until(lambda: target.works(), SECONDS)

    play(story, WireSettings(connections_max=2))


@asynccontextmanager
async def impostor(answer: bytes) -> AsyncIterator[str]:
    """Something that answers every connection with *answer*, without end if it ends with "more", and then is silent."""

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        try:
            writer.write(answer)
            while answer.endswith(b"more"):
                writer.write(b"more" * 16_384)
                await writer.drain()
            await reader.read()
        except ConnectionError:
            pass
        finally:
            writer.close()

    listener = await asyncio.start_server(meet, "127.0.0.1", 0)
    async with listener:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"


PACKED = zlib.compress(bytes(100 * 1024 * 1024), 9)
BOMB = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-msgpack\r\ncontent-encoding: deflate\r\n"
BOMB += b"content-length: %d\r\n\r\n" % len(PACKED) + PACKED


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"SSH-2.0-OpenSSH\r\n", WireError),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", WireError),
        (b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n", NodeAway),
        (b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ringrift-reply\r\ncontent-length: 1\r\n\r\n\xff", WireError),
        (b"HTTP/1.1 200 OK\r\ncontent-type: application/x-msgpack\r\ncontent-length: 9999999\r\n\r\nmore", WireError),
        (b"HTTP/1.1 200 OK\r\nx-a: more", WireError),
        (BOMB, TooLarge),
        (b"HTTP/1.1 200 OK\r\ncontent-type: application/x-msgpack\r\ncontent-length: 5\r\n\r\nhel", NodeAway),
        (b"", NodeAway),
    ],
    ids=["ssh", "web", "proxy", "damaged", "endless body", "endless head", "bomb", "cut off", "silent"],
)
def test_an_answer_of_something_else_is_told_and_bounded(answer: bytes, error: type[Exception]) -> None:
    """Another program, a proxy without a coordinator, an answer without end, and silence."""

    async def main() -> None:
        wire = HttpWire(WireSettings(), limits=Limits(silence_seconds_max=0.5))
        async with impostor(answer) as address:
            with pytest.raises(error):
                await wire.request(address, Request(verb="echo"), 1.0 if error is NodeAway else SECONDS)
            with pytest.raises((NodeAway, error)):
                async with asyncio.timeout(SECONDS):
                    await read(wire, address, "numbers", [])
        wire.close()

    run(main())
