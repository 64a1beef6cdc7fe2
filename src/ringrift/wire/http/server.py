"""The serving side: one small protocol object for each connection, and one sweep over all of them for every time limit.

Everything that an unknown peer can make this process store is bounded before the service sees a byte: the head of a
request, its body, the bodies of all connections together, the connections, and the time that each of these may take.
A connection carries one request at a time; a second one before the answer (pipelining), a body whose length is not
named, and everything that two parsers could read differently end the connection.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import httptools

from ringrift.kernel.errors import Backpressure, RingriftError, TooLarge
from ringrift.kernel.settings import WireSettings
from ringrift.kernel.wire_errors import WireError
from ringrift.wire.address import parse_ip
from ringrift.wire.http import messages
from ringrift.wire.http.limits import HEAD_BYTES_MAX, Limits
from ringrift.wire.http.messages import PATH, decode_request, encode_chunk, encode_note, encode_reply
from ringrift.wire.ports import BODY_BYTES_MAX, Reply, Request, Service, error_reply

_HEADERS_MAX = 48
_SMALL_BYTES_MAX = 16 * 1024  # heartbeats and claims are let in while others fill the coordinator with large bodies
_REFUSED_SECONDS_MAX = 5.0  # for a peer to read why
_CLOSE_SECONDS_MAX = 2.0  # for answers under way when the server stops
_FULL_WAIT_SECONDS = 5.0
_NOTES_AT_ONCE_MAX = 32
_BAD = b"400 Bad Request"
_REASONS = {
    b"403 Forbidden": "this looks like a page in a browser, and a coordinator answers none",
    b"411 Length Required": "a request must name the length of its body, once",
    b"413 Content Too Large": f"the body is larger than {BODY_BYTES_MAX} bytes: files travel in pieces",
    b"421 Misdirected Request": "this coordinator is not called so: join by its IP address, or let it be started with "
    "this name in the setting wire.names",
}
_ONCE = (b"host", b"content-", b"accept", b"x-ringrift-")


class Link(asyncio.Protocol):
    """One connection."""

    __slots__ = (
        "_body",
        "_head_bytes",
        "_headers",
        "_is_complete",
        "_keep",
        "_parser",
        "_refusal",
        "_server",
        "_target",
        "_task",
        "_transport",
        "_write_gate",
        "since",
        "state",
    )

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._transport: Any = None
        self._parser: Any = None
        self._task: asyncio.Task[None] | None = None
        self._write_gate: asyncio.Event | None = None  # there is one while the peer does not read
        self.state, self.since = "idle", server.now()  # idle, head, body, answering, streaming; since when
        self._reset()

    def _reset(self) -> None:
        self._target, self._headers, self._body = b"", {}, bytearray()  # type: bytes, dict[bytes, bytes], bytearray
        self._head_bytes, self._is_complete, self._keep, self._refusal = 0, False, True, b""

    # What the transport calls

    def connection_made(self, transport: Any) -> None:
        """Begin, unless there are too many connections."""
        self._transport = transport
        self._parser = httptools.HttpRequestParser(self)
        if not self._server.admit(self):
            full = Backpressure("the list of connections of the coordinator", self._server.settings.connections_max)
            self._refuse(b"503 Service Unavailable", error_reply(full, wait_seconds=_FULL_WAIT_SECONDS))

    def connection_lost(self, error: Exception | None) -> None:
        """End; a stream ends with it, an answer under way is completed, for its effects."""
        self._server.forget(self, len(self._body))
        if self.state == "streaming" and self._task is not None:
            self._task.cancel()
        self.resume_writing()
        self._parser = self._transport = None  # they refer to this object

    def pause_writing(self) -> None:
        """The peer does not read what was sent to it."""
        self._write_gate, self.since = asyncio.Event(), self._server.now()

    def resume_writing(self) -> None:
        """The peer reads again."""
        if self._write_gate is not None:
            self._write_gate.set()
            self._write_gate, self.since = None, self._server.now()

    def data_received(self, data: bytes) -> None:
        """Parse *data*; answer the request if it is complete."""
        if self._parser is None or self.state == "closing":
            return
        if self.state in ("answering", "streaming"):
            self._transport.abort()  # pipelining: what is it an answer to?
            return
        if self.state == "idle":
            self.state, self.since = "head", self._server.now()
        if self.state == "head":
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserUpgrade, httptools.HttpParserError):
            self._refusal = self._refusal or _BAD
        if self.state == "head" and self._head_bytes > HEAD_BYTES_MAX:
            self._refusal = self._refusal or b"431 Request Header Fields Too Large"
        if self._refusal:
            self._refuse(self._refusal)
        elif self._is_complete:
            self._begin()

    # What the parser calls

    def on_message_begin(self) -> None:
        """A request begins; if one is complete already, this is pipelining."""
        if self._is_complete:
            self._refusal = _BAD

    def on_url(self, url: bytes) -> None:
        """A part of the target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        name = name.lower()
        if len(self._headers) >= _HEADERS_MAX or (name in self._headers and name.startswith(_ONCE)):
            self._refusal = _BAD
        self._headers[name] = value

    def on_headers_complete(self) -> None:
        """Refuse what must not be read further."""
        self.state, headers = "body", self._headers
        length = headers.get(b"content-length", b"")
        head_bytes = len(self._target) + sum(len(name) + len(value) for name, value in headers.items())
        if self._refusal:
            return
        if head_bytes > HEAD_BYTES_MAX:
            self._refusal = b"431 Request Header Fields Too Large"
        elif self._parser.get_method() != b"POST":
            self._refusal = b"405 Method Not Allowed"
        elif b"transfer-encoding" in headers or not length.isdigit():
            self._refusal = b"411 Length Required"
        elif int(length) > BODY_BYTES_MAX:
            self._refusal = b"413 Content Too Large"
        elif b"origin" in headers or b"upgrade" in headers:
            self._refusal = b"403 Forbidden"  # a page in a browser; no client of ours is one
        elif not self._server.is_own_name(headers.get(b"host", b"")):
            self._refusal = b"421 Misdirected Request"
        elif not self._target.startswith(PATH):
            self._refusal = b"404 Not Found"

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        if self._refusal:
            return
        self._body += body
        if not self._server.receive(len(body)) and int(self._headers[b"content-length"]) > _SMALL_BYTES_MAX:
            self._refusal = b"503 Service Unavailable"

    def on_message_complete(self) -> None:
        """The request is there; only now its parser knows whether another may follow."""
        self._is_complete, self._keep = True, self._parser.should_keep_alive()

    # What follows

    def _refuse(self, status: bytes, reply: Reply | None = None) -> None:
        reply = reply or error_reply(WireError(_REASONS.get(status, "this is not a valid request to a coordinator")))
        self.state = "closing"
        self._transport.write(encode_reply(reply, status=status, close=True))
        self._transport.close()

    def _begin(self) -> None:
        target, headers, body, keep = self._target, self._headers, bytes(self._body), self._keep
        self._server.release(len(body))
        self._reset()
        is_stream = headers.get(b"accept") == messages.STREAM_TYPE
        try:
            request = decode_request(target, headers, body)
        except (WireError, TooLarge) as error:
            self._refuse(b"413 Content Too Large" if isinstance(error, TooLarge) else _BAD, error_reply(error))
            return
        compress = b"deflate" in headers.get(b"accept-encoding", b"")
        self.since, self.state = self._server.now(), "streaming" if is_stream else "answering"
        run = self._stream(request) if is_stream else self._answer(request, compress, keep)
        self._task = self._server.start(run)

    async def _answer(self, request: Request, compress: bool, keep: bool) -> None:
        if self._write_gate is not None:  # until the last answer is read, so that answers do not pile up
            await self._write_gate.wait()
        try:
            reply = await self._server.service.answer(request)
        except BaseException:
            self.close()  # it will not be answered: let the caller ask again, or elsewhere
            raise
        if len(reply.body) > BODY_BYTES_MAX:
            reply = error_reply(TooLarge(len(reply.body), BODY_BYTES_MAX))
        if self._transport is None:
            return
        self._transport.write(encode_reply(reply, compress=compress, close=not keep))
        self._task, self.state = None, "idle"
        if self._write_gate is None:
            self.since = self._server.now()
        if not keep:
            self._transport.close()

    async def _stream(self, request: Request) -> None:
        self._transport.write(messages.STREAM_HEAD)
        notes = self._server.service.notes(request)
        try:
            number = 0
            async for note in notes:
                await self._send(encode_chunk(encode_note(note)))
                number += 1
                if number % _NOTES_AT_ONCE_MAX == 0:
                    await asyncio.sleep(0)  # a service that has many notes ready must not keep others waiting
            await self._send(encode_chunk(b""))
        except RingriftError as error:
            await self._send(encode_chunk(messages.encode_failure(error_reply(error))))
        finally:
            close: Callable[[], Any] | None = getattr(notes, "aclose", None)
            if close is not None:
                await close()
            if self._transport is not None:
                self._transport.close()

    async def _send(self, chunk: bytes) -> None:
        if self._transport is not None:
            self._transport.write(chunk)
            self.since = self._server.now() if self._write_gate is None else self.since
        if self._write_gate is not None:
            await self._write_gate.wait()

    def sweep(self, now: float, seconds_max: Mapping[str, float], limits: Limits) -> None:
        """End this connection if its peer takes too long; send a beacon over a silent stream."""
        seconds = now - self.since
        if self._write_gate is not None:
            is_over = seconds > limits.stall_seconds_max
        else:
            is_over = seconds > seconds_max[self.state]
        if is_over:
            self._transport.abort()
        elif self.state == "streaming" and self._write_gate is None and seconds >= limits.beacon_seconds:
            self._transport.write(encode_chunk(messages.BEACON))
            self.since = now

    def close(self) -> None:
        """End this connection now."""
        if self._transport is not None:
            self._transport.abort()


