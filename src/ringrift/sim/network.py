"""Network: the wire of a simulated world, with loss, delay, duplicates and partitions drawn from its seed.

A request is one message and its reply another; each may be lost, late, twice or overtaken.  A stream is ordered and
whole, as TCP is: what is lost is sent again, until one side gives the other up.  What arrives runs on the host that it
is sent to (a callback in that host's context), so that nothing happens on a host that is killed, and late on a paused.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from ringrift.kernel.errors import NodeAway, RingriftError, TooLarge
from ringrift.kernel.wire_errors import raise_from_reply
from ringrift.wire.address import parse_address
from ringrift.wire.ports import BODY_BYTES_MAX, NOTE_BYTES_MAX, Reply, Request, Service, Wire, error_reply

_PING_SECONDS = 4.0  # a stream without notes is checked this often
_RESEND_SECONDS, _RESENDS_MAX = 0.5, 20
_SILENT_SECONDS_MAX = _PING_SECONDS + _RESEND_SECONDS * _RESENDS_MAX
_UNREAD_MAX = 64  # notes that wait for a slow reader; then the stream stands still, and breaks
_PING, _END = b"ping", b"end"


@dataclass(slots=True)
class Link:
    """How one host is connected, in both directions."""

    delay_seconds_max: float = 0.01
    loss: float = 0.0  #: Share of the messages that never arrive.
    duplicates: float = 0.0  #: Share of those that arrive twice.


@dataclass(eq=False, slots=True)
class _Listener:
    """One service at one address, in the process that serves it."""

    host: str
    service: Service
    context: Context
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    open: dict[Callable[[], object], tuple[str, Context]] = field(default_factory=dict)  # how each connection breaks

    def start(self, work: Callable[[], Any]) -> None:
        """Begin *work* on the host of the service: called by a message that has arrived there."""
        task = asyncio.get_running_loop().create_task(work())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


@dataclass(eq=False, slots=True)
class _Stream:
    """One subscription: the mailbox of its reader, and what the reader has acknowledged."""

    host: str
    context: Context
    mailbox: asyncio.Queue[tuple[bytes, Any]] = field(default_factory=asyncio.Queue)
    received: int = 0
    acknowledged: int = 0
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    pump: asyncio.Task[Any] | None = None

    def break_off(self) -> None:
        self.mailbox.put_nowait((_END, None))

    def close(self) -> None:
        """The reader has gone; runs on the host of the service."""
        if self.pump is not None:
            self.pump.cancel()


class Network:
    """Every host and every message between them."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.links: dict[str, Link] = {}
        self.listeners: dict[str, _Listener] = {}
        self._cuts: set[tuple[str, str]] = set()

    def wire(self, host: str) -> Wire:
        """The engine of *host*."""
        return _SimWire(self, host)

    def link(self, host: str) -> Link:
        return self.links.setdefault(host, Link())

    def cut(self, source: str, target: str, *, both_ways: bool = True) -> None:
        """Let nothing pass from *source* to *target*, nor back unless it is one way; what is on its way is lost."""
        self._cuts |= {(source, target), (target, source)} if both_ways else {(source, target)}

    def heal(self, host: str) -> None:
        """End every cut of *host* and all that its link does to messages."""
        self._cuts = {pair for pair in self._cuts if host not in pair}
        self.links.pop(host, None)

    def end_process(self, host: str) -> None:
        """The process on *host* has ended: its addresses refuse from here on."""
        for address in [address for address, listener in self.listeners.items() if listener.host == host]:
            self.close(self.listeners.pop(address))

    def close(self, listener: _Listener) -> None:
        """Tell everyone who is connected to *listener* that it has ended."""
        for break_off, (reader, context) in listener.open.items():
            self.send(listener.host, reader, context, break_off)

    def send(self, source: str, target: str, context: Context, arrive: Callable[..., object], *args: Any) -> None:
        """Carry one message: *arrive* is called in *context* once, twice or never."""
        ends, draw = (self.link(source), self.link(target)), self._rng.random
        for _ in range(2 if any(draw() < end.duplicates for end in ends) else 1):
            if any(draw() < end.loss for end in ends):
                continue
            delay = sum(draw() * end.delay_seconds_max for end in ends)
            passes = partial(self._arrive, source, target, arrive, args)
            asyncio.get_running_loop().call_later(delay, passes, context=context)

    def _arrive(self, source: str, target: str, arrive: Callable[..., object], args: tuple[Any, ...]) -> None:
        if (source, target) not in self._cuts:
            arrive(*args)

    async def connect(self, host: str, address: str) -> _Listener:
        """The service at *address*.  Raises NodeAway where none is: a host that runs refuses at once."""
        if (listener := self.listeners.get(_name(address))) is None:
            await asyncio.sleep(self.link(host).delay_seconds_max)
            raise NodeAway(f"coordinator at {address}")
        return listener


