"""The HTTP engine refuses what is not a plain request of one of our clients, before its service sees a byte."""

import socket

import httptools
import pytest

from contract.engines import run
from contract.wire_rig import Echo
from contract.wire_target import GOOD, HEAD, Target, play, refused, rest_of
from ringrift.kernel.settings import WireSettings
from ringrift.kernel.wire_errors import InsecureBind, WireError
from ringrift.wire.http import messages
from ringrift.wire.open import open_wire
from ringrift.wire.ports import Request
from wait import wait_until


@pytest.mark.parametrize(
    "head",
    [
        b"content-length: 2\r\ntransfer-encoding: chunked\r\n",
        b"transfer-encoding: chunked\r\ncontent-length: 2\r\n",
        b"transfer-encoding: chunked\r\n",
        b"transfer-encoding: xchunked\r\ncontent-length: 2\r\n",
        b"transfer-encoding: \x0bchunked\r\ncontent-length: 2\r\n",
        b"content-length: 2\r\ncontent-length: 30\r\n",
        b"content-length: 2\r\nContent-Length: 2\r\n",
        b"content-length: 2, 2\r\n",
        b"content-length: +2\r\n",
        b"content-length: -2\r\n",
        b"content-length: 0x2\r\n",
        b"content-length: 2 2\r\n",
        b"content-length : 2\r\n",
        b" content-length: 2\r\n",
        b"content-length: \r\n 2\r\n",
        b"content-length: 99999999999999999999999\r\n",
        b"x-a: b\rcontent-length: 2\r\n",
        b"x-a: \x00\r\ncontent-length: 2\r\n",
        b"x-a\x00: b\r\ncontent-length: 2\r\n",
        b"host: evil\r\ncontent-length: 2\r\n",
        b"x-ringrift-node: a\r\nx-ringrift-node: b\r\ncontent-length: 2\r\n",
        b"connection: upgrade\r\nupgrade: h2c\r\ncontent-length: 2\r\n",
        b"",
    ],
)
def test_what_two_parsers_could_read_differently_is_refused(head: bytes) -> None:
    """Two lengths, none, an encoding of the body, folded or broken lines: one refusal, and the connection ends."""
    refused(HEAD + head + b"\r\nhi", status=b"4")
    refused(HEAD + head + b"\r\nhi" + GOOD, status=b"4")


def test_a_body_in_chunks_is_refused() -> None:
    """Even a valid one: no client of ours sends it, and proxies read it in many ways."""
    refused(HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", status=b"411")


def test_a_second_request_before_the_answer_ends_the_connection() -> None:
    """Pipelining, in one packet or in two."""
    refused(GOOD + GOOD, status=b"400")
    refused(GOOD + b"POST /x HTTP/1.1\r\n\r\n", status=b"400")

    async def story(target: Target) -> None:
        request = GOOD.replace(b"echo", b"held")
        async with target.connect() as (reader, writer):
            writer.write(request)
            await wait_until(lambda: len(target.echo.requests) == 1)
            writer.write(request)
            assert await rest_of(reader) == b""
        target.echo.gate.set()
        assert len(target.echo.requests) == 1

    play(story)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST /wire/echo HTTP/1.1\r\nhost: evil.example\r\n", b"421"),
        (b"POST /wire/echo HTTP/1.1\r\nhost: 127.0.0.1.evil.example:80\r\n", b"421"),
        (b"POST /wire/echo HTTP/1.1\r\n", b"421"),
        (HEAD + b"origin: http://127.0.0.1\r\n", b"403"),
        (HEAD + b"origin: null\r\n", b"403"),
        (b"POST http://127.0.0.1/wire/echo HTTP/1.1\r\nhost: 127.0.0.1\r\n", b"404"),
        (b"POST /other HTTP/1.1\r\nhost: 127.0.0.1\r\n", b"404"),
        (b"GET /wire/echo HTTP/1.1\r\nhost: 127.0.0.1\r\n", b"405"),
        (b"CONNECT evil.example:80 HTTP/1.1\r\nhost: 127.0.0.1\r\n", b"4"),
        (b"OPTIONS * HTTP/1.1\r\nhost: 127.0.0.1\r\norigin: http://evil.example\r\n", b"4"),
        (HEAD + b"x-ringrift-number: 1e9\r\n", b"400"),
        (HEAD + b"x-ringrift-number: " + b"9" * 19 + b"\r\n", b"400"),
        (HEAD + b"x-ringrift-signature: not base64!\r\n", b"400"),
        (HEAD + b"x-ringrift-node: \xc3\xa9\r\n", b"400"),
        (HEAD + b"content-encoding: gzip\r\n", b"400"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n", b"4"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"400"),
    ],
)
def test_requests_that_are_not_meant_for_a_coordinator_are_refused(head: bytes, status: bytes) -> None:
    """Another host, a page in a browser, a proxy, a method or path or field that is none of ours."""
    refused(head + b"content-length: 2\r\n\r\nhi", status=status)


