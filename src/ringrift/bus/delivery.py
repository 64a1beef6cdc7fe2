"""Delivery to reactions: the effects of a batch and the reader's new position in one transaction.

    read a batch ─▶ react to each event ─▶ move the position ─▶ COMMIT         all or nothing

If an event fails, the transaction is rolled back and the batch is delivered again with a savepoint for each event: then
only the failing ones are parked, and the reader continues after them.  A batch that takes too long is delivered again
with a transaction for each event.  A reaction therefore happens exactly once: if and only if the position has moved.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from ringrift.bus import dead_letters, spans
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.events import catalog
from ringrift.events.base import Envelope, Event, Unknown
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import TRANSIENT, DeliveryError, NotLeader, Overdue, Overtaken, Unreachable
from ringrift.kernel.failpoint import failpoint
from ringrift.kernel.stall_detector import StallDetector
from ringrift.kernel.value import Value
from ringrift.store.ports import Delivery, Store, Tx

WATCHED_MAX = 10_000  # parked deliveries of one reader that are considered for a retry
_RETRIED_MAX = 1_000
_RETRIED_TOGETHER_MAX = 100  # deliveries that are retried in one transaction
_NOT_ITS_FAULT = (Overtaken, NotLeader, Unreachable, *(error for error in TRANSIENT if error is not Overdue))
"""Errors that say nothing about the event being delivered: it is not parked.  A slow reaction is its own fault."""


class Reader(Value):
    """A durable reader: its name, the names of its events (none: all), its reaction to each."""

    name: str
    event_names: frozenset[str]
    react: Callable[[Event, Envelope, Tx], Awaitable[None]]
    guard: Callable[[Tx], Awaitable[None]] | None = None  # called first in every transaction; may refuse it by an error


class Deliverer:
    """Delivers events of one store to the reactions of readers."""

    def __init__(self, store: Store, clock: Clock, envelopes: EnvelopeFactory, backoff: Backoff, batch: int) -> None:
        self._store, self._clock, self._envelopes = store, clock, envelopes
        self._backoff, self._batch = backoff, batch

    async def register(self, reader: Reader, at: int = 0) -> int:
        """The position of *reader*; a new one starts at *at*.  Raises Overtaken if it has lapsed."""
        async with self._begin(reader) as tx:
            return await tx.register_reader(reader.name, at)

    @asynccontextmanager
    async def _begin(self, reader: Reader) -> AsyncIterator[Tx]:
        """A transaction of *reader*.  There is no other way to one, so none is without its guard."""
        async with self._store.begin() as tx:
            if reader.guard is not None:
                await reader.guard(tx)
            yield tx

    async def deliver_batch(self, reader: Reader, position: int) -> int:
        """Deliver the events after *position*; returns the new one.  Raises Overtaken if another process moved it."""
        try:
            return await self._deliver(reader, position, self._batch, apart=False)
        except _NOT_ITS_FAULT:
            raise
        except Overdue:
            slow = True
        except Exception:  # noqa: BLE001 - the event that failed is found below, each event with its own savepoint
            slow = False
        # Outside the except block: an error raised below must not carry the first one as its context.
        if not slow:
            with suppress(Overdue):
                return await self._deliver(reader, position, self._batch, apart=True)
        return await self._deliver_singly(reader, position)

    async def _deliver(
        self, reader: Reader, position: int, limit: int, *, apart: bool, late: Overdue | None = None
    ) -> int:
        """Deliver in one transaction; *apart*: with a savepoint for each event, and failing events are parked.

        *late*: only park the event, whose reaction took too long and was rolled back.
        """
        async with self._begin(reader) as tx:
            envelopes = await tx.read(position, limit)
            failures = []
            for envelope in envelopes:
                if not apart:
                    await _react(reader, envelope, tx)
                elif (error := late or await _attempt_reaction(reader, envelope, tx)) is not None:
                    delivery = Delivery(reader=reader.name, position=envelope.position)
                    failures.append((self._after_attempt(delivery, error), envelope))
            if not envelopes:
                return position
            await dead_letters.save(tx, self._envelopes, failures)
            failpoint("bus.before_advance")
            await tx.advance(reader.name, position, envelopes[-1].position)
            failpoint("bus.after_advance")
        return envelopes[-1].position

    async def _deliver_singly(self, reader: Reader, position: int) -> int:
        """Deliver with one transaction for each event; one that takes too long is parked by another transaction."""
        async with self._store.read() as view:
            envelopes = await view.read(position, self._batch)
        for envelope in envelopes:
            try:
                await self._deliver(reader, position, 1, apart=True)
            except Overdue as error:
                await self._deliver(reader, position, 1, apart=True, late=error)
            position = envelope.position
        return position

    def _after_attempt(self, delivery: Delivery, error: Exception | None) -> Delivery:
        return dead_letters.after_attempt(delivery, error, self._clock.now(), self._backoff)

    async def retry_due(self, readers: Mapping[str, Reader], detector: StallDetector, tick: float) -> Counter[str]:
        """Retry the deliveries whose pause is over, each with the reader that failed; count their new states."""
        parked: list[Delivery] = []
        async with self._store.read() as view:
            for name in readers:  # one by one: deliveries of a deleted reader must not crowd out the others
                parked += await view.deliveries(("parked",), WATCHED_MAX, name)
        due = dead_letters.due(parked, detector, tick)[:_RETRIED_MAX]
        states: Counter[str] = Counter()
        for name, reader in readers.items():
            own = [delivery for delivery in due if delivery.reader == name]
            for start in range(0, len(own), _RETRIED_TOGETHER_MAX):
                retried = await self.redeliver(reader, own[start : start + _RETRIED_TOGETHER_MAX])
                states.update(delivery.state for delivery in retried)
        return states

    async def redeliver(self, reader: Reader, parked: Sequence[Delivery]) -> list[Delivery]:
        """Retry each delivery, its effect and new state in one transaction; one settled meanwhile stays as it is."""
        try:
            return await self._redeliver(reader, parked)
        except Overdue as error:
            if len(parked) == 1:
                return await self._redeliver(reader, parked, error)
            return [(await self.redeliver(reader, [delivery]))[0] for delivery in parked]

    async def _redeliver(
        self, reader: Reader, parked: Sequence[Delivery], late: Overdue | None = None
    ) -> list[Delivery]:
        """Retry in one transaction; *late*: only record that the retry took too long, and was rolled back."""
        async with self._begin(reader) as tx:
            positions = [delivery.position for delivery in parked]
            stored = {delivery.position: delivery for delivery in await tx.deliveries_at(reader.name, positions)}
            envelopes = {envelope.position: envelope for envelope in await tx.events_at(positions)}
            results, changes = [], []
            for delivery in parked:
                position = delivery.position
                envelope, result = envelopes.get(position), stored.get(position, delivery)
                # Another process may have settled it; the event may be compacted, and then only discarding is left.
                if result == delivery and envelope is not None:
                    result = self._after_attempt(delivery, late or await _attempt_reaction(reader, envelope, tx))
                    changes.append((result, envelope))
                results.append(result)
            await dead_letters.save(tx, self._envelopes, changes)
            return results


async def attempt(call: Callable[..., Awaitable[Any]], *args: Any) -> Exception | None:
    """Call foreign async code; returns its error, if any."""
    try:
        await call(*args)
    except asyncio.CancelledError as cancelled:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return DeliveryError("an operation that it awaited was cancelled").with_traceback(cancelled.__traceback__)
    except SystemExit as end:
        return DeliveryError(f"it tried to exit the program: {end}").with_traceback(end.__traceback__)
    except Exception as error:  # noqa: BLE001 - foreign code may raise anything; the caller handles it
        return error
    return None


async def _attempt_reaction(reader: Reader, envelope: Envelope, tx: Tx) -> Exception | None:
    """React inside a savepoint; returns the error, if any."""
    try:
        async with tx.savepoint():
            await _react(reader, envelope, tx)
    except _NOT_ITS_FAULT:
        raise
    except Exception as error:  # noqa: BLE001 - any error of a reaction becomes the state of its delivery
        return error
    return None


async def _react(reader: Reader, envelope: Envelope, tx: Tx) -> None:
    if reader.event_names and envelope.name not in reader.event_names:
        return
    event = catalog.decode(envelope.name, envelope.body)
    if isinstance(event, Unknown):
        return
    failpoint("bus.before_effect")
    with spans.delivery_span(reader.name, envelope):
        await reader.react(event, envelope, tx)
