"""Fanout: hands events to the live subscriptions of this process.

    memory events ──────────────────────────┐
    the log, from every process ─▶ pump ─▶ offer to each subscription that wants it

Nothing is offered before it is durable.  Who wants which name is looked up once and remembered until that changes.
"""

import asyncio
import logging
from typing import Any

from ringrift.bus import trace
from ringrift.bus.delivery import attempt_plain
from ringrift.bus.subscription import Counts, Subscription
from ringrift.bus.wants import Wants
from ringrift.events import catalog
from ringrift.events.base import Envelope, Event, Unknown
from ringrift.kernel.errors import InputError, Unreachable
from ringrift.kernel.settings import BusSettings
from ringrift.store.ports import Store

log = logging.getLogger(__name__)
_MEMORY = frozenset(event.name() for event in catalog.EVENTS if event.SCOPE == "memory")


class Fanout:
    """The live side of one router."""

    def __init__(self, store: Store, settings: BusSettings) -> None:
        self._store, self._settings = store, settings
        self._subscriptions: list[Subscription] = []
        self._known: dict[str, tuple[Subscription, ...]] = {}
        self._pump: asyncio.Task[None] | None = None
        self.place = store.position

    def add(self, subscription: Subscription) -> None:
        """Offer events to *subscription* from now on."""
        self._subscriptions.append(subscription)
        self._known = {}
        names = subscription.wants.names
        if self._pump is None and (names is None or names - _MEMORY):
            self.place = self._store.position
            self._pump = asyncio.get_running_loop().create_task(self._follow(), name="bus-pump")

    def remove(self, subscription: Subscription) -> None:
        """Offer it nothing more."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
            self._known = {}

    def wanted(self, name: str) -> tuple[Subscription, ...]:
        """Who may want an event of this *name*."""
        found = self._known.get(name)
        if found is None:
            found = tuple(s for s in self._subscriptions if s.wants.names is None or name in s.wants.names)
            self._known[name] = found
        return found

    def tell(self, event: Event, envelope: Envelope) -> None:
        """Offer one event to everybody who wants it."""
        item = (event, envelope, trace.of(envelope))
        for subscription in self.wanted(envelope.name):
            if subscription.wants.check is None:
                subscription.offer(item)
            else:
                _offer(subscription, event, envelope)

    def wants(self) -> list[Wants]:
        """What every subscription wants."""
        return [subscription.wants for subscription in self._subscriptions]

    def counts(self) -> list[Counts]:
        """How every subscription is."""
        return [subscription.counts() for subscription in self._subscriptions]

    async def catch_up(self, subscription: Subscription) -> None:
        """Let one that was too slow for its queue read on in the log, at its own pace, until it is level again."""
        reached = self.place
        async with self._store.read() as view:
            envelopes = await view.read(subscription.place, self._settings.batch)
        if subscription.awaits and (not envelopes or envelopes[0].position > subscription.awaits):
            subscription.miss()  # the log has been compacted meanwhile
        subscription.behind, subscription.awaits = False, 0
        for envelope in envelopes:
            event = _decoded(envelope)
            if event is not None:
                _offer(subscription, event, envelope)
            if subscription.behind:
                return  # no room again
            subscription.place = envelope.position
        if len(envelopes) < self._settings.batch:
            subscription.place = max(subscription.place, reached)
        # The pump may have gone on while we read: what it passed over in the meantime is read in the next round.
        subscription.behind = subscription.place < self.place

    async def close(self) -> None:
        """End the pump and every subscription."""
        ending: list[asyncio.Task[Any]] = [] if self._pump is None else [self._pump]
        if self._pump is not None:
            self._pump.cancel()
        for subscription in self._subscriptions:
            ending += subscription.end()
        self._subscriptions, self._known, self._pump = [], {}, None
        if ending:
            await asyncio.wait(ending)

    async def _follow(self) -> None:
        """Tail the log for ever.  A store that is gone is told to whoever works with it; here it is only the end."""
        try:
            while True:
                await self._store.wait(self.place, self._settings.poll_seconds)
                while self._store.position > self.place and await self._pass_on():
                    pass
        except Unreachable as gone:
            log.warning("live subscribers hear nothing more: %s", gone)

    async def _pass_on(self) -> bool:
        """Offer the next batch of the log; whether there was one."""
        async with self._store.read() as view:
            envelopes = await view.read(self.place, self._settings.batch)
        for envelope in envelopes:
            self.place = envelope.position
            wanted = self.wanted(envelope.name)
            event = _decoded(envelope) if wanted else None
            if event is not None:
                for subscription in wanted:
                    if not subscription.behind and envelope.position > subscription.place:
                        _offer(subscription, event, envelope)
        return bool(envelopes)


def _decoded(envelope: Envelope) -> Event | None:
    """The event, if this version knows it."""
    try:
        event = catalog.decode(envelope.name, envelope.body)
    except InputError as bad:
        log.warning("event %s is not readable: %s", envelope.id, bad)
        return None
    return None if isinstance(event, Unknown) else event


def _offer(subscription: Subscription, event: Event, envelope: Envelope) -> None:
    """Offer it, if it is wanted.  A predicate that fails is a handler that fails: it is counted, and wants nothing."""
    fits, wrong = attempt_plain(subscription.wants.has, event, envelope)
    if wrong is not None:
        subscription.refuse(envelope, wrong)
    elif fits:
        subscription.offer((event, envelope, trace.of(envelope)))
