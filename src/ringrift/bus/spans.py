"""Spans: how long the parts of a trace took, nested as the code is, recorded by the node that they ran on.

    event ─▶ delivery ─▶ job ─▶ event          each with its parent span; a user's own spans lie in between

A recorder travels with the context of a node's tasks.  Without one, or with one that has no sinks, a span only has its
ids, so that the events and jobs inside it are still connected.
"""

import inspect
import itertools
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from functools import wraps
from random import Random
from typing import Any, ParamSpec, TypeVar, cast, overload

from msgspec.structs import replace

from ringrift.bus import trace
from ringrift.bus.trace import Context
from ringrift.events import catalog
from ringrift.events.base import Envelope, Event
from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import printable
from ringrift.kernel.value import Value
from ringrift.store.ports import Lease

_NAME_CHARACTERS_MAX = 128
_TAGS_MAX = 32
_TAG_CHARACTERS_MAX = 256
_ERROR_CHARACTERS_MAX = 500
_PARENTS_MAX = 10_000  # events that are made but not yet read from the log, whose parent span is remembered

_INT_MAX = (1 << 63) - 1
_P = ParamSpec("_P")
_R = TypeVar("_R")
_Tag = str | int | float | bool


class Span(Value, kw_only=False):
    """A span that has ended."""

    trace: str
    id: str
    parent: str
    name: str
    start: float
    seconds: float
    kind: str = "own"  # *event*, *delivery* or *job*, or *own* for a user's span
    tags: dict[str, _Tag] = {}
    error: str = ""


Sink = Callable[[Span], None]
_Handler = Callable[[Event, Envelope], Awaitable[Any]]


class Recorder:
    """Makes the span ids of one node, from a *seed* of its own, and passes ended spans to *sinks*; safe for threads."""

    def __init__(self, clock: Clock, seed: str, sinks: Sequence[Sink] = ()) -> None:
        self.clock, self.on = clock, bool(sinks)
        self._sinks, self._rng = tuple(sinks), Random(seed)
        self._parents: dict[str, str] = {}

    def span(self) -> str:
        return f"{self._rng.getrandbits(64) or 1:016x}"

    def trace(self) -> str:
        return self.span() + self.span()

    def record(self, span: Span) -> None:
        for sink in self._sinks:
            sink(span)

    def note_made(self, envelope: Envelope, context: Context | None) -> None:
        """Remember the span of *envelope* until it is read from the log; record a memory event at once."""
        if not self.on:
            return
        if context is not None and context.span:
            while len(self._parents) >= _PARENTS_MAX:
                self._parents.pop(next(iter(self._parents)), None)
            self._parents[envelope.id] = context.span
        if envelope.name in catalog.MEMORY_NAMES:
            self.record_event(envelope)

    def record_event(self, envelope: Envelope) -> None:
        """Record the span of *envelope*: it has no length, but is the parent of others."""
        parent = self._parents.pop(envelope.id, "") or (trace.span_of(envelope.cause) if envelope.cause else "")
        tags = {"event": envelope.id} | {
            name: getattr(envelope, name) for name in ("position", "source", "correlation")
        }
        id, own = trace.span_of(envelope.id), _own_tags(tags)
        self.record(Span(envelope.trace, id, parent, envelope.name, envelope.time, 0.0, "event", own))


_recorder: ContextVar[Recorder | None] = ContextVar("ringrift_recorder", default=None)


def recording(recorder: Recorder) -> trace.VariableScope:
    """Record the spans of the body, and of the tasks it starts, with *recorder*."""
    return trace.VariableScope(_recorder, recorder)


def current_recorder() -> Recorder | None:
    """The recorder of the running code, if it records anything."""
    recorder = _recorder.get()
    return recorder if recorder is not None and recorder.on else None


class _OpenSpan:
    """A span that has not ended."""

    __slots__ = ("_context", "_kind", "_name", "_outer", "_recorder", "_scopes", "_start", "_tags", "_tick")

    def __init__(self, name: str, kind: str, tags: dict[str, _Tag], outer: Context | None) -> None:
        self._name, self._kind, self._tags, self._outer = name, kind, tags, outer

    def tag(self, **tags: _Tag) -> None:
        self._tags |= tags

    def __enter__(self) -> "_OpenSpan":
        recorder = self._recorder = _recorder.get() or _unrecorded()
        outer = self._outer or Context(trace=recorder.trace())
        self._context = replace(outer, span=recorder.span(), sampled=recorder.on)
        self._scopes = recording(recorder), trace.within(self._context)
        for scope in self._scopes:
            scope.__enter__()
        if recorder.on:
            self._start, self._tick = recorder.clock.now(), recorder.clock.tick()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace_back: object) -> None:
        for scope in reversed(self._scopes):
            scope.__exit__()
        recorder, context = self._recorder, self._context
        if not recorder.on:
            return
        text = "" if error is None else printable(f"{type(error).__name__}: {error}", _ERROR_CHARACTERS_MAX)
        parent = "" if self._outer is None else trace.parent_of(self._outer)
        name, tags = printable(self._name, _NAME_CHARACTERS_MAX), itertools.islice(self._tags.items(), _TAGS_MAX)
        plain = {printable(key, _TAG_CHARACTERS_MAX): _plain(value) for key, value in tags}
        seconds = max(recorder.clock.tick() - self._tick, 0.0)
        recorder.record(Span(context.trace, context.span, parent, name, self._start, seconds, self._kind, plain, text))


