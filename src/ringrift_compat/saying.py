"""Saying: publishes what somebody said in the old style, whole, and counts it."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ringrift.bus import trace, window
from ringrift.bus.trace import Context
from ringrift.events import catalog, custom, old_names
from ringrift.events.base import Envelope, Event, Unknown
from ringrift.kernel.errors import IdConflict
from ringrift.kernel.value import Value
from ringrift_compat.ambient import Embedded
from ringrift_compat.figures import Figures
from ringrift_compat.listening import Listeners
from ringrift_compat.router_event import EventSource, RouterEvent, marked, payload_of, told
from ringrift_compat.voice import Voice

KEPT = "sayings"
BRINGS = frozenset({"TRAINING_COMPLETED", "MODEL_IMPORTED"})
"""Events that may bring a model in a file: it is taken in before they count."""
ASKS = ("_TRIGGERED", "_REQUESTED")
"""How the names of events end that ask for a stage."""
SEEN_MAX = 10_000
"""Ids that are remembered to tell an event from its repetition."""
HERE_MAX = 1000
"""Events past the log that are remembered because their ids were chosen."""


class Saying(Value):
    """Something that is to be published."""

    name: str
    payload: dict[str, Any]
    event: Event
    """What it is here."""
    source: str
    origin: EventSource
    hidden: frozenset[EventSource]
    here_only: bool
    id: str = ""
    """Chosen by whoever says it, with the marks of the views that must not show it: the same id again is no event."""
    trace: str = ""
    correlation: str = ""
    cause: str = ""


class Counts:
    """What this program said since the node was opened, as far as that tells an event from its repetition."""

    def __init__(self, node: Embedded) -> None:
        self.suppressed = 0
        """Repetitions of the same words within the window, beside those that the router itself has seen."""
        self.repeated = 0
        """Repetitions of an id, beside those that the router itself has seen."""
        self.window = window.Window(node.settings.bus.window_seconds, node.settings.bus.window_events_max)
        self.here: OrderedDict[str, tuple[Event, Envelope]] = OrderedDict()
        """What was said past the log under a chosen id."""
        self._seen: OrderedDict[str, None] = OrderedDict()

    def note(self, event: RouterEvent) -> bool:
        """Remember *event*; whether it is new."""
        if event.event_id in self._seen:
            return False
        self._seen[event.event_id] = None
        if len(self._seen) > SEEN_MAX:
            self._seen.popitem(last=False)
        return True

    @classmethod
    def of(cls, node: Embedded) -> "Counts":
        """Those of *node*."""
        found: Counts = node.kept.get(KEPT) or node.kept.setdefault(KEPT, cls(node))
        return found


def brings_a_file(name: str, payload: Mapping[str, Any]) -> bool:
    """Whether the event *name* with *payload* brings a model in a file of this machine."""
    path = payload.get("model_path")
    return name in BRINGS and isinstance(path, str) and Path(path).is_file()


def _is_incomplete(saying: Saying) -> bool:
    """Whether something may have to be found that *saying* leaves out."""
    asks = isinstance(saying.event, custom.Said) and saying.name.endswith(ASKS)
    return asks or brings_a_file(saying.name, saying.payload)


async def say(node: Embedded, saying: Saying) -> RouterEvent:
    """Publish *saying*; returns when it is durable, or told if it stays in this process.

    Raises InputError or JobFailed, and nothing is said, where it brings a file that is no model; IdConflict where its
    id is taken by something else.
    """
    figures, voice = Figures.of(node), Voice.of(node)
    if _is_incomplete(saying):
        from ringrift_compat import completing  # who only publishes does not load a whole node

        saying = await completing.completed(node, saying)
    if saying.id:
        voice.remember(saying.id, saying.origin)
    with trace.within(_story(node, saying)):
        envelope = await (_once_by_id(node, saying) if saying.id else _once_by_words(node, saying))
    event = told(saying.event, envelope, saying.name, voice.origin_of(envelope))
    if Counts.of(node).note(event) and not envelope.position:
        figures.note(event, "" if saying.here_only else envelope.name)
    return event


def _story(node: Embedded, saying: Saying) -> Context | None:
    """The story that it says it belongs to; what it leaves open is as for all that is said here."""
    running = trace.current()
    if not (saying.trace or saying.correlation or saying.cause):
        return running
    known = running or Context(trace=node.ids.trace())
    if saying.trace and saying.trace != known.trace:
        known = msgspec.structs.replace(known, trace=saying.trace, span="", sampled=False)
    return msgspec.structs.replace(
        known, correlation=saying.correlation or known.correlation, cause=saying.cause or known.cause
    )


async def _once_by_id(node: Embedded, saying: Saying) -> Envelope:
    """Publish under a chosen id; what was said under it already is returned if it is the same.  Raises IdConflict."""
    counts = Counts.of(node)
    logged = saying.event.SCOPE == "log" and not saying.here_only
    event: Event | Unknown
    try:
        if logged or saying.id not in counts.here:
            envelope = await _publish(node, saying, saying.id)
            if not logged:
                counts.here[saying.id] = saying.event, envelope
                if len(counts.here) > HERE_MAX:
                    counts.here.popitem(last=False)
            return envelope
        event, first = counts.here[saying.id]
    except IdConflict:
        async with node.store.read() as view:
            [first] = await view.envelopes([saying.id])
        event = catalog.decode(first.name, first.body)
    if not _is_same(event, first, saying):
        raise IdConflict(saying.id)
    counts.repeated += 1
    return first


def _is_same(event: Event | Unknown, first: Envelope, saying: Saying) -> bool:
    """Whether *saying* says what was said *first*.

    An event of ours that somebody passes on as it was heard has our fields under the words of the documents too.
    """
    if isinstance(event, Unknown) or saying.name not in old_names.spoken(event):
        return False
    said = payload_of(saying.event, _body(saying) if first.body else b"", saying.name)
    return payload_of(event, first.body, saying.name) == said


async def _once_by_words(node: Embedded, saying: Saying) -> Envelope:
    """Publish; the same words from the same source, for the same views, within the window are one event."""
    marks = marked("", saying.origin, saying.hidden)
    if saying.here_only:
        return await _publish(node, saying, node.ids.next() + marks)
    counts, tick = Counts.of(node), node.clock.tick()
    shown = saying.name + marked("", EventSource.ROUTER, saying.hidden)
    words = window.words(shown, saying.payload, saying.source, node.settings.node.id)
    first = counts.window.first(words, tick)
    if first is not None:
        counts.suppressed += 1
        return await asyncio.shield(first)
    publishing = node.loop.create_task(_publish(node, saying, node.ids.next() + marks if marks else None))
    publishing.add_done_callback(lambda done: _forget(counts, words, done))
    counts.window.remember(words, publishing, tick)
    return await asyncio.shield(publishing)


def _forget(counts: Counts, words: bytes, done: "asyncio.Task[Envelope]") -> None:
    """What could not be published was not said."""
    if done.cancelled() or done.exception() is not None:
        counts.window.forget(words)


async def _publish(node: Embedded, saying: Saying, id: str | None) -> Envelope:
    """An event of ours has every field that was said, also those that ours does not have."""
    event, source = saying.event, saying.source
    if saying.here_only:
        envelope = node.scribe.seal(event, _body(saying), id=id, source=source)
        Listeners.of(node).tell_here(event, envelope)
        return envelope
    if isinstance(event, custom.Said) or event.SCOPE == "memory":
        return await node.router.publish(event, id=id, source=source)
    return await node.router.admit(event.name(), _body(saying), id=id, source=source)


def _body(saying: Saying) -> bytes:
    if isinstance(saying.event, custom.Said):
        return catalog.encode(saying.event)
    return msgspec.json.encode({**saying.payload, **msgspec.to_builtins(saying.event)})
