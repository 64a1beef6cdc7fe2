"""Letters: what becomes of a delivery that failed, written down and told in one transaction.

A dead letter is a state of a delivery and not another place: *parked* until its pause is over, *dead* after the last
try, *done* when a later try succeeded, *discarded* by hand or on the reader's own request.
"""

import traceback
from collections.abc import Sequence

from ringrift.bus.scribe import Scribe
from ringrift.events.base import Envelope
from ringrift.events.letter import Changed
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.errors import Discard, LoopDetected, Retry, told
from ringrift.store.ports import Delivery, Reads, Tx

ERROR_CHARACTERS_MAX = 2000
TOLD_CHARACTERS_MAX = 300


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
        case LoopDetected():
            state, pause = "dead", None  # the same event would go round again
        case Retry() if pause is not None:
            pause = wrong.after
    text = told("".join(traceback.format_exception_only(wrong)).strip(), ERROR_CHARACTERS_MAX)
    return Delivery(
        reader=reader, position=position, state=state, attempts=attempts, pause=pause or 0.0, error=text,
        first=before.first if before else now, last=now,
    )  # fmt: skip


def recovered(letter: Delivery, now: float) -> Delivery:
    """*letter* after a try that succeeded."""
    return Delivery(
        reader=letter.reader, position=letter.position, state="done", attempts=letter.attempts + 1, pause=0.0, error="",
        first=letter.first, last=now,
    )  # fmt: skip


async def settle(tx: Tx, scribe: Scribe, letters: Sequence[tuple[Delivery, Envelope | None]]) -> None:
    """Write down these letters of one reader in their new state, and say so: one event for each state.

    Of a delivery of that very event nothing is said, or a reader that fails on it would never hear the end of it.
    """
    await tx.park([letter for letter, _ in letters])
    by_state: dict[str, list[Delivery]] = {}
    for letter, envelope in letters:
        if envelope is None or envelope.name != Changed.name():
            by_state.setdefault(letter.state, []).append(letter)
    await tx.append([
        scribe.wrap(
            Changed(
                reader=found[0].reader, positions=tuple(one.position for one in found), state=state,
                error=told(found[0].error, TOLD_CHARACTERS_MAX),
            ),
            source="bus",
        )
        for state, found in by_state.items()
    ])  # fmt: skip


async def find(view: Reads, reader: str, position: int) -> Delivery | None:
    """The delivery of one event to one reader, if it ever went wrong."""
    found = await view.deliveries_at(reader, [position])
    return found[0] if found else None


async def event_at(view: Reads, position: int) -> Envelope | None:
    """The event at *position*.  Compaction keeps what is parked, but not for a reader that has lapsed."""
    found = await view.at([position])
    return found[0] if found else None
