"""Subscriptions: every callback is a durable reader of the bus, so its failures become dead letters of its own."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ringrift.bus.delivery import attempt
from ringrift.bus.filters import EventFilter
from ringrift.bus.subscription import Subscription, make_async
from ringrift.events import catalog
from ringrift.events.alert import Raised
from ringrift.events.base import Envelope, Event
from ringrift.kernel.errors import InputError, UnknownName
from ringrift_compat.embedded_node import EmbeddedNode, clean_readers, embedded, running_loop
from ringrift_compat.events import old_names
from ringrift_compat.events.callbacks import LoopClosed, on_loop, reader_name
from ringrift_compat.events.event_stats import EventStats
from ringrift_compat.events.router_event import EventSource, Origins, RouterEvent, is_hidden

Callback = Callable[[RouterEvent], Any]
_Key = tuple[EventSource, str | None, Callback]
_SUBSCRIPTIONS_MAX = 10_000
_MEMORY = frozenset(event.name() for event in catalog.EVENTS if event.SCOPE == "memory")
log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Entry:
    """A callback that is subscribed."""

    reader: str
    filter: EventFilter
    deliver: Callable[[Event, Envelope, str], Any]
    memory: Subscription | None = None
    """For events that skip the log and have no readers."""


class Subscriptions:
    """The callbacks of one program, for as long as its node is open.  Changed on the loop of that node only."""

    def __init__(self, node: EmbeddedNode) -> None:
        self._node = node
        self._entries: dict[_Key, _Entry] = {}
        self._stale = set(node.readers_with_dead_letters)
        self.results: Counter[str] = Counter()
        """Calls that were *delivered* and that *failed*."""
        self._local: set[asyncio.Task[Exception | None]] = set()

    def entries(self) -> list[_Key]:
        """The view, the name and the callback of every subscription."""
        return list(self._entries)

    async def add(self, key: _Key, loop: asyncio.AbstractEventLoop | None) -> None:
        """Call the callback of *key* from now on; once for an event, however often it is added."""
        if key in self._entries:
            return
        self._node.extension(EventStats)  # counting begins with the first subscription or publish
        if len(self._entries) >= _SUBSCRIPTIONS_MAX:
            raise InputError(f"{_SUBSCRIPTIONS_MAX} callbacks are subscribed already")
        entry = _Entry(self._free_name(key), old_names.make_filter(key[1]), self._deliver_to(key, loop))
        self._entries[key] = entry
        try:
            await self._start(entry)
        except BaseException:
            self._entries.pop(key, None)
            raise

    async def _start(self, entry: _Entry) -> None:
        if entry.reader in self._stale:
            await self._skip_to(entry.reader, self._node.store.position)
        router, selected = self._node.router, entry.filter
        router.handle(selected, entry.deliver, name=entry.reader)
        memory = _MEMORY if selected.names is None else _MEMORY & selected.names
        if memory:
            # By class and not by the filter: a filter without names would count as one for every event.
            classes = [event for event in catalog.EVENTS if event.name() in memory]
            entry.memory = router.subscribe(classes, _filtered(entry), name=entry.reader)

    def _free_name(self, key: _Key) -> str:
        view, event_type, callback = key
        names_in_use = {entry.reader for entry in self._entries.values()}
        prefix = f"{self._node.program}.{view.value}."
        names = (reader_name(prefix, event_type or "ALL", callback, number) for number in range(_SUBSCRIPTIONS_MAX))
        return next(name for name in names if name not in names_in_use)

    async def _skip_to(self, reader: str, at: int) -> None:
        """Skip the events up to *at*: the reader was not subscribed then."""
        async with self._node.store.begin() as tx:
            position = (await tx.positions()).get(reader)
            if position is not None:
                await tx.advance(reader, position, max(position, at))
        self._stale.discard(reader)

    def _deliver_to(self, key: _Key, loop: asyncio.AbstractEventLoop | None) -> Callable[[Event, Envelope, str], Any]:
        (view, event_type, callback), origins = key, self._node.extension(Origins)
        other_loop = on_loop(callback, loop, self._node)
        call = other_loop if other_loop is not callback else make_async(callback, self._node.threads)

        async def deliver(event: Event, envelope: Envelope, _: str) -> None:
            if is_hidden(envelope, view):
                return
            try:
                await call(origins.router_event(event, envelope, event_type))
            except LoopClosed as closed:
                embedded.post(self._remove_orphan(key, closed))
            except BaseException:
                self.results["failed"] += 1
                raise
            else:
                self.results["delivered"] += 1

        return deliver

    async def _remove_orphan(self, key: _Key, closed: LoopClosed) -> None:
        """End a subscription whose loop is closed, with an alert."""
        entry = self._entries.get(key)
        if entry is not None:
            await self.remove(key)
            alert = Raised(kind="subscription", subject=entry.reader, detail=str(closed))
            await self._node.router.publish(alert, source="compat")

    async def remove(self, key: _Key) -> bool:
        """End the subscription of *key*; whether there was one.  Its dead letters stay."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return False
        if entry.memory is not None:
            await self._node.router.unsubscribe(entry.memory)
        try:
            await self._node.router.unsubscribe(entry.reader)
        except UnknownName:
            log.info("%s had ended by itself", entry.reader)
        self._stale.add(entry.reader)
        await clean_readers(self._node.store, lambda reader: reader == entry.reader)
        return True

    def deliver_local(self, event: Event, envelope: Envelope) -> None:
        """Deliver to the callbacks of this program alone, past the log: a failure is logged and no dead letter."""
        for entry in list(self._entries.values()):
            if entry.filter.matches(event, envelope):
                task = asyncio.get_running_loop().create_task(attempt(entry.deliver, event, envelope, ""))
                self._local.add(task)
                task.add_done_callback(self._end_local)

    def _end_local(self, task: "asyncio.Task[Exception | None]") -> None:
        self._local.discard(task)
        if not task.cancelled() and (error := task.result()) is not None:
            log.warning("a callback failed on an event of this process", exc_info=error)


def _filtered(entry: _Entry) -> Callable[[Event, Envelope], Any]:
    async def call(event: Event, envelope: Envelope) -> None:
        if entry.filter.matches(event, envelope):
            await entry.deliver(event, envelope, "")

    return call


def subscribe(event_type: str | None, callback: Callback, view: EventSource) -> None:
    """Call *callback* for every event of this name, or for all, that *view* shows, from now on."""
    node, loop = embedded.node(), running_loop()
    pending = embedded.post(node.extension(Subscriptions).add((view, event_type, callback), loop))
    if not embedded.is_current_loop():
        pending.result()


def unsubscribe(event_type: str | None, callback: Callback, view: EventSource) -> bool:
    """End a subscription; whether there was one.  On the loop of the node it ends a moment later."""
    subscriptions, key = embedded.node().extension(Subscriptions), (view, event_type, callback)
    if embedded.is_current_loop():
        is_subscribed = key in subscriptions.entries()
        embedded.post(subscriptions.remove(key))
        return is_subscribed
    return embedded.call(subscriptions.remove(key))