class Server:
    """All connections of one address."""

    def __init__(self, service: Service, settings: WireSettings, names: frozenset[str], limits: Limits) -> None:
        self.service, self.settings, self._names, self.limits = service, settings, names, limits
        self._links: set[Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._receiving = 0
        self._loop = asyncio.get_running_loop()

    def now(self) -> float:
        """The loop's monotonic time."""
        return self._loop.time()

    def admit(self, link: Link) -> bool:
        """Count *link*; False if there are too many."""
        self._links.add(link)
        return len(self._links) <= self.settings.connections_max

    def forget(self, link: Link, receiving: int) -> None:
        """*link* has ended with that many bytes of an unfinished request."""
        self._links.discard(link)
        self._receiving -= receiving

    def receive(self, count: int) -> bool:
        """Count bytes of an unfinished request; False if there are too many."""
        self._receiving += count
        return self._receiving <= self.limits.receiving_bytes_max

    def release(self, count: int) -> None:
        """A request of that many bytes is complete."""
        self._receiving -= count

    def is_own_name(self, host: bytes) -> bool:
        """Whether a request to *host* is meant for this server: a page that rebinds its own name to us is not."""
        name = host.decode("latin-1").lower().strip()
        name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
        return not self._names.isdisjoint((name, f"*.{name.partition('.')[2]}")) or parse_ip(name) is not None

    def start(self, run: Any) -> "asyncio.Task[None]":
        """Run *run* until it ends."""
        task: asyncio.Task[None] = self._loop.create_task(run)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def sweep_forever(self) -> None:
        """Apply every time limit."""
        limits, never = self.limits, float("inf")
        seconds_max = {"idle": limits.idle_seconds_max, "head": self.settings.header_seconds_max, "streaming": never}
        seconds_max |= {"body": limits.request_seconds_max, "closing": _REFUSED_SECONDS_MAX, "answering": never}
        while True:
            await asyncio.sleep(limits.sweep_seconds)
            now = self.now()
            for link in tuple(self._links):
                link.sweep(now, seconds_max, limits)

    async def close(self) -> None:
        """Let answers under way end, then end every connection."""
        for link in tuple(self._links):
            if link.state != "answering":
                link.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSE_SECONDS_MAX)
        for link in tuple(self._links):
            link.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
