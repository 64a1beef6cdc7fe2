"""Spans: how long the parts of a story took, nested as the code is, kept by the recorder of the node they ran on.

    event ─▶ delivery ─▶ job ─▶ event          each with the span that it belongs to; one's own lie in between

A recorder travels with the context of a node's tasks.  Without one, or with one that keeps nothing, a span only has its
ids, so that what is said and started inside is tied together all the same.
"""

import hashlib
import inspect
import itertools
import os
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from functools import wraps
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, cast, overload

from ringrift.bus import trace
from ringrift.bus.trace import Context
from ringrift.events.base import Envelope, Event
from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import told
from ringrift.kernel.value import Value
from ringrift.store.ports import Lease

NAME_CHARACTERS_MAX = 128
TAGS_MAX = 32
TAG_CHARACTERS_MAX = 256
ERROR_CHARACTERS_MAX = 500
PARENTS_MAX = 10_000
"""Events that were written but not yet seen in the log, whose span is remembered; it takes moments to see one."""

_STEP = 0x9E3779B97F4A7C15  # odd, so that every one of the 2⁶⁴ numbers comes once
_MASK = (1 << 64) - 1
_INT_MAX = (1 << 63) - 1
P = ParamSpec("P")
R = TypeVar("R")
Tag = str | int | float | bool


class Span(Value):
    """Something that took its time, and has ended."""

    trace: str
    id: str
    parent: str
    name: str
    start: float
    seconds: float
    kind: str = "own"
    """*event*, *delivery* or *job*, or somebody's own."""
    tags: dict[str, Tag] = {}
    error: str = ""


Sink = Callable[[Span], None]
Call = Callable[[Event, Envelope], Awaitable[Any]]


class Recorder:
    """Gives ids to the spans of one node, and hands those that have ended to *sinks*: with none it keeps nothing.

    *seed* is a text that no other recorder has.  Safe for threads, as sinks must be.
    """

    def __init__(self, clock: Clock, seed: str, sinks: Sequence[Sink] = ()) -> None:
        self.clock, self.on = clock, bool(sinks)
        self._sinks = tuple(sinks)
        digest = hashlib.blake2b(seed.encode(), digest_size=16).digest()
        self._first, self._maker = int.from_bytes(digest[:8], "big"), digest[8:].hex()
        self._count = itertools.count()
        self._parents: dict[str, str] = {}

    def span(self) -> str:
        """The id of a new span."""
        return f"{(self._first + next(self._count) * _STEP) & _MASK or 1:016x}"

    def trace(self) -> str:
        """The id of a new trace."""
        return self._maker + self.span()

    def keep(self, span: Span) -> None:
        """Hand *span* on."""
        for sink in self._sinks:
            sink(span)

    def sealed(self, envelope: Envelope, context: Context | None) -> None:
        """Remember which span *envelope* was written in, until it is seen in the log; what skips it is kept now."""
        if not self.on:
            return
        if context is not None and context.span:
            while len(self._parents) >= PARENTS_MAX:
                self._parents.pop(next(iter(self._parents)), None)
            self._parents[envelope.id] = context.span
        if envelope.origin == "memory":
            self.published(envelope)

    def published(self, envelope: Envelope) -> None:
        """Keep the span that *envelope* is: it has no length, but others belong to it."""
        parent = self._parents.pop(envelope.id, "") or (trace.span_of(envelope.cause) if envelope.cause else "")
        tags: dict[str, Tag] = {
            "event": envelope.id, "position": envelope.position, "source": envelope.source,
            "correlation": envelope.correlation,
        }  # fmt: skip
        self.keep(
            Span(
                trace=envelope.trace, id=trace.span_of(envelope.id), parent=parent, name=envelope.name,
                start=envelope.time, seconds=0.0, kind="event", tags=_named(tags),
            )
        )  # fmt: skip