def test_names_of_the_coordinator_are_its_own() -> None:
    """IP addresses, this machine, and what the settings say, with or without a port."""

    async def story(target: Target) -> None:
        hosts = [
            "localhost:8770",
            "[::1]:8770",
            "203.0.113.7",
            "COORDINATOR.example",
            socket.gethostname(),
            "a.b.example",
        ]
        for host in hosts:
            request = f"POST /wire/echo HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            assert (await target.send(request.encode())).startswith(b"HTTP/1.1 200"), host
        other = b"POST /wire/echo HTTP/1.1\r\nhost: x.a.b.example\r\ncontent-length: 0\r\n\r\n"
        assert (await target.send(other)).startswith(b"HTTP/1.1 421")

    play(story, WireSettings(names=("coordinator.example", "*.b.example")))


@pytest.mark.parametrize("bind", ["0.0.0.0", "[::]", "192.0.2.1", "coordinator.example", "[::ffff:127.0.0.1]"])
def test_an_address_that_others_reach_needs_tls(bind: str) -> None:
    """Nothing is opened."""

    async def main() -> None:
        with pytest.raises(InsecureBind, match="ringrift certs"):
            async with open_wire(WireSettings()).serve(f"{bind}:0", Echo()):
                pass

    run(main())


def test_insecure_waives_tls() -> None:
    """And the address it is reached at is one of this machine, not the wildcard."""

    async def main() -> None:
        async with open_wire(WireSettings(insecure=True)).serve("0.0.0.0:0", Echo()) as address:
            assert "0.0.0.0" not in address
            assert await Target(f"http://127.0.0.1:{address.rpartition(':')[2]}", Echo()).works()

    run(main())


def test_a_field_that_no_header_can_have_is_not_sent() -> None:
    """A line break in a field would begin another header."""
    for bad in ("a\r\nhost: evil", "é", "a\0"):
        with pytest.raises(WireError, match="nothing was sent"):
            messages.encode_request("h:1", Request(verb="echo", node=bad), is_stream=False, compress=False)


@pytest.mark.parametrize("compress", [True, False])
def test_compression_is_used_where_it_pays(compress: bool) -> None:
    """A repetitive body is sent smaller, both ways; noise, small and large ones as they are."""
    for body, is_smaller in ((b"abc" * 1000, compress), (b"abc" * 100, False), (bytes(1024 * 1024), False)):
        request = Request(verb="echo", body=body)
        sent = messages.encode_request("h:1", request, is_stream=False, compress=compress)
        assert (len(sent) < len(body)) == is_smaller
        seen = Seen()
        httptools.HttpRequestParser(seen).feed_data(sent)
        assert messages.decode_request(b"/wire/echo", seen.headers, seen.body) == request


class Seen:
    """What a parser finds."""

    def __init__(self) -> None:
        self.headers: dict[bytes, bytes] = {}
        self.body = b""

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        self.headers[name] = value

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self.body += body
