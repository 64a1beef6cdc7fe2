"""Listening: every callback is a durable reader of the bus, so that what it fails on becomes a letter of its own."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ringrift.bus.delivery import attempt
from ringrift.bus.subscription import Subscription, awaited
from ringrift.bus.wants import Wants, wants
from ringrift.events import catalog
from ringrift.events.alert import Raised
from ringrift.events.base import Envelope, Event
from ringrift.kernel.errors import InputError, UnknownName
from ringrift_compat.ambient import Embedded, ambient, tidy
from ringrift_compat.callbacks import HomeClosed, called_at_home, reader_name, running_loop
from ringrift_compat.figures import Figures
from ringrift_compat.router_event import EventSource, RouterEvent, is_hidden, told
from ringrift_compat.voice import Voice

Callback = Callable[[RouterEvent], Any]
Key = tuple[EventSource, str | None, Callback]
KEPT = "listeners"
LISTENERS_MAX = 10_000
_FLEETING = frozenset(event.name() for event in catalog.EVENTS if event.SCOPE == "memory")
log = logging.getLogger(__name__)


@dataclass(slots=True)
class Listener:
    """A callback that listens."""

    reader: str
    wants: Wants
    call: Callable[[Event, Envelope, str], Any]
    fleeting: Subscription | None = None
    """For what skips the log and has no readers."""


class Listeners:
    """The callbacks of one program, for as long as its node is open.  Only the ambient loop changes them."""

    def __init__(self, node: Embedded) -> None:
        self._node = node
        self._all: dict[Key, Listener] = {}
        self._stale = set(node.waiting)
        self.tries: Counter[str] = Counter()
        """Calls that were *delivered* and that *failed*."""
        self._telling: set[asyncio.Task[Exception | None]] = set()

    @classmethod
    def of(cls, node: Embedded) -> "Listeners":
        """Those of *node*."""
        found: Listeners = node.kept.get(KEPT) or node.kept.setdefault(KEPT, cls(node))
        return found

    def listed(self) -> list[Key]:
        """Who listens: through which view, to what, and with which callback."""
        return list(self._all)

    async def add(self, key: Key, home: asyncio.AbstractEventLoop | None) -> None:
        """Call the callback of *key* from now on; once for an event, however often it is added."""
        if key in self._all:
            return
        Figures.of(self._node)  # they begin with the first who listens or says something
        if len(self._all) >= LISTENERS_MAX:
            raise InputError(f"{LISTENERS_MAX} callbacks listen already")
        asked = key[1]
        wanted = wants(asked)
        listener = self._all[key] = Listener(self._free_name(key), wanted, self._call_of(key, wanted, home))
        try:
            await self._begin(asked, listener)
        except BaseException:
            self._all.pop(key, None)
            raise

    async def _begin(self, asked: str | None, listener: Listener) -> None:
        wanted = listener.wants
        if listener.reader in self._stale:
            await self._catch_up(listener.reader, self._node.store.position)
        router, fast = self._node.router, _FLEETING if wanted.names is None else _FLEETING & wanted.names
        router.handle(asked, listener.call, name=listener.reader)
        if fast:
            # By class and not by a predicate: nobody must think that it listens to everything.
            classes = [event for event in catalog.EVENTS if event.name() in fast]
            listener.fleeting = router.subscribe(classes, _asked_for(listener), name=listener.reader)

    def _free_name(self, key: Key) -> str:
        view, asked, callback = key
        taken = {listener.reader for listener in self._all.values()}
        prefix = f"{self._node.readers}{view.value}."
        names = (reader_name(prefix, asked or "ALL", callback, number) for number in range(LISTENERS_MAX))
        return next(name for name in names if name not in taken)

    async def _catch_up(self, reader: str, at: int) -> None:
        """It did not listen for a while: what was said up to *at* was not said to it."""
        async with self._node.store.begin() as tx:
            place = (await tx.places()).get(reader)
            if place is not None:
                await tx.advance(reader, place, max(place, at))
        self._stale.discard(reader)

    def _call_of(
        self, key: Key, wanted: Wants, home: asyncio.AbstractEventLoop | None
    ) -> Callable[[Event, Envelope, str], Any]:
        (view, asked, callback), voice = key, Voice.of(self._node)
        travelled = called_at_home(callback, home, self._node)
        call = travelled if travelled is not callback else awaited(callback, self._node.threads)

        async def deliver(event: Event, envelope: Envelope, _: str) -> None:
            if is_hidden(envelope, view):
                return
            try:
                await call(told(event, envelope, asked, voice.origin_of(envelope)))
            except HomeClosed as closed:
                ambient.post(self._orphaned(key, closed))
            except BaseException:
                self.tries["failed"] += 1
                raise
            else:
                self.tries["delivered"] += 1

        return deliver

    async def _orphaned(self, key: Key, closed: HomeClosed) -> None:
        """A callback whose loop is gone listens no more, and somebody should know."""
        listener = self._all.get(key)
        if listener is not None:
            await self.remove(key)
            what = Raised(kind="subscription", subject=listener.reader, detail=str(closed))
            await self._node.router.publish(what, source="compat")

    async def remove(self, key: Key) -> bool:
        """Call the callback of *key* no more; whether it did listen.  Its letters are kept."""
        listener = self._all.pop(key, None)
        if listener is None:
            return False
        if listener.fleeting is not None:
            await self._node.router.unsubscribe(listener.fleeting)
        try:
            await self._node.router.unsubscribe(listener.reader)
        except UnknownName:
            log.info("%s had ended by itself", listener.reader)
        self._stale.add(listener.reader)
        await tidy(self._node.store, lambda reader: reader == listener.reader)
        return True

    def tell_here(self, event: Event, envelope: Envelope) -> None:
        """Tell the callbacks of this program alone, past the log: what fails is in no letter."""
        for listener in list(self._all.values()):
            if listener.wants.has(event, envelope):
                task = asyncio.get_running_loop().create_task(attempt(listener.call, event, envelope, ""))
                self._telling.add(task)
                task.add_done_callback(self._told)

    def _told(self, task: "asyncio.Task[Exception | None]") -> None:
        self._telling.discard(task)
        if not task.cancelled() and (wrong := task.result()) is not None:
            log.warning("a callback failed on an event of this process", exc_info=wrong)


def _asked_for(listener: Listener) -> Callable[[Event, Envelope], Any]:
    """The call of *listener* for those of an event class that it wants."""

    async def call(event: Event, envelope: Envelope) -> None:
        if listener.wants.has(event, envelope):
            await listener.call(event, envelope, "")

    return call


def listen(event_type: str | None, callback: Callback, view: EventSource) -> None:
    """Call *callback* for every event of this name, or for all, that *view* shows, from now on."""
    node, home = ambient.node(), running_loop()
    pending = ambient.post(Listeners.of(node).add((view, event_type, callback), home))
    if not ambient.is_here():
        pending.result()


def stop(event_type: str | None, callback: Callback, view: EventSource) -> bool:
    """Call *callback* no more; whether it did listen.  On the ambient loop it ends a moment later."""
    listeners, key = Listeners.of(ambient.node()), (view, event_type, callback)
    if ambient.is_here():
        listening = key in listeners.listed()
        ambient.post(listeners.remove(key))
        return listening
    return ambient.call(listeners.remove(key))
