"""Trace context: the trace and cause of the running code, and how they travel to other processes.

Every task has a context of its own.  Delivering an event sets it, so that events published meanwhile have a cause; a
job carries it to its worker; ``traceparent`` carries it to other programs.
"""

import hashlib
import re
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import msgspec

from ringrift.events.base import Envelope
from ringrift.kernel.errors import InvalidPayload, LoopDetected
from ringrift.kernel.value import Value

_DEPTH_MAX = 32  #: Events in a row that cause each other without any work in between: ours are at most 5 deep.
_TRACEPARENT_CHARACTERS_MAX = 512  # far more than the 55 of today's version, which later versions may exceed

_TRACE = re.compile(r"[0-9a-f]{32}")
_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 0x01


class Context(Value):
    """Trace, correlation, the event that is being handled, and the depth of its chain of causes."""

    trace: str
    correlation: str = ""
    cause: str = ""
    depth: int = 0
    span: str = ""  # the running span, if there is one: 16 hexadecimal digits
    sampled: bool = False  # whether its spans are recorded


_current: ContextVar[Context | None] = ContextVar("ringrift_trace", default=None)
current = _current.get  # the context of the running task, if it has one
enter = _current.set  # set the context of the running task: for a task that handles one event after the other


def context_of(envelope: Envelope) -> Context:
    """The context in which *envelope* is handled."""
    return Context(trace=envelope.trace, correlation=envelope.correlation, cause=envelope.id, depth=envelope.depth + 1)


def caused_by(envelope: Envelope) -> Context:
    """The context of events and jobs caused by *envelope*: the running one, with its span, if that handles it."""
    context = _current.get()
    return context if context is not None and context.cause == envelope.id else context_of(envelope)


class VariableScope:
    """Gives *variable* a *value* while the body runs."""

    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[Any], value: object) -> None:
        self._variable, self._value = variable, value

    def __enter__(self) -> None:
        self._token = self._variable.set(self._value)

    def __exit__(self, *_: object) -> None:
        with suppress(ValueError):  # an abandoned task is closed in the context of the code that drops it
            self._variable.reset(self._token)


def within(context: Context | None) -> VariableScope:
    """Run the body in *context*."""
    return VariableScope(_current, context)


def to_text(context: Context | None) -> str:
    """*context* as a job carries it.  There is work between a job's cause and its events, so the depth is 0."""
    return "" if context is None else msgspec.json.encode(msgspec.structs.replace(context, depth=0)).decode()


def from_text(text: str) -> Context | None:
    """The context that :func:`to_text` wrote."""
    return msgspec.json.decode(text, type=Context) if text else None


def require_shallow(name: str, depth: int) -> None:
    """Raise LoopDetected if the event *name* would be deeper than _DEPTH_MAX."""
    if depth > _DEPTH_MAX:
        raise LoopDetected(name, _DEPTH_MAX)


def span_of(id: str) -> str:
    """The span id of the event *id*: 16 hexadecimal digits, as W3C requires."""
    return hashlib.blake2b(id.encode(), digest_size=8).hexdigest()


def parent_of(context: Context) -> str:
    """The parent of a new span in *context*: the running span, or the event that is being handled."""
    return context.span or (span_of(context.cause) if context.cause else "")


def hexadecimal(trace: str) -> str:
    """*trace* as W3C requires it: 32 hexadecimal digits; a trace id of another form is hashed."""
    return trace if _TRACE.fullmatch(trace) else hashlib.blake2b(trace.encode(), digest_size=16).hexdigest()


def traceparent() -> str:
    """The context of the running code as a W3C header for other programs; "" without a context."""
    context = _current.get()
    if context is None:
        return ""
    parent = parent_of(context) or span_of(context.trace)
    return f"00-{hexadecimal(context.trace)}-{parent}-{_SAMPLED if context.sampled else 0:02x}"


def from_traceparent(text: str) -> Context:
    """Parse the W3C header of another program, also of a later version.  Raises InvalidPayload."""
    match = _PARENT.fullmatch(text.strip(" \t")) if len(text) <= _TRACEPARENT_CHARACTERS_MAX else None
    if match is None:
        raise InvalidPayload("traceparent", f"{text!r:.80} is not 00-TRACE-SPAN-FLAGS in hexadecimal digits")
    version, trace, span, flags, more = match.groups()
    if version == "ff" or (version == "00" and more is not None):
        raise InvalidPayload("traceparent", f"{text!r:.80} has an invalid version")
    if not int(trace, 16) or not int(span, 16):
        raise InvalidPayload("traceparent", f"{text!r:.80} has an id of zeros only")
    return Context(trace=trace, span=span, sampled=bool(int(flags, 16) & _SAMPLED))
