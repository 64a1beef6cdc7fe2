"""Failed deliveries: their states, when they are retried, and what an operator can do with them.

A dead letter is a state of a delivery, not a queue of its own: *parked* until its pause is over, *dead* after the last
attempt, *done* when a retry succeeded, *discarded* by an operator or at the reader's own request.
"""

import math
import traceback
from collections import Counter
from collections.abc import Collection, Sequence

from msgspec.structs import replace

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.events.base import Envelope
from ringrift.events.delivery import Changed
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.errors import Discard, InputError, LoopDetected, Overdue, Retry, TimedOut, UnknownName, printable
from ringrift.kernel.stall_detector import Observation, StallDetector
from ringrift.store.ports import Delivery, Reads, Store, Tx

STATES = {"parked": "pending", "done": "recovered", "dead": "abandoned", "discarded": "discarded"}
"""Each state and the name that :func:`stats` counts it under."""
_ERROR_CHARACTERS_MAX = 2000
_EVENT_CHARACTERS_MAX = 300
_TIMEOUTS = tuple(f"{error.__module__}.{error.__qualname__}" for error in (TimedOut, Overdue))  # of too long deliveries
_RETRY_SECONDS_MAX = 7 * 86_400.0  # the longest pause that a reader may ask for
_COUNTED_MAX = 1_000_000
_REPLAYED_MAX = 10_000


def after_attempt(delivery: Delivery, error: Exception | None, now: float, backoff: Backoff) -> Delivery:
    """The delivery after one more attempt: done, or if it failed with *error* parked for a while, dead or discarded."""
    delivery = replace(delivery, attempts=delivery.attempts + 1, first=delivery.first or now, last=now)
    if error is None:
        return replace(delivery, state="done", pause=0.0, error="")
    pause = backoff.delay(delivery.attempts)
    state = "parked" if pause is not None else "dead"
    match error:
        case Discard():
            state, pause = "discarded", None
        case LoopDetected():
            state, pause = "dead", None  # a retry would loop again
        case Retry() if pause is not None:
            pause = _pause(error, pause)
    text = printable("".join(traceback.format_exception_only(error)).strip(), _ERROR_CHARACTERS_MAX)
    return replace(delivery, state=state, pause=pause or 0.0, error=text)


def _pause(retry: Retry, usual: float) -> float:
    """The pause that *retry* asks for, within the limits; the *usual* one where it names no number."""
    after = getattr(retry, "after", None)
    if not isinstance(after, int | float) or (isinstance(after, float) and math.isnan(after)):
        return usual
    return float(min(max(after, 0.0), _RETRY_SECONDS_MAX))


async def save(tx: Tx, envelopes: EnvelopeFactory, changes: Sequence[tuple[Delivery, Envelope | None]]) -> None:
    """Store deliveries to one reader in their new states and publish one event for each state.

    Failed deliveries of that very event are not published: a reader that fails on it would cause an endless loop.
    """
    await tx.put_deliveries([delivery for delivery, _ in changes])
    by_state: dict[str, list[Delivery]] = {}
    for delivery, envelope in changes:
        if envelope is None or envelope.name != Changed.name():
            by_state.setdefault(delivery.state, []).append(delivery)
    for state, deliveries in by_state.items():
        positions = tuple(delivery.position for delivery in deliveries)
        error = printable(deliveries[0].error, _EVENT_CHARACTERS_MAX)
        timed_out = state in ("parked", "dead") and deliveries[0].error.startswith(_TIMEOUTS)
        event = Changed(reader=deliveries[0].reader, positions=positions, state=state, error=error, timed_out=timed_out)
        await tx.append([envelopes.make(event, source="bus")])


async def find(view: Reads, reader: str, position: int) -> Delivery | None:
    """The delivery of one event to one reader, if it ever failed."""
    return next(iter(await view.deliveries_at(reader, [position])), None)


async def event_at(view: Reads, position: int) -> Envelope | None:
    """The event at *position*, unless it was compacted for a reader that has lapsed."""
    return next(iter(await view.events_at([position])), None)


def due(parked: Sequence[Delivery], detector: StallDetector, tick: float) -> list[Delivery]:
    """Those of *parked* whose pause is over, on the observer's own clock."""
    by_name = {f"{delivery.reader}@{delivery.position}": delivery for delivery in parked}
    observations = [Observation(name=name, counter=d.attempts, seconds=d.pause) for name, d in by_name.items()]
    return [by_name[observation.name] for observation in detector.stalled(observations, tick)]


async def _unsettled(view: Reads, reader: str, position: int) -> Delivery:
    """The delivery, if it is parked or dead.  Raises UnknownName, or InputError if it is settled.

    A caller that changes it calls this in the same transaction: a coordinator may settle it at any moment.
    """
    delivery = await find(view, reader, position)
    if delivery is None:
        raise UnknownName("delivery", f"{reader}@{position}")
    if delivery.state not in ("parked", "dead"):
        raise InputError(f"delivery {reader}@{position} is {delivery.state}")
    return delivery


async def discard(
    store: Store, envelopes: EnvelopeFactory, reader: str, position: int, reason: str, now: float
) -> None:
    """Discard one delivery for good, with a reason.  Raises UnknownName, InputError."""
    async with store.begin() as tx:
        delivery = await _unsettled(tx, reader, position)
        discarded = replace(delivery, state="discarded", pause=0.0, error=reason, last=now)
        await save(tx, envelopes, [(discarded, await event_at(tx, position))])


async def revive(store: Store, reader: str, position: int, now: float) -> None:
    """Make one delivery, also a dead one, due at once.  Raises UnknownName, InputError."""
    async with store.begin() as tx:
        await tx.put_deliveries([replace(await _unsettled(tx, reader, position), state="parked", pause=0.0, last=now)])


async def stats(store: Store) -> dict[str, int]:
    """The number of failed deliveries that are pending, recovered, abandoned and discarded."""
    async with store.read() as view:
        deliveries = await view.deliveries(tuple(STATES), _COUNTED_MAX)
    counts = Counter(STATES[delivery.state] for delivery in deliveries)
    return {name: counts[name] for name in STATES.values()}


async def replay(store: Store, reader: str, positions: Collection[int], now: float) -> int:
    """Deliver these events to *reader* once more; returns how many it had read and gets again.

    Each is parked as if its delivery had failed.  Unread events it gets anyway; parked ones stay parked; compacted ones
    are left out.  Raises UnknownName, or InputError for too many.
    """
    if len(positions) > _REPLAYED_MAX:
        raise InputError(f"{len(positions)} events are too many: one replay takes up to {_REPLAYED_MAX}, select fewer")
    async with store.begin() as tx:
        readers = await tx.positions()
        if reader not in readers:
            raise UnknownName("reader", reader, readers)
        failed = {delivery.position for delivery in await tx.deliveries(("parked", "dead"), _COUNTED_MAX, reader)}
        already_read = sorted({position for position in positions if position <= readers[reader]} - failed)
        replayed = Delivery(reader=reader, position=0, error="replayed by hand", first=now, last=now)
        deliveries = [replace(replayed, position=event.position) for event in await tx.events_at(already_read)]
        await tx.put_deliveries(deliveries)
    return len(deliveries)
