"""Saying: publishes what somebody said in the old style, whole, and counts it."""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ringrift.bus import window
from ringrift.compat.ambient import Embedded
from ringrift.compat.listening import Listeners
from ringrift.compat.router_event import EventSource, RouterEvent, marked, told
from ringrift.events import custom
from ringrift.events.base import Envelope, Event
from ringrift.kernel.value import Value

KEPT = "sayings"
BRINGS = frozenset({"TRAINING_COMPLETED", "MODEL_IMPORTED"})
"""Events that may bring a model in a file: it is taken in before they count."""
ASKS = ("_TRIGGERED", "_REQUESTED")
"""How the names of events end that ask for a stage."""
SEEN_MAX = 10_000
"""Ids that are remembered to tell an event from its repetition."""


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


class Counts:
    """What was said since the node was opened."""

    def __init__(self, node: Embedded) -> None:
        self.by_name: Counter[str] = Counter()
        self.by_origin: Counter[str] = Counter()
        self.suppressed = 0
        """Repetitions within the window, beside those that the router itself has seen."""
        self.window = window.Window(node.settings.bus.window_seconds, node.settings.bus.window_events_max)
        self._seen: OrderedDict[str, None] = OrderedDict()

    def note(self, event: RouterEvent) -> None:
        """Count *event*, once."""
        if event.event_id in self._seen:
            return
        self._seen[event.event_id] = None
        if len(self._seen) > SEEN_MAX:
            self._seen.popitem(last=False)
        self.by_name[event.event_type] += 1
        self.by_origin[event.origin.value] += 1

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

    Raises InputError or JobFailed, and nothing is said, where it brings a file that is no model.
    """
    if _is_incomplete(saying):
        from ringrift.compat import completing  # who only publishes does not load a whole node

        saying = await completing.completed(node, saying)
    if saying.here_only:
        envelope = node.scribe.wrap(saying.event, source=saying.source)
        Listeners.of(node).tell_here(saying.event, envelope)
    elif isinstance(saying.event, custom.Said) or saying.event.SCOPE == "memory":
        envelope = await node.router.say(saying.name, saying.payload, id=_id(node, saying), source=saying.source)
    else:
        envelope = await _admit_once(node, saying)
    event = told(saying.event, envelope, saying.name)
    Counts.of(node).note(event)
    return event


def _id(node: Embedded, saying: Saying) -> str | None:
    """An id with its marks, where the event needs any."""
    if not saying.hidden and saying.origin is EventSource.ROUTER:
        return None
    return marked(node.ids.next(), saying.origin, saying.hidden)


async def _admit_once(node: Embedded, saying: Saying) -> Envelope:
    """Publish an event of ours with every field that was said, also those that ours does not have.

    The same words from the same source within the window are one event, as for all that is said without an id.
    """
    id = _id(node, saying)
    if id is not None:
        return await _admit(node, saying, id)
    counts, tick = Counts.of(node), node.clock.tick()
    words = window.words(saying.name, saying.payload, saying.source, node.settings.node.id)
    first = counts.window.first(words, tick)
    if first is not None:
        counts.suppressed += 1
        return await asyncio.shield(first)
    publishing = asyncio.get_running_loop().create_task(_admit(node, saying, None))
    publishing.add_done_callback(lambda done: _forget(counts, words, done))
    counts.window.remember(words, publishing, tick)
    return await asyncio.shield(publishing)


def _forget(counts: Counts, words: bytes, done: "asyncio.Task[Envelope]") -> None:
    """What could not be published was not said."""
    if done.cancelled() or done.exception() is not None:
        counts.window.forget(words)


async def _admit(node: Embedded, saying: Saying, id: str | None) -> Envelope:
    raw = msgspec.json.encode({**saying.payload, **msgspec.to_builtins(saying.event)})
    return await node.router.admit(saying.event.name(), raw, id=id, source=saying.source)
