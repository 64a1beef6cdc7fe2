"""Trace: which story the running code belongs to, and how that is told to other processes.

Every task has a context of its own.  Delivering an event sets it, so that whatever is said meanwhile knows its cause;
a job carries it to whoever does the work; ``traceparent`` carries it to programs that are not ours.
"""

import hashlib
import re
from contextvars import ContextVar

import msgspec

from ringrift.events.base import Envelope
from ringrift.kernel.errors import InvalidPayload, LoopDetected
from ringrift.kernel.value import Value

DEPTH_MAX = 32
"""Events in a row that cause each other without any work in between.  Ours are at most 5 deep: more is a loop."""
TRACEPARENT_CHARACTERS_MAX = 512
"""Far more than the 55 of today's version, which later versions may exceed."""

_TRACE = re.compile(r"[0-9a-f]{32}")
_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 0x01


class Context(Value):
    """The story so far: its trace and correlation, the event that is being handled, how deep it already is."""

    trace: str
    correlation: str = ""
    cause: str = ""
    depth: int = 0
    span: str = ""
    """16 hexadecimal digits: the span that runs, if one does."""
    sampled: bool = False
    """Whether somebody keeps its spans."""


_current: ContextVar[Context | None] = ContextVar("ringrift_trace", default=None)


def current() -> Context | None:
    """The context of the running task, if it belongs to a story."""
    return _current.get()


def of(envelope: Envelope) -> Context:
    """The context in which *envelope* is handled."""
    return Context(trace=envelope.trace, correlation=envelope.correlation, cause=envelope.id, depth=envelope.depth + 1)


def because(envelope: Envelope) -> Context:
    """The context of what is said or asked because of *envelope*: the running one if that handles it, with its span."""
    context = _current.get()
    return context if context is not None and context.cause == envelope.id else of(envelope)


class within:
    """Run the body in *context*."""

    __slots__ = ("_context", "_token")

    def __init__(self, context: Context | None) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._token = _current.set(self._context)

    def __exit__(self, *_: object) -> None:
        try:
            _current.reset(self._token)
        except ValueError:
            return  # a task that nobody runs any more is closed in the context of whoever lets go of it


enter = _current.set
"""Be in a context from now on: for a task that goes from one event to the next and has no context of its own."""


def written(context: Context | None) -> str:
    """*context* as a job carries it.  Work lies between what asked for it and what comes of it, so the depth is 0."""
    return "" if context is None else msgspec.json.encode(msgspec.structs.replace(context, depth=0)).decode()


def read(text: str) -> Context | None:
    """The context that :func:`written` wrote."""
    return msgspec.json.decode(text, type=Context) if text else None


def require_shallow(name: str, depth: int) -> None:
    """Raise LoopDetected if an event *name* would be deeper than any of ours gets."""
    if depth > DEPTH_MAX:
        raise LoopDetected(name, DEPTH_MAX)


def span_of(id: str) -> str:
    """The span that the event *id* is, as W3C wants it: 16 hexadecimal digits."""
    return hashlib.blake2b(id.encode(), digest_size=8).hexdigest()


def parent_of(context: Context) -> str:
    """The span that what runs in *context* belongs to: the one that runs, or the event that is being handled."""
    return context.span or (span_of(context.cause) if context.cause else "")


def hexadecimal(trace: str) -> str:
    """*trace* as W3C wants it: 32 hexadecimal digits.  Logs of earlier versions hold traces of another form."""
    return trace if _TRACE.fullmatch(trace) else hashlib.blake2b(trace.encode(), digest_size=16).hexdigest()


def traceparent() -> str:
    """Where the running code stands, as W3C writes it for other programs; "" outside of any story."""
    context = _current.get()
    if context is None:
        return ""
    parent = parent_of(context) or span_of(context.trace)
    return f"00-{hexadecimal(context.trace)}-{parent}-{_SAMPLED if context.sampled else 0:02x}"


def from_traceparent(text: str) -> Context:
    """The context that another program wrote as W3C says, also in a later version.  Raises InvalidPayload."""
    found = _PARENT.fullmatch(text.strip(" \t")) if len(text) <= TRACEPARENT_CHARACTERS_MAX else None
    if found is None:
        raise InvalidPayload("traceparent", f"{text!r:.80} is not 00-TRACE-SPAN-FLAGS in hexadecimal digits")
    version, trace, span, flags, more = found.groups()
    if version == "ff" or (version == "00" and more is not None):
        raise InvalidPayload("traceparent", f"{text!r:.80} is of no version that there can be")
    if not int(trace, 16) or not int(span, 16):
        raise InvalidPayload("traceparent", f"{text!r:.80} has an id of zeros only")
    return Context(trace=trace, span=span, sampled=bool(int(flags, 16) & _SAMPLED))
