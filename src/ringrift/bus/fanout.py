"""Fanout: offer events to the live subscriptions of this process.

    memory events ──────────────────────────┐
    the log, from every process ─▶ pump ─▶ offer to each subscription whose filter matches

Nothing is offered before it is durable.  The subscriptions for a name are looked up once and cached.
"""

import asyncio
import logging

from ringrift.bus import trace
from ringrift.bus.subscription import Subscription
from ringrift.events import catalog
from ringrift.events.base import Envelope, Event, Unknown
from ringrift.kernel.backoff import wait_out
from ringrift.kernel.errors import InputError, Unreachable
from ringrift.kernel.foreign import attempt_sync
from ringrift.kernel.settings import BusSettings
from ringrift.store.follow import follow
from ringrift.store.ports import Store

log = logging.getLogger(__name__)


class Fanout:
    """The live subscriptions of one router."""

    def __init__(self, store: Store, settings: BusSettings) -> None:
        self._store, self._settings = store, settings
        self._cache: dict[str, tuple[Subscription, ...]] = {}
        self._pump: asyncio.Task[None] | None = None
        self._position = store.position
        self.subscriptions: list[Subscription] = []

    def add(self, subscription: Subscription) -> None:
        self.subscriptions.append(subscription)
        self._cache = {}
        names = subscription.filter.names
        if self._pump is None and (names is None or names - catalog.MEMORY_NAMES):
            self._position = self._store.position
            self._pump = asyncio.get_running_loop().create_task(self._follow(), name="bus-pump")

    def remove(self, subscription: Subscription) -> None:
        if subscription in self.subscriptions:
            self.subscriptions.remove(subscription)
            self._cache = {}

    def _candidates(self, name: str) -> tuple[Subscription, ...]:
        """The subscriptions whose filter may select an event of this *name*."""
        candidates = self._cache.get(name)
        if candidates is None:
            candidates = tuple(s for s in self.subscriptions if s.filter.names is None or name in s.filter.names)
            self._cache[name] = candidates
        return candidates

    def offer(self, event: Event, envelope: Envelope) -> None:
        """Offer one event to every subscription whose filter selects it."""
        item = (event, envelope, trace.context_of(envelope))
        for subscription in self._candidates(envelope.name):
            if subscription.filter.check is None:
                subscription.offer(item)
            else:
                _offer(subscription, event, envelope)

    async def catch_up(self, subscription: Subscription) -> None:
        """Offer the next events of the log to a subscription that was too slow for its queue."""
        pumped = self._position
        async with self._store.read() as view:
            envelopes = await view.read(subscription.position, self._settings.batch)
        if subscription.next_position and (not envelopes or envelopes[0].position > subscription.next_position):
            subscription.note_gap()  # the log was compacted meanwhile
        subscription.behind, subscription.next_position = False, 0
        for envelope in envelopes:
            event = decode_event(envelope)
            if event is not None:
                _offer(subscription, event, envelope)
            if subscription.behind:
                return  # the queue is full again
            subscription.position = envelope.position
        if len(envelopes) < self._settings.batch:
            subscription.position = max(subscription.position, pumped)
        # The pump may have moved on during the read: the next round reads what it skipped for this subscription.
        subscription.behind = subscription.position < self._position

    async def close(self) -> None:
        tasks = [task for subscription in self.subscriptions for task in subscription.end()]
        if self._pump is not None:
            self._pump.cancel()
            tasks.append(self._pump)
        self.subscriptions, self._cache, self._pump = [], {}, None
        if tasks:
            await asyncio.wait(tasks)

    async def _follow(self) -> None:
        """Offer the events of the log for ever; ends if the store breaks, which its users report."""
        try:
            await wait_out(self._offer_log, on_wait=lambda error: log.warning("live subscriptions wait: %s", error))
        except Unreachable as error:
            log.warning("live subscriptions get no more events: %s", error)

    async def _offer_log(self) -> None:
        """Offer the events of the log from the position on."""
        batch, poll_seconds = self._settings.batch, self._settings.poll_seconds
        async for envelope in follow(self._store, self._position, page=batch, poll_seconds=poll_seconds):
            self._position = envelope.position
            candidates = self._candidates(envelope.name)
            event = decode_event(envelope) if candidates else None
            if event is not None:
                for subscription in candidates:
                    if not subscription.behind and envelope.position > subscription.position:
                        _offer(subscription, event, envelope)


def decode_event(envelope: Envelope) -> Event | None:
    """The event, if this version has it and it can be read; the error is logged."""
    try:
        event = catalog.decode(envelope.name, envelope.body)
    except InputError as error:
        log.warning("cannot decode event %s: %s", envelope.id, error)
        return None
    return None if isinstance(event, Unknown) else event


def _offer(subscription: Subscription, event: Event, envelope: Envelope) -> None:
    """Offer the event if the filter selects it.  A predicate that raises counts as a failed handler call."""
    matches, error = attempt_sync(subscription.filter.matches, event, envelope)
    if error is not None:
        subscription.note_failure(envelope, error)
    elif matches:
        subscription.offer((event, envelope, trace.context_of(envelope)))
