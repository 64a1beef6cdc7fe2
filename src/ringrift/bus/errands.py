"""Errands: durable handlers, which are any code: at least once, outside transactions, with a delivery key.

    read a batch ─▶ call for each, up to so many at once ─▶ park what failed, move the place ─▶ COMMIT

A crash before the COMMIT delivers the batch again, each event with the same key as before: an effect in the world that
remembers the key happens once.  A failed call is parked and later events go on; with *ordered*, later events of the
same node and source wait behind it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ringrift.bus import letters, spans
from ringrift.bus.dead_letters import WATCHED_MAX, due
from ringrift.bus.delivery import attempt
from ringrift.bus.scribe import Scribe
from ringrift.bus.wants import Wants
from ringrift.events import catalog
from ringrift.events.base import Envelope, Event, Unknown
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import Backpressure, NoRoom, Overdue, Overtaken, TimedOut
from ringrift.kernel.value import Value
from ringrift.kernel.watch import Watch
from ringrift.store.ports import Delivery, Store

Call = Callable[[Event, Envelope, str], Awaitable[Any]]
WAITS = "waits behind an earlier one of its source"
MOVE_SECONDS = 0.2
"""After so long the place is moved, so that a crash repeats little of what a slow handler has done."""
log = logging.getLogger(__name__)


class Errand(Value):
    """A durable handler: its name is its identity over restarts."""

    name: str
    wants: Wants
    call: Call
    seconds_max: float
    backoff: Backoff
    concurrency: int = 1
    ordered: bool = False


def key(reader: str, envelope: Envelope) -> str:
    """What names one delivery, however often it is tried and whoever tries it."""
    return f"{reader}@{envelope.id}"


class Attendant:
    """Serves one handler from one store."""

    def __init__(self, errand: Errand, store: Store, clock: Clock, scribe: Scribe, batch: int) -> None:
        self._errand, self._store, self._clock, self._scribe, self._batch = errand, store, clock, scribe, batch
        self._watch = Watch()
        self._blocked: set[tuple[str, str]] = set()

    async def serve(self, at: int, poll_seconds: float, redeliver_seconds: float) -> None:
        """Deliver for ever; a handler that is new starts at *at*.  Raises Overtaken if it has lapsed, Unreachable."""
        place: int | None = None
        looked = float("-inf")
        while True:
            try:
                if place is None:
                    place = await self._enrol(at)
                if self._clock.tick() - looked >= redeliver_seconds:
                    looked = self._clock.tick()
                    await self.retry()
                while self._store.position > place and self._clock.tick() - looked < redeliver_seconds:
                    place = await self.take(place)
            except Overtaken:
                if place is None:
                    raise  # it has lapsed
                place = None  # somebody else moved it, or it was forgotten and starts anew
                continue
            except (NoRoom, Overdue, Backpressure) as wait:
                # Nothing is lost: the place has not moved, so these are called again with the same keys.
                log.warning("handler %s could not move on: %s", self._errand.name, wait)
                await asyncio.sleep(poll_seconds)
            await self._store.wait(place, min(poll_seconds, redeliver_seconds))

    async def _enrol(self, at: int) -> int:
        async with self._store.begin() as tx:
            return await tx.enrol(self._errand.name, at)

    async def take(self, place: int) -> int:
        """Deliver the next events behind *place*; the new place.  Raises Overtaken if somebody else moved it."""
        async with self._store.read() as view:
            envelopes = await view.read(place, self._batch)
        if not envelopes:
            return place
        called, failed = await self._call_some(envelopes)
        new = envelopes[called - 1].position
        async with self._store.begin() as tx:
            await tx.advance(self._errand.name, place, new)
            await letters.settle(tx, self._scribe, failed)
        return new

    async def _call_some(self, envelopes: Sequence[Envelope]) -> tuple[int, list[tuple[Delivery, Envelope]]]:
        """Call the handler for the first of these, until it is time to move the place; how many, and what failed."""
        began, called = self._clock.tick(), 0
        failed: list[tuple[Delivery, Envelope]] = []

        async def work() -> None:
            nonlocal called
            while called < len(envelopes) and (not called or self._clock.tick() - began < MOVE_SECONDS):
                envelope = envelopes[called]
                called += 1
                letter = await self._first_try(envelope)
                if letter is not None:
                    failed.append((letter, envelope))

        if self._errand.concurrency == 1:
            await work()
        else:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._errand.concurrency, len(envelopes))):
                    group.create_task(work())
        return called, sorted(failed, key=lambda one: one[0].position)

    async def _first_try(self, envelope: Envelope) -> Delivery | None:
        """The letter, if it failed."""
        errand, now = self._errand, self._clock.now()
        source = (envelope.node, envelope.source)
        if errand.ordered and source in self._blocked:
            return Delivery(
                reader=errand.name, position=envelope.position, state="parked", attempts=0, pause=0.0, error=WAITS,
                first=now, last=now,
            )  # fmt: skip
        wrong = await self._call(envelope)
        if wrong is None:
            return None
        letter = letters.judge(None, errand.name, envelope.position, wrong, self._clock.now(), errand.backoff)
        if letter.state == "parked":
            self._blocked.add(source)
        return letter

    async def _call(self, envelope: Envelope) -> Exception | None:
        """Call the handler; what went wrong, if anything did."""
        return await attempt(self._in_time, envelope)

    async def _in_time(self, envelope: Envelope) -> None:
        """Call the handler, if it wants the event.  Raises TimedOut, or whatever it raises."""
        errand = self._errand
        if errand.wants.names is not None and envelope.name not in errand.wants.names:
            return
        event = catalog.decode(envelope.name, envelope.body)
        if isinstance(event, Unknown) or not errand.wants.has(event, envelope):
            return
        with spans.delivering(errand.name, envelope):
            try:
                async with asyncio.timeout(errand.seconds_max) as limit:
                    await errand.call(event, envelope, key(errand.name, envelope))
            except TimeoutError as late:
                if limit.expired():
                    raise TimedOut(errand.name, errand.seconds_max) from late
                raise

    async def retry(self) -> None:
        """Try each letter whose pause is over; with *ordered*, only behind no earlier one of its source."""
        async with self._store.read() as view:
            parked = await view.deliveries(("parked",), WATCHED_MAX, self._errand.name)
            ready = {one.position for one in due(parked, self._watch, self._clock.tick())}
            needed = [one.position for one in parked if self._errand.ordered or one.position in ready]
            events = {envelope.position: envelope for envelope in await view.at(needed)}
        blocked: set[tuple[str, str]] = set()
        for letter in parked:
            envelope = events.get(letter.position)
            if envelope is None:
                continue
            source = (envelope.node, envelope.source)
            if self._errand.ordered and source in blocked:
                continue
            if letter.position not in ready or (await self._try_again(letter, envelope)).state == "parked":
                blocked.add(source)
        self._blocked = blocked

    async def _try_again(self, letter: Delivery, envelope: Envelope) -> Delivery:
        wrong, errand = await self._call(envelope), self._errand
        if wrong is None:
            new = letters.recovered(letter, self._clock.now())
        else:
            new = letters.judge(letter, errand.name, letter.position, wrong, self._clock.now(), errand.backoff)
        async with self._store.begin() as tx:
            still = await letters.find(tx, errand.name, letter.position)
            if still != letter:
                return still or new  # somebody else was faster
            await letters.settle(tx, self._scribe, [(new, envelope)])
        return new
