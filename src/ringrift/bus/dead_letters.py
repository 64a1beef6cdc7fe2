"""Dead letters: deliveries that went wrong, when they are tried again, and what a person may do with them."""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from ringrift.bus import letters
from ringrift.bus.delivery import Courier, Reader
from ringrift.bus.scribe import Scribe
from ringrift.kernel.errors import InputError, UnknownName
from ringrift.kernel.watch import Seen, Watch
from ringrift.store.ports import Delivery, Reads, Store

STATES = {"parked": "pending", "done": "recovered", "dead": "abandoned", "discarded": "discarded"}
COUNTED_MAX = 1_000_000
WATCHED_MAX = 10_000
TRIED_AT_ONCE_MAX = 1_000
TRIED_TOGETHER_MAX = 100
"""Letters that are tried in one transaction."""


def due(parked: Sequence[Delivery], watch: Watch, tick: float) -> list[Delivery]:
    """Those of *parked* whose pause is over, on the observer's own clock."""
    by_name = {f"{one.reader}@{one.position}": one for one in parked}
    things = [Seen(name=name, mark=one.attempts, seconds=one.pause) for name, one in by_name.items()]
    return [by_name[thing.name] for thing in watch.overdue(things, tick)]


async def retry(
    store: Store, courier: Courier, readers: Mapping[str, Reader], watch: Watch, tick: float
) -> Counter[str]:
    """Try what is due once more; how many are now in which state.  Only the reader that failed runs again."""
    parked: list[Delivery] = []
    async with store.read() as view:
        for reader in readers:  # one by one: letters of a reader that is gone must not stand before the others'
            parked += await view.deliveries(("parked",), WATCHED_MAX, reader)
    ready: dict[str, list[Delivery]] = {}
    for letter in due(parked, watch, tick)[:TRIED_AT_ONCE_MAX]:
        ready.setdefault(letter.reader, []).append(letter)
    states: Counter[str] = Counter()
    for name, waiting in ready.items():
        for start in range(0, len(waiting), TRIED_TOGETHER_MAX):
            tried = await courier.again(readers[name], waiting[start : start + TRIED_TOGETHER_MAX])
            states.update(one.state for one in tried)
    return states


async def replay(store: Store, courier: Courier, reader: Reader, position: int) -> Delivery:
    """Try one dead or parked delivery now, by hand.  Raises UnknownName, or InputError if it is settled."""
    async with store.read() as view:
        letter = await _unsettled(view, reader.name, position)
    [tried] = await courier.again(reader, [letter])
    return tried


async def discard(store: Store, scribe: Scribe, reader: str, position: int, reason: str, now: float) -> None:
    """Give one delivery up for good, by hand, with a reason.  Raises UnknownName, InputError."""
    async with store.begin() as tx:
        old = await _unsettled(tx, reader, position)
        new = msgspec.structs.replace(old, state="discarded", pause=0.0, error=reason, last=now)
        await letters.settle(tx, scribe, [(new, await letters.event_at(tx, position))])


async def revive(store: Store, reader: str, position: int, now: float) -> None:
    """Let the coordinator try one delivery again at its next look, also a dead one.  Raises UnknownName, InputError."""
    async with store.begin() as tx:
        old = await _unsettled(tx, reader, position)
        await tx.park([msgspec.structs.replace(old, state="parked", pause=0.0, last=now)])


async def stats(store: Store) -> dict[str, int]:
    """How many letters wait for another try, were recovered, were abandoned after their last, were given up by hand."""
    async with store.read() as view:
        found = await view.deliveries(tuple(STATES), COUNTED_MAX)
    counts = Counter(STATES[one.state] for one in found)
    return {name: counts[name] for name in STATES.values()}


async def _unsettled(view: Reads, reader: str, position: int) -> Delivery:
    """The delivery, if it may still change.  Whoever changes it asks in the transaction that does: a coordinator may
    settle it at any moment, and what is done must never be done again."""
    one = await letters.find(view, reader, position)
    if one is None:
        raise UnknownName("delivery", f"{reader}@{position}")
    if one.state not in ("parked", "dead"):
        raise InputError(f"delivery {reader}@{position} is {one.state}")
    return one