class _SimWire:
    """:class:`ringrift.wire.ports.Wire` of one host."""

    def __init__(self, network: Network, host: str) -> None:
        self._network, self._host = network, host

    async def request(self, address: str, request: Request, seconds_max: float) -> Reply:
        if len(request.body) > BODY_BYTES_MAX:
            raise TooLarge(len(request.body), BODY_BYTES_MAX)
        network, host, context = self._network, self._host, copy_context()
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

        def receive(answer: Reply) -> None:
            if not reply.done():
                reply.set_result(answer)

        def break_off() -> None:
            if not reply.done():
                reply.set_exception(TimeoutError())

        async def serve() -> None:
            answer = await listener.service.answer(request)
            assert len(answer.body) <= BODY_BYTES_MAX
            network.send(listener.host, host, context, receive, answer)

        try:
            async with asyncio.timeout(seconds_max):
                listener = await network.connect(host, address)
                listener.open[break_off] = host, context
                network.send(host, listener.host, listener.context, listener.start, serve)
                try:
                    return await reply
                finally:
                    del listener.open[break_off]
        except TimeoutError:
            raise NodeAway(f"coordinator at {address}") from None

    async def subscribe(self, address: str, request: Request) -> AsyncIterator[bytes]:
        network, host = self._network, self._host
        listener, stream = await network.connect(host, address), _Stream(host, copy_context())
        pump = partial(self._pump, listener, stream, request)
        listener.open[stream.break_off] = host, stream.context
        network.send(host, listener.host, listener.context, listener.start, pump)
        try:
            while True:
                async with asyncio.timeout(_SILENT_SECONDS_MAX):
                    kind, content = await stream.mailbox.get()
                if kind == _END and content is not None:
                    raise_from_reply(content.error, content.text, content.detail)
                if kind == _END:
                    raise NodeAway(f"coordinator at {address}")
                if kind != _PING:
                    yield content
        except TimeoutError:
            raise NodeAway(f"coordinator at {address}") from None
        finally:
            del listener.open[stream.break_off]
            network.send(host, listener.host, listener.context, stream.close)

    async def _pump(self, listener: _Listener, stream: _Stream, request: Request) -> None:
        """Send the notes that *request* asks for until its reader goes; runs on the host of the service."""
        if stream.pump is not None:
            return  # the message that opened it arrived twice
        stream.pump = asyncio.current_task()
        notes = listener.service.notes(request)
        note: asyncio.Future[bytes] | None = None
        number = 0
        try:
            while True:
                note = note or asyncio.ensure_future(anext(notes))
                await asyncio.wait((note,), timeout=_PING_SECONDS)
                kind, content = _PING, b""
                if note.done():
                    kind, content, note = b"", note.result(), None
                    assert len(content) <= NOTE_BYTES_MAX
                number += 1
                await self._send_whole(listener, stream, number, (kind, content))
        except (RingriftError, StopAsyncIteration) as end:
            error = error_reply(end) if isinstance(end, RingriftError) else None
            with suppress(NodeAway):
                await self._send_whole(listener, stream, number + 1, (_END, error))
        finally:
            if note is not None:
                note.cancel()
                await asyncio.wait((note,))
            await notes.aclose()  # type: ignore[attr-defined]  # every service writes a generator

    async def _send_whole(self, listener: _Listener, stream: _Stream, number: int, item: tuple[bytes, Any]) -> None:
        """Send *item* until it is acknowledged.  Raises NodeAway if that never happens."""
        network, back = self._network, listener.context

        def acknowledge() -> None:
            stream.acknowledged = max(stream.acknowledged, number)
            stream.moved.set()

        def receive() -> None:
            if stream.mailbox.qsize() >= _UNREAD_MAX:
                return
            if number == stream.received + 1:
                stream.received = number
                stream.mailbox.put_nowait(item)
            network.send(stream.host, listener.host, back, acknowledge)

        for _ in range(_RESENDS_MAX):
            stream.moved.clear()
            network.send(listener.host, stream.host, stream.context, receive)
            with suppress(TimeoutError):
                async with asyncio.timeout(_RESEND_SECONDS):
                    await stream.moved.wait()
            if stream.acknowledged >= number:
                return
        raise NodeAway(stream.host)

    @asynccontextmanager
    async def serve(self, address: str, service: Service) -> AsyncIterator[str]:
        name, listener = _name(address), _Listener(self._host, service, copy_context())
        self._network.listeners[name] = listener
        try:
            yield name
        finally:
            if self._network.listeners.get(name) is listener:
                del self._network.listeners[name]
            self._network.close(listener)
            if tasks := set(listener.tasks):
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)

    def close(self) -> None:
        """Nothing rests here."""


def _name(address: str) -> str:
    """*address* as everybody writes it."""
    return str(parse_address(address))