def span(name: str, **tags: _Tag) -> _OpenSpan:
    """A span around the body, in plain and in async code alike::

        with span("warm up", games=8) as open_span:
            ...
            open_span.tag(loss=0.3)

    Its parent is the running span or event; without one it begins a trace.  An exception marks it and is raised on.
    """
    return _OpenSpan(name, "own", tags, trace.current())


@overload
def traced(function: Callable[_P, _R], /) -> Callable[_P, _R]: ...


@overload
def traced(name: str | None = None, /, **tags: _Tag) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...


def traced(argument: Any = None, /, **tags: _Tag) -> Any:
    """A span around every call of a plain or async function: ``@traced`` or ``@traced("name", part="x")``."""
    if callable(argument):
        return _add_span(argument, argument.__qualname__, {})
    return lambda function: _add_span(function, argument or function.__qualname__, tags)


def _add_span(function: Callable[_P, _R], name: str, tags: dict[str, _Tag]) -> Callable[_P, _R]:
    is_generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    assert not is_generator, f"{name} is a generator: put span() inside it, around its work"

    @wraps(function)
    def sync_span(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with span(name, **tags):
            return function(*args, **kwargs)

    @wraps(function)
    async def async_span(*args: _P.args, **kwargs: _P.kwargs) -> Any:
        with span(name, **tags):
            return await cast("Any", function)(*args, **kwargs)

    return cast("Callable[_P, _R]", async_span) if inspect.iscoroutinefunction(function) else sync_span


def get_trace_id() -> str:
    """The trace of the running code; "" outside of any."""
    context = trace.current()
    return "" if context is None else context.trace


def delivery_span(reader: str, envelope: Envelope) -> _OpenSpan | trace.VariableScope:
    """Handle *envelope* in the body, in its context; a span if spans are recorded."""
    tags: dict[str, _Tag] = {"reader": reader, "event": envelope.id, "position": envelope.position}
    return _own_span(f"{reader} {envelope.name}", "delivery", tags, trace.context_of(envelope))


def job_span(lease: Lease) -> _OpenSpan | trace.VariableScope:
    """Do the job of *lease* in the body, in the context that enqueued it; a span if spans are recorded."""
    tags: dict[str, _Tag] = {"job": lease.job, "key": lease.key, "variant": lease.variant, "node": lease.holder}
    return _own_span(f"job {lease.kind}", "job", tags | {"attempt": lease.attempts}, trace.from_text(lease.context))


def _own_span(name: str, kind: str, tags: dict[str, _Tag], context: Context | None) -> _OpenSpan | trace.VariableScope:
    return trace.within(context) if current_recorder() is None else _OpenSpan(name, kind, _own_tags(tags), context)


def traced_handler(reader: str, handler: _Handler) -> _Handler:
    """*handler* with a span around each call if spans are recorded now; otherwise *handler* itself."""
    if current_recorder() is None:
        return handler

    async def call(event: Event, envelope: Envelope) -> Any:
        with delivery_span(reader, envelope):
            return await handler(event, envelope)

    return call


def _own_tags(tags: dict[str, _Tag]) -> dict[str, _Tag]:
    """*tags* under names that do not collide with a user's."""
    return {f"ringrift.{name}": value for name, value in tags.items()}


def _plain(value: object) -> _Tag:
    """*value* as every collector accepts it: integers have 64 bits there."""
    if isinstance(value, bool | float) or (isinstance(value, int) and -_INT_MAX <= value <= _INT_MAX):
        return value
    return printable(str(value), _TAG_CHARACTERS_MAX)


def _unrecorded() -> Recorder:
    """A recorder for code outside of any node: it makes ids and records nothing."""
    clock = SystemClock()
    return Recorder(clock, f"{clock.now()} {clock.tick()} {os.getpid()} {threading.get_ident()}")
