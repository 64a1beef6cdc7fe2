"""History: what was said lately, and saying it again to a function or to a durable reader.

Replaying into a reader is a matter of its deliveries: each event is parked for it as if it had failed, so that the next
look of whoever serves it tries exactly these, and the counts of letters tell how far that has come.
"""

from collections.abc import AsyncIterator, Callable, Collection

from ringrift.events.base import Envelope
from ringrift.kernel.errors import InputError, UnknownName
from ringrift.store.ports import Delivery, Reads, Store

READ_AT_ONCE = 500
LETTERS_MAX = 100_000
REPLAYED_MAX = 10_000
"""Events that one replay may put before a reader."""
REPLAYED = "replayed by hand"


async def recent(
    store: Store, limit: int, names: Collection[str] = (), fits: Callable[[Envelope], bool] = lambda _: True
) -> list[Envelope]:
    """The last *limit* events that fit, of these *names* or of all, oldest first."""
    found: list[Envelope] = []
    before: int | None = None
    while len(found) < limit:
        async with store.read() as view:
            page = await view.last(before, max(limit, READ_AT_ONCE), names)
        if not page:
            break
        found = [*(one for one in page if fits(one)), *found]
        before = page[0].position
    return found[-limit:]


async def start_of(view: Reads, after: int | None, since: float | None) -> int:
    """The position that a replay starts behind: as given, before a moment, or the beginning."""
    if after is not None:
        return after
    return 0 if since is None else await view.before(since)


async def past(
    store: Store, *, after: int | None = None, since: float | None = None, names: Collection[str] = (),
    until: int | None = None,
) -> AsyncIterator[Envelope]:  # fmt: skip
    """Events from a position or a moment on, up to *until* or what is newest now."""
    end = store.position if until is None else until
    async with store.read() as view:
        place = await start_of(view, after, since)
    while place < end:
        async with store.read() as view:
            envelopes = await view.read(place, READ_AT_ONCE, names)
        if not envelopes:
            return
        for envelope in envelopes:
            place = envelope.position
            if place > end:
                return
            yield envelope


async def replay(store: Store, reader: str, positions: Collection[int], now: float) -> int:
    """Put these events before *reader* once more; how many it had taken already and will get again.

    Those it has not come to yet it gets anyway, those that are parked already stay so, and what the log has dropped
    cannot be had again.  Raises UnknownName, or InputError for too many.
    """
    if len(positions) > REPLAYED_MAX:
        raise InputError(f"{len(positions)} events: one replay takes up to {REPLAYED_MAX}, ask for fewer")
    async with store.begin() as tx:
        places = await tx.places()
        if reader not in places:
            raise UnknownName("reader", reader, places)
        waiting = {one.position for one in await tx.deliveries(("parked", "dead"), LETTERS_MAX, reader)}
        taken = sorted({one for one in positions if one <= places[reader]} - waiting)
        again = [envelope.position for envelope in await tx.at(taken)]
        await tx.park([
            Delivery(
                reader=reader, position=position, state="parked", attempts=0, pause=0.0, error=REPLAYED, first=now,
                last=now,
            )
            for position in again
        ])  # fmt: skip
    return len(again)
