"""The asking side: connections that are used again, and streams of notes."""

import asyncio
import binascii
import ssl
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any

import httptools
import msgspec

from ringrift.kernel.errors import RingriftError
from ringrift.kernel.wire_errors import WireError, raise_from_reply
from ringrift.wire.address import Address
from ringrift.wire.http import messages
from ringrift.wire.http.limits import HEAD_BYTES_MAX
from ringrift.wire.http.messages import EVENT_BYTES_MAX, REPLY_BYTES_MAX, decode_event, decode_reply
from ringrift.wire.ports import Reply

_NOTES_AHEAD_MAX = 64  # received and not yet consumed; then the peer waits
_HEADERS_MAX = 64
_GATEWAY = (502, 503, 504)  # what a proxy answers while the coordinator behind it is away


class Broken(Exception):
    """The connection ended before the answer was complete: whether the request was carried out is unknown."""


class _Link(asyncio.Protocol):
    """One connection to a coordinator, for one request at a time."""

    def __init__(self) -> None:
        self._transport: Any = None
        self._parser: Any = None
        self._reply: asyncio.Future[Reply] | None = None
        self._headers: dict[bytes, bytes] = {}
        self._body, self._head_bytes = bytearray(), -1  # -1: the head is complete
        self._notes: deque[bytes | Reply] = deque()
        self._is_stream, self._is_paused = False, False
        self._news = asyncio.Event()
        self.is_open, self.is_fresh = True, True

    async def ask(self, message: bytes) -> Reply:
        """Send *message*; the reply.  Raises Broken."""
        self._send(message)
        self._reply = asyncio.get_running_loop().create_future()
        try:
            return await self._reply
        finally:
            self._reply, self.is_fresh = None, False

    async def stream(self, message: bytes, silence_seconds_max: float) -> AsyncGenerator[bytes, None]:
        """Send *message*; its notes.  Raises Broken when they end, TimeoutError, and what the coordinator raises."""
        self._is_stream = True
        self._send(message)
        while True:
            while not self._notes:
                if not self.is_open:
                    raise Broken
                self._news.clear()
                async with asyncio.timeout(silence_seconds_max):
                    await self._news.wait()
            note = self._notes.popleft()
            if self._is_paused and not self._notes and self.is_open:
                self._is_paused = False
                self._transport.resume_reading()
            if isinstance(note, Reply):
                raise_from_reply(note.error, note.text, note.detail)
            yield note

    def _send(self, message: bytes) -> None:
        if not self.is_open:
            raise Broken
        self._parser = httptools.HttpResponseParser(self)
        self._headers, self._body, self._head_bytes = {}, bytearray(), 0
        self._transport.write(message)

    def connection_made(self, transport: Any) -> None:
        """Begin."""
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        """End."""
        self.is_open = False
        self._fail(Broken())
        self._parser = None

    def data_received(self, data: bytes) -> None:
        """Parse *data*."""
        if self._parser is None:
            self.close()  # nobody has asked for anything
            return
        try:
            self._parser.feed_data(data)
            self._head_bytes += len(data) if self._head_bytes >= 0 else 0
            if self._head_bytes > HEAD_BYTES_MAX or len(self._headers) > _HEADERS_MAX:
                raise httptools.HttpParserError("head too large")
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            cause = error.__context__ if isinstance(error.__context__, RingriftError) else None
            self._fail(cause or WireError("the answer is not HTTP: something else than a coordinator is there"))
            self.close()
        if not self._is_stream and (self._reply is None or self._reply.done()):
            self._parser = None  # whatever follows is an answer to nothing

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._head_bytes = -1

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._body += body
        is_stream = self._is_stream and self._headers.get(b"content-type") == messages.STREAM_TYPE
        if len(self._body) > (EVENT_BYTES_MAX + len(body) if is_stream else REPLY_BYTES_MAX):
            raise WireError("the answer is larger than any answer of a coordinator")
        if is_stream:
            self._take_events()

    def _take_events(self) -> None:
        *events, rest = self._body.split(messages.NOTE_END)
        self._body = bytearray(rest)
        for event in events:
            try:
                note = decode_event(bytes(event))
            except (binascii.Error, msgspec.MsgspecError) as error:
                raise WireError("the stream is damaged") from error
            if note is not None:
                self._notes.append(note)
        if len(self._notes) > _NOTES_AHEAD_MAX and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        self._news.set()

    def on_message_complete(self) -> None:
        """The answer is there."""
        status = self._parser.get_status_code()
        if not self._parser.should_keep_alive() or self._is_stream:
            self.close()
        try:
            reply = decode_reply(self._headers, self._body)
        except msgspec.MsgspecError:
            reply = None
        if reply is not None and self._reply is not None and not self._reply.done():
            self._reply.set_result(reply)
        elif reply is not None and self._is_stream:
            self._notes.append(reply)
            self._news.set()
        else:
            other = WireError(f"HTTP {status}: something else than a coordinator answers there")
            self._fail(Broken() if status in _GATEWAY else other)
        self._headers, self._body = {}, bytearray()

    def _fail(self, error: Exception) -> None:
        self._news.set()
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(error)

    def close(self) -> None:
        """End this connection now."""
        self.is_open = False
        self._transport.abort()


class Pool:
    """The connections to one address: those that rest are used again."""

    def __init__(self, address: Address, context: ssl.SSLContext | None, connections_max: int) -> None:
        self._address, self._context = address, context
        self._slots = asyncio.Semaphore(connections_max)
        self._idle: list[_Link] = []

    async def ask(self, message: bytes) -> Reply:
        """Send *message* and return the reply.  Raises Broken, OSError.

        A connection that has rested may be closed by the other side at the moment it is used: then once more over a
        new one, since a request that arrives twice is carried out once.
        """
        async with self._slots:
            while (link := await self._take()).is_fresh is False:
                try:
                    return await self._ask(link, message)
                except Broken:
                    continue
            return await self._ask(link, message)

    async def _take(self) -> _Link:
        while self._idle:
            if (link := self._idle.pop()).is_open:
                return link
        return await self.connect()

    async def _ask(self, link: _Link, message: bytes) -> Reply:
        try:
            reply = await link.ask(message)
        except BaseException:
            link.close()
            raise
        if link.is_open:
            self._idle.append(link)
        return reply

    async def connect(self) -> _Link:
        """A new connection.  Raises OSError."""
        loop = asyncio.get_running_loop()
        host, port = self._address.host, self._address.port
        _, link = await loop.create_connection(_Link, host, port, ssl=self._context)
        return link

    def close(self) -> None:
        """End the connections that rest."""
        while self._idle:
            self._idle.pop().close()
