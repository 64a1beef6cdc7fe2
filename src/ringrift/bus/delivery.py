"""Delivery: takes events to reactions, their effects and the reader's place in one transaction.

    read a batch ─▶ react to each ─▶ move the place ─▶ COMMIT         all or nothing

If one event of the batch fails, the transaction is undone and the batch is taken again with each event apart: then only
the failing ones are parked, and the reader goes on behind them.  A batch that takes too long is taken again with a
transaction for each event.  A reaction is therefore exactly once: it has happened if and only if the place has moved.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from ringrift.bus import letters, spans
from ringrift.bus.scribe import Scribe
from ringrift.events import catalog
from ringrift.events.base import Envelope, Event, Unknown
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import DeliveryError, NoRoom, NotLeader, Overdue, Overtaken, Unreachable
from ringrift.kernel.failpoint import failpoint
from ringrift.kernel.value import Value
from ringrift.store.ports import Delivery, Store, Tx

T = TypeVar("T")
Reaction = Callable[[Event, Envelope, Tx], Awaitable[None]]
Guard = Callable[[Tx], Awaitable[None]]
_NOT_ITS_FAULT = (Overtaken, NotLeader, Unreachable, NoRoom)
"""What says nothing about the event that was being delivered: nothing is parked for it."""


class Reader(Value):
    """A durable reader: a name, the events it wants (none = all), and what it does with each."""

    name: str
    wants: frozenset[str]
    react: Reaction
    guard: Guard | None = None


class Courier:
    """Delivers to reactions from one store."""

    def __init__(self, store: Store, clock: Clock, scribe: Scribe, backoff: Backoff, batch: int) -> None:
        self._store, self._clock, self._scribe = store, clock, scribe
        self._backoff, self._batch = backoff, batch

    async def enrol(self, reader: Reader, at: int = 0) -> int:
        """The place of *reader*; a new one starts at *at*.  Raises Overtaken if it has lapsed."""
        async with self._store.begin() as tx:
            return await tx.enrol(reader.name, at)

    async def take(self, reader: Reader, place: int) -> int:
        """Deliver the next batch behind *place*; the new place.  Raises Overtaken if somebody else moved the reader."""
        try:
            return await self._at_once(reader, place)
        except _NOT_ITS_FAULT:
            raise
        except Overdue:
            slow = True
        except Exception:  # noqa: BLE001 - whatever a reaction raises is met again below, each event apart
            slow = False
        # Behind the handler and not in it: what fails now must not carry along, as its context, what failed before.
        if not slow:
            with suppress(Overdue):
                return await self._apart(reader, place, self._batch)
        return await self._one_by_one(reader, place)

    async def _at_once(self, reader: Reader, place: int) -> int:
        async with self._store.begin() as tx:
            if reader.guard is not None:
                await reader.guard(tx)
            envelopes = await tx.read(place, self._batch)
            for envelope in envelopes:
                await _react(reader, envelope, tx)
            if not envelopes:
                return place
            failpoint("bus.before_advance")
            await tx.advance(reader.name, place, envelopes[-1].position)
            failpoint("bus.after_advance")
        return envelopes[-1].position

    async def _apart(self, reader: Reader, place: int, limit: int) -> int:
        """One transaction for the batch, in which each event fails alone."""
        async with self._store.begin() as tx:
            if reader.guard is not None:
                await reader.guard(tx)
            envelopes = await tx.read(place, limit)
            failed = []
            for envelope in envelopes:
                wrong = await _try(reader, envelope, tx)
                if wrong is not None:
                    letter = letters.judge(
                        None, reader.name, envelope.position, wrong, self._clock.now(), self._backoff
                    )
                    failed.append((letter, envelope))
            await letters.settle(tx, self._scribe, failed)
            if envelopes:
                await tx.advance(reader.name, place, envelopes[-1].position)
        return envelopes[-1].position if envelopes else place

    async def _one_by_one(self, reader: Reader, place: int) -> int:
        """One transaction for each event; one that alone takes too long is parked by another."""
        async with self._store.read() as view:
            envelopes = await view.read(place, self._batch)
        for envelope in envelopes:
            try:
                await self._apart(reader, place, 1)
            except Overdue as wrong:
                letter = letters.judge(None, reader.name, envelope.position, wrong, self._clock.now(), self._backoff)
                async with self._store.begin() as tx:
                    await letters.settle(tx, self._scribe, [(letter, envelope)])
                    await tx.advance(reader.name, place, envelope.position)
            place = envelope.position
        return place

    async def again(self, reader: Reader, parked: Sequence[Delivery]) -> list[Delivery]:
        """Try parked or dead deliveries to *reader* once more; their new states.

        Each effect and its state commit together.  What somebody else has settled meanwhile is left as it is.
        """
        try:
            async with self._store.begin() as tx:
                return await self._again(reader, parked, tx)
        except Overdue:
            if len(parked) == 1:
                return [await self._worse(parked[0], Overdue(0.0))]
            return [(await self.again(reader, [one]))[0] for one in parked]

    async def _again(self, reader: Reader, parked: Sequence[Delivery], tx: Tx) -> list[Delivery]:
        if reader.guard is not None:
            await reader.guard(tx)
        positions = [letter.position for letter in parked]
        found = {one.position: one for one in await tx.deliveries_at(reader.name, positions)}
        envelopes = {one.position: one for one in await tx.at(positions)}
        states, changed = [], []
        for letter in parked:
            still = found.get(letter.position, letter)
            if still != letter:
                states.append(still)  # somebody else was faster
                continue
            envelope, now = envelopes.get(letter.position), self._clock.now()
            if envelope is None:
                states.append(letter)  # it cannot be had any more: somebody may give it up
                continue
            wrong = await _try(reader, envelope, tx)
            if wrong is None:
                new = letters.recovered(letter, now)
            else:
                new = letters.judge(letter, reader.name, letter.position, wrong, now, self._backoff)
            states.append(new)
            changed.append((new, envelope))
        await letters.settle(tx, self._scribe, changed)
        return states

    async def _worse(self, letter: Delivery, wrong: Exception) -> Delivery:
        """*letter* after a try that could not even be undone in time."""
        async with self._store.begin() as tx:
            still = await letters.find(tx, letter.reader, letter.position)
            if still is not None and still != letter:
                return still
            worse = letters.judge(letter, letter.reader, letter.position, wrong, self._clock.now(), self._backoff)
            await letters.settle(tx, self._scribe, [(worse, await letters.event_at(tx, letter.position))])
            return worse


async def attempt(call: Callable[..., Awaitable[Any]], *args: Any) -> Exception | None:
    """Call foreign code; what went wrong, if anything did."""
    try:
        await call(*args)
    except asyncio.CancelledError as cancelled:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return DeliveryError("what it awaited was cancelled").with_traceback(cancelled.__traceback__)
    except SystemExit as end:
        return DeliveryError(f"called for the end of the program: {end}").with_traceback(end.__traceback__)
    except Exception as wrong:  # noqa: BLE001 - foreign code may raise anything, and the caller tells whom it concerns
        return wrong
    return None


def attempt_plain(call: Callable[..., T], *args: Any) -> tuple[T | None, Exception | None]:
    """Call a foreign plain function; what it returned, or what went wrong."""
    try:
        return call(*args), None
    except Exception as wrong:  # noqa: BLE001 - as above
        return None, wrong
    except BaseException as end:  # noqa: BLE001 - it ends a thread of ours, and not the program
        return None, DeliveryError(f"called for the end of the program: {type(end).__name__}: {end}")


async def _try(reader: Reader, envelope: Envelope, tx: Tx) -> Exception | None:
    """React, apart from the rest of the transaction; what went wrong, if anything did."""
    try:
        async with tx.apart():
            await _react(reader, envelope, tx)
    except _NOT_ITS_FAULT:
        raise
    except Exception as wrong:  # noqa: BLE001 - whatever a reaction raises becomes the state of its delivery
        return wrong
    return None


async def _react(reader: Reader, envelope: Envelope, tx: Tx) -> None:
    if reader.wants and envelope.name not in reader.wants:
        return
    event = catalog.decode(envelope.name, envelope.body)
    if isinstance(event, Unknown):
        return
    failpoint("bus.before_effect")
    with spans.delivering(reader.name, envelope):
        await reader.react(event, envelope, tx)
