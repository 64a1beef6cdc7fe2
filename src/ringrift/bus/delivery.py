"""Delivery: takes events to a durable reader, its effects and its place in one transaction.

    read a batch ─▶ react to each ─▶ move the place ─▶ COMMIT         all or nothing

If one event of the batch fails, the whole transaction is undone and the batch is taken again one event at a time; then
only the failing event is parked, and the reader goes on behind it.  A reaction is therefore exactly once: it has
happened if and only if the place has moved.
"""

import traceback
from collections.abc import Awaitable, Callable

from ringrift.events import catalog
from ringrift.events.base import Envelope, Event, Unknown
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import Discard, NotLeader, Overtaken, Retry, Unreachable, told
from ringrift.kernel.failpoint import failpoint
from ringrift.kernel.value import Value
from ringrift.store.ports import Delivery, Reads, Store, Tx

Reaction = Callable[[Event, Envelope, Tx], Awaitable[None]]
Guard = Callable[[Tx], Awaitable[None]]
ERROR_CHARACTERS_MAX = 2000


class Reader(Value):
    """A durable reader: a name, the events it wants (none = all), and what it does with each."""

    name: str
    wants: frozenset[str]
    react: Reaction
    guard: Guard | None = None


def judge(
    before: Delivery | None, reader: str, position: int, wrong: Exception, now: float, backoff: Backoff
) -> Delivery:
    """What becomes of a delivery that failed with *wrong*: parked for a while, dead, or discarded on request."""
    attempts = (before.attempts if before else 0) + 1
    pause = backoff.delay(attempts)
    state = "parked" if pause is not None else "dead"
    match wrong:
        case Discard():
            state, pause = "discarded", None
        case Retry() if pause is not None:
            pause = wrong.after
    text = told("".join(traceback.format_exception_only(wrong)).strip(), ERROR_CHARACTERS_MAX)
    return Delivery(
        reader=reader, position=position, state=state, attempts=attempts, pause=pause or 0.0, error=text,
        first=before.first if before else now, last=now,
    )  # fmt: skip


class Courier:
    """Delivers to durable readers from one store."""

    def __init__(self, store: Store, clock: Clock, backoff: Backoff, batch: int) -> None:
        self._store, self._clock, self._backoff, self._batch = store, clock, backoff, batch

    async def enrol(self, reader: Reader, at: int = 0) -> int:
        """The place of *reader*; a new one starts at *at*."""
        async with self._store.begin() as tx:
            return await tx.enrol(reader.name, at)

    async def take(self, reader: Reader, place: int) -> int:
        """Deliver the next batch behind *place*; the new place.  Raises Overtaken if somebody else moved the reader."""
        try:
            return await self._batch_at_once(reader, place)
        except (Overtaken, NotLeader, Unreachable):
            raise
        except Exception:  # noqa: BLE001 - any failure of a reaction is handled one event at a time below
            return await self._one_by_one(reader, place)

    async def _batch_at_once(self, reader: Reader, place: int) -> int:
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

    async def _one_by_one(self, reader: Reader, place: int) -> int:
        async with self._store.read() as view:
            envelopes = await view.read(place, self._batch)
        for envelope in envelopes:
            try:
                async with self._store.begin() as tx:
                    if reader.guard is not None:
                        await reader.guard(tx)
                    await _react(reader, envelope, tx)
                    await tx.advance(reader.name, place, envelope.position)
            except (Overtaken, NotLeader, Unreachable):
                raise
            except Exception as wrong:  # noqa: BLE001 - whatever a reaction raises becomes the state of its delivery
                parked = judge(None, reader.name, envelope.position, wrong, self._clock.now(), self._backoff)
                async with self._store.begin() as tx:
                    await tx.park([parked])
                    await tx.advance(reader.name, place, envelope.position)
            place = envelope.position
        return place

    async def again(self, reader: Reader, delivery: Delivery) -> Delivery:
        """Try a parked or dead *delivery* once more; its new state.  Its effect and its state commit together."""
        done = Delivery(
            reader=delivery.reader, position=delivery.position, state="done", attempts=delivery.attempts + 1, pause=0.0,
            error="", first=delivery.first, last=self._clock.now(),
        )  # fmt: skip
        try:
            async with self._store.begin() as tx:
                if reader.guard is not None:
                    await reader.guard(tx)
                still = await find(tx, delivery.reader, delivery.position)
                if still is not None and still != delivery:
                    return still  # somebody else was faster
                [envelope] = await tx.read(delivery.position - 1, 1)
                assert envelope.position == delivery.position, "compaction keeps what is parked"
                await _react(reader, envelope, tx)
                await tx.park([done])
            return done
        except (NotLeader, Unreachable):
            raise
        except Exception as wrong:  # noqa: BLE001 - as above
            worse = judge(delivery, reader.name, delivery.position, wrong, self._clock.now(), self._backoff)
            async with self._store.begin() as tx:
                if await find(tx, delivery.reader, delivery.position) == delivery:
                    await tx.park([worse])
            return worse


async def find(view: Reads, reader: str, position: int) -> Delivery | None:
    """The delivery of one event to one reader, if it ever went wrong."""
    found = await view.deliveries(("parked", "dead", "done", "discarded"), 1, reader, position)
    return found[0] if found else None


async def _react(reader: Reader, envelope: Envelope, tx: Tx) -> None:
    if reader.wants and envelope.name not in reader.wants:
        return
    event = catalog.decode(envelope.name, envelope.body)
    if isinstance(event, Unknown):
        return
    failpoint("bus.before_effect")
    await reader.react(event, envelope, tx)