_recorder: ContextVar[Recorder | None] = ContextVar("ringrift_recorder", default=None)


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Let *recorder* keep the spans of the body and of the tasks it starts."""
    token = _recorder.set(recorder)
    try:
        yield
    finally:
        _leave(token)


def recorder() -> Recorder | None:
    """Who keeps the spans of the running code, if anybody does."""
    found = _recorder.get()
    return found if found is not None and found.on else None


class Running:
    """A span that has not ended."""

    __slots__ = ("_above", "_alone", "_context", "_kind", "_name", "_recorder", "_start", "_tags", "_tick", "_within")

    def __init__(self, name: str, kind: str, tags: dict[str, Tag], above: Context | None) -> None:
        self._name, self._kind, self._tags, self._above = name, kind, tags, above
        self._alone: Token[Recorder | None] | None = None

    def tag(self, **tags: Tag) -> None:
        """Say more about it."""
        self._tags |= tags

    def __enter__(self) -> "Running":
        above, recorder = self._above, _recorder.get()
        if recorder is None:
            recorder = _lonely()
            self._alone = _recorder.set(recorder)
        self._recorder, id = recorder, recorder.span()
        if above is None:
            context = Context(trace=recorder.trace(), span=id, sampled=recorder.on)
        else:
            context = Context(
                trace=above.trace, correlation=above.correlation, cause=above.cause, depth=above.depth, span=id,
                sampled=recorder.on,
            )  # fmt: skip
        self._context, self._within = context, trace.within(context)
        self._within.__enter__()
        if recorder.on:
            self._start, self._tick = recorder.clock.now(), recorder.clock.tick()
        return self

    def __exit__(self, kind: type[BaseException] | None, wrong: BaseException | None, _: TracebackType | None) -> None:
        self._within.__exit__()
        if self._alone is not None:
            _leave(self._alone)
        recorder, context = self._recorder, self._context
        if not recorder.on:
            return
        parent = "" if self._above is None else trace.parent_of(self._above)
        recorder.keep(
            Span(
                trace=context.trace, id=context.span, parent=parent,
                name=_text(self._name, NAME_CHARACTERS_MAX), kind=self._kind, tags=_bounded(self._tags),
                start=self._start, seconds=max(recorder.clock.tick() - self._tick, 0.0),
                error="" if wrong is None else told(f"{type(wrong).__name__}: {wrong}", ERROR_CHARACTERS_MAX),
            )
        )  # fmt: skip


def span(name: str, **tags: Tag) -> Running:
    """A span around the body, in plain and in async code alike::

        with span("warm up", games=8) as running:
            ...
            running.tag(loss=0.3)

    It belongs to the span or event that runs, or begins a trace.  An exception marks it and travels on.
    """
    return Running(name, "own", tags, trace.current())


@overload
def traced(function: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def traced(name: str | None = None, /, **tags: Tag) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def traced(what: Any = None, /, **tags: Tag) -> Any:
    """A span around every call of a plain or async function: ``@traced`` or ``@traced("name", part="x")``."""
    if callable(what):
        return _wrapped(what, what.__qualname__, {})
    return lambda function: _wrapped(function, what or function.__qualname__, tags)


def _wrapped(function: Callable[P, R], name: str, tags: dict[str, Tag]) -> Callable[P, R]:
    lazy = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    assert not lazy, f"{name} only begins when it is called: put span() where it works"

    @wraps(function)
    def plain(*args: P.args, **kwargs: P.kwargs) -> R:
        with span(name, **tags):
            return function(*args, **kwargs)

    @wraps(function)
    async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
        with span(name, **tags):
            return await cast("Any", function)(*args, **kwargs)

    return cast("Callable[P, R]", awaited) if inspect.iscoroutinefunction(function) else plain


def get_trace_id() -> str:
    """The trace that the running code belongs to; "" outside of any."""
    context = trace.current()
    return "" if context is None else context.trace


def delivering(reader: str, envelope: Envelope) -> "Running | trace.within":
    """Handle *envelope* in the body, which is a span if anybody keeps it."""
    keeps = _recorder.get()
    context = trace.of(envelope)
    if keeps is None or not keeps.on:
        return trace.within(context)
    tags: dict[str, Tag] = {"reader": reader, "event": envelope.id, "position": envelope.position}
    return Running(f"{reader} {envelope.name}", "delivery", _named(tags), context)


def watched(reader: str, call: Call) -> Call:
    """*call*, delivering each event in a span if anybody keeps spans now; else *call* as it is, for the fastest."""
    if recorder() is None:
        return call

    async def deliver(event: Event, envelope: Envelope) -> Any:
        with delivering(reader, envelope):
            return await call(event, envelope)

    return deliver


def doing(lease: Lease) -> "Running | trace.within":
    """Do the job of *lease* in the body, as a part of the story that asked for it; a span if anybody keeps it."""
    context = trace.read(lease.context)
    if recorder() is None:
        return trace.within(context)
    tags: dict[str, Tag] = {
        "job": lease.job, "key": lease.key, "variant": lease.variant, "attempt": lease.attempts, "node": lease.holder,
    }  # fmt: skip
    return Running(f"job {lease.kind}", "job", _named(tags), context)


def _named(tags: dict[str, Tag]) -> dict[str, Tag]:
    """*tags* under names that nobody's own have."""
    return {f"ringrift.{name}": value for name, value in tags.items()}


def _bounded(tags: dict[str, Tag]) -> dict[str, Tag]:
    """As many of *tags* as are kept, each a plain value of bounded length."""
    return {_text(name, TAG_CHARACTERS_MAX): _plain(value) for name, value in itertools.islice(tags.items(), TAGS_MAX)}


def _plain(value: object) -> Tag:
    """*value* as every collector takes it: whole numbers have 64 bits there."""
    if isinstance(value, bool | float) or (isinstance(value, int) and -_INT_MAX <= value <= _INT_MAX):
        return value
    return _text(str(value), TAG_CHARACTERS_MAX)


def _text(text: str, characters_max: int) -> str:
    """What :func:`told` makes of *text*; most of it is good as it is."""
    return text if len(text) <= characters_max and text.isprintable() else told(text, characters_max)


def _lonely() -> Recorder:
    """A recorder for code that runs in no node: it keeps nothing, and only its ids are its own."""
    clock = SystemClock()
    return Recorder(clock, f"{clock.now()} {clock.tick()} {os.getpid()} {threading.get_ident()}")


def _leave(token: "Token[Recorder | None]") -> None:
    try:
        _recorder.reset(token)
    except ValueError:
        return  # as in :class:`ringrift.bus.trace.within`
