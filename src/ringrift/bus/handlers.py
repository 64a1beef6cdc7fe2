"""Durable handlers: call user code at least once per event, outside any transaction, with a stable delivery key.

    read a batch ─▶ call the handler for each, several at once ─▶ park failures, move the position ─▶ COMMIT

A crash before the COMMIT delivers the batch again, each event with the same key: an effect that is stored under the key
happens once.  A failed call is parked and later events are delivered; with *ordered*, later events of the same node and
source wait behind it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec.structs import replace

from ringrift.bus import dead_letters, spans
from ringrift.bus.delivery import WATCHED_MAX, attempt
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.bus.filters import EventFilter
from ringrift.events import catalog
from ringrift.events.base import Envelope, Event, Unknown
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import Backpressure, NoRoom, Overdue, Overtaken, TimedOut
from ringrift.kernel.stall_detector import StallDetector
from ringrift.kernel.value import Value
from ringrift.store.ports import Delivery, Store

_WAITING = "waits behind an earlier event of its source"
_MOVE_SECONDS = 0.2  # the position is moved at least this often, so that a crash repeats few calls of a slow handler
log = logging.getLogger(__name__)


class DurableHandler(Value):
    """A named handler; the name identifies its position in the log across restarts."""

    name: str
    filter: EventFilter
    function: Callable[[Event, Envelope, str], Awaitable[Any]]
    timeout_seconds: float
    backoff: Backoff
    concurrency: int = 1
    ordered: bool = False


class HandlerLoop:
    """Delivers events from one store to one handler."""

    def __init__(
        self, handler: DurableHandler, store: Store, clock: Clock, envelopes: EnvelopeFactory, batch: int
    ) -> None:
        self._handler, self._store, self._clock, self._batch = handler, store, clock, batch
        self._envelopes = envelopes
        self._detector = StallDetector()
        self._blocked: set[tuple[str, str]] = set()

    async def run(self, at: int, poll_seconds: float, retry_seconds: float) -> None:
        """Deliver for ever; a new handler starts at *at*.  Raises Overtaken if it has lapsed, Unreachable."""
        position: int | None = None
        retried = float("-inf")
        while True:
            try:
                if position is None:
                    async with self._store.begin() as tx:
                        position = await tx.register_reader(self._handler.name, at)
                if self._clock.tick() - retried >= retry_seconds:
                    retried = self._clock.tick()
                    await self.retry()
                while self._store.position > position and self._clock.tick() - retried < retry_seconds:
                    position = await self.deliver_batch(position)
            except Overtaken:
                if position is None:
                    raise  # it has lapsed
                position = None  # another process moved it, or it was deleted and starts anew
                continue
            except (NoRoom, Overdue, Backpressure) as error:
                # Nothing is lost: the position has not moved, so these are called again with the same keys.
                log.warning("handler %s could not store its progress, retrying: %s", self._handler.name, error)
                await asyncio.sleep(poll_seconds)
            await self._store.wait(position, min(poll_seconds, retry_seconds))

    async def deliver_batch(self, position: int) -> int:
        """Deliver the events after *position*; returns the new one.  Raises Overtaken if another process moved it."""
        async with self._store.read() as view:
            envelopes = await view.read(position, self._batch)
        if not envelopes:
            return position
        delivered, failures = await self._call_handler(envelopes)
        position_after = envelopes[delivered - 1].position
        async with self._store.begin() as tx:
            await tx.advance(self._handler.name, position, position_after)
            await dead_letters.save(tx, self._envelopes, failures)
        return position_after

    async def _call_handler(self, envelopes: Sequence[Envelope]) -> tuple[int, list[tuple[Delivery, Envelope]]]:
        """Call the handler for the first events, until it is time to move the position; their number and failures."""
        start, called = self._clock.tick(), 0
        failures: list[tuple[Delivery, Envelope]] = []

        async def work() -> None:
            nonlocal called
            while called < len(envelopes) and (not called or self._clock.tick() - start < _MOVE_SECONDS):
                envelope = envelopes[called]
                called += 1
                failure = await self._deliver(envelope)
                if failure is not None:
                    failures.append((failure, envelope))

        if self._handler.concurrency == 1:
            await work()
        else:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._handler.concurrency, len(envelopes))):
                    group.create_task(work())
        return called, sorted(failures, key=lambda failure: failure[0].position)

    async def _deliver(self, envelope: Envelope) -> Delivery | None:
        """Deliver an event for the first time; returns the delivery if it failed."""
        delivery, source = Delivery(reader=self._handler.name, position=envelope.position), _source(envelope)
        if self._handler.ordered and source in self._blocked:
            now = self._clock.now()
            return replace(delivery, error=_WAITING, first=now, last=now)
        error = await attempt(self._call, envelope)
        if error is None:
            return None
        failure = self._after_attempt(delivery, error)
        if failure.state == "parked":
            self._blocked.add(source)
        return failure

    def _after_attempt(self, delivery: Delivery, error: Exception | None) -> Delivery:
        return dead_letters.after_attempt(delivery, error, self._clock.now(), self._handler.backoff)

    async def _call(self, envelope: Envelope) -> None:
        """Call the handler if its filter selects the event.  Raises TimedOut, or any error of the handler."""
        handler = self._handler
        if handler.filter.names is not None and envelope.name not in handler.filter.names:
            return
        event = catalog.decode(envelope.name, envelope.body)
        if isinstance(event, Unknown) or not handler.filter.matches(event, envelope):
            return
        with spans.delivery_span(handler.name, envelope):
            try:
                async with asyncio.timeout(handler.timeout_seconds) as limit:
                    await handler.function(event, envelope, f"{handler.name}@{envelope.id}")
            except TimeoutError as late:
                if limit.expired():
                    raise TimedOut(handler.name, handler.timeout_seconds) from late
                raise

    async def retry(self) -> None:
        """Retry each delivery whose pause is over; with *ordered*, not before an earlier one of its source."""
        async with self._store.read() as view:
            parked = await view.deliveries(("parked",), WATCHED_MAX, self._handler.name)
            due = {delivery.position for delivery in dead_letters.due(parked, self._detector, self._clock.tick())}
            needed = [delivery.position for delivery in parked if self._handler.ordered or delivery.position in due]
            events = {envelope.position: envelope for envelope in await view.events_at(needed)}
        blocked: set[tuple[str, str]] = set()
        for delivery in parked:
            envelope = events.get(delivery.position)
            if envelope is None or (self._handler.ordered and _source(envelope) in blocked):
                continue
            if delivery.position not in due or (await self._redeliver(delivery, envelope)).state == "parked":
                blocked.add(_source(envelope))
        self._blocked = blocked

    async def _redeliver(self, delivery: Delivery, envelope: Envelope) -> Delivery:
        result = self._after_attempt(delivery, await attempt(self._call, envelope))
        async with self._store.begin() as tx:
            stored = await dead_letters.find(tx, self._handler.name, delivery.position)
            if stored != delivery:
                return stored or result  # another process was faster
            await dead_letters.save(tx, self._envelopes, [(result, envelope)])
        return result


def _source(envelope: Envelope) -> tuple[str, str]:
    return envelope.node, envelope.source
