"""The game ledger: what has become of every slot of self-play, so that no game is left behind unnoticed.

A slot is the batch of games that one Play job asks for.  It waits, it runs, or it has ended: *ingested* (its games came
in), *repeated* (they had come in before, by another way), or declared *lost* with a reason and its cost in games.  An
attempt that ends without games while the slot lives on is a *rerun*.  The transactions that change its jobs write the
sums of a line.  The store counts jobs by state on its own: :func:`find_imbalance` says where both do not agree.
"""

from collections.abc import Iterable, Mapping, Sequence

from ringrift.events.base import Event
from ringrift.events.selfplay import BatchFinished
from ringrift.jobs import Job, JobQuery, Play
from ringrift.kernel.value import Value, changed
from ringrift.store.ports import STATES, Lease, Reads, Tx
from ringrift.store.records import Records
from ringrift.work.durations import JobRun

_EMPTY = "done without games"  #: The reason of a slot whose job was done and brought none.
CANCELLED = "cancelled"  #: That of one that nothing needed any more, or that a person took back.
_REASONS_MAX, _OTHER = 32, "other"  # reasons that are told apart; further ones share a place


class Amount(Value):
    """So many slots with so many games."""

    slots: int = 0
    games: int = 0

    def plus(self, slots: int, games: int) -> "Amount":
        """The sum."""
        return Amount(slots=self.slots + slots, games=self.games + games)


class SlotChange(Value):
    """One slot of *variant* more in one place of its account, with so many *games*."""

    variant: str
    place: str  #: The name of a field of :class:`GameAccount`.
    games: int
    reason: str = ""  #: For *lost* and *reruns*.


class GameAccount(Value):
    """The sums of one line."""

    variant: str
    since: float = 0.0  #: When it was begun; slots that had ended by then are only counted, below.
    done_before: int = 0
    lost_before: int = 0
    enqueued: Amount = Amount()  #: Every slot there ever was.
    ingested: Amount = Amount()  #: With the games that came in, which may be fewer than were asked for.
    repeated: Amount = Amount()
    lost: dict[str, Amount] = {}  #: By reason.
    reruns: dict[str, Amount] = {}  #: By cause: attempts, and the games that they were to play.
    islands: Amount = Amount()  #: Those of *ingested* that were played without a lease.
    imported: Amount = Amount()  #: Batches from elsewhere, beside the slots.

    def total(self, place: str) -> Amount:
        """The sum over all reasons of *lost* or *reruns*."""
        rows = getattr(self, place).values()
        return Amount(slots=sum(row.slots for row in rows), games=sum(row.games for row in rows))


ACCOUNTS = Records("game_account", GameAccount, id="variant", limit=1000)


def _apply(account: GameAccount, change: SlotChange) -> GameAccount:
    """*account* after *change*."""
    before = getattr(account, change.place)
    if isinstance(before, Amount):
        return changed(account, **{change.place: before.plus(1, change.games)})
    rows = dict(before)
    reason = change.reason if change.reason in rows or len(rows) < _REASONS_MAX else _OTHER
    rows[reason] = rows.get(reason, Amount()).plus(1, change.games)
    return changed(account, **{change.place: rows})


def find_imbalance(account: GameAccount, counts: Mapping[str, int]) -> str:
    """What does not add up between *account* and the Play jobs of its line, counted by state; empty if all does."""
    empty = account.lost.get(_EMPTY, Amount()).slots
    own = {
        "in all": account.enqueued.slots,
        "done": account.done_before + account.ingested.slots + account.repeated.slots + empty,
        "given up": account.lost_before + account.total("lost").slots - empty,
    }
    stored = {"in all": sum(counts.get(state, 0) for state in STATES), "done": counts.get("done", 0)}
    stored["given up"] = counts.get("dead", 0) + counts.get("cancelled", 0)
    return "; ".join(f"{name}: {own[name]} slots, {stored[name]} jobs" for name in own if own[name] != stored[name])


async def read_counts(view: Reads, variant: str) -> dict[str, int]:
    """The Play jobs of *variant* by state, as the store counts them."""
    return {state: count for (kind, state), count in (await view.count_jobs(variant)).items() if kind == Play.kind()}


async def find_imbalances(view: Reads) -> dict[str, str]:
    """By variant what does not add up, of every line that has an account."""
    texts = {v: find_imbalance(row, await read_counts(view, v)) for v, row in (await ACCOUNTS.scan(view)).items()}
    return {variant: text for variant, text in texts.items() if text}


async def record(tx: Tx, changes: Sequence[SlotChange], now: float) -> None:
    """Write *changes*, which have happened to the jobs in *tx* already."""
    by_variant: dict[str, list[SlotChange]] = {}
    for change in changes:
        by_variant.setdefault(change.variant, []).append(change)
    accounts = await ACCOUNTS.get_many(tx, list(by_variant)) if by_variant else {}
    for variant, rows in by_variant.items():
        account = accounts.get(variant)
        if account is None:
            account = _begin(variant, await read_counts(tx, variant), rows, now)
        for change in rows:
            account = _apply(account, change)
        await ACCOUNTS.put(tx, [account])


def _begin(variant: str, counts: Mapping[str, int], changes: Iterable[SlotChange], now: float) -> GameAccount:
    """The account of *variant* before *changes*, which *counts* contain: a store may be older than its ledger."""
    places = [_EMPTY if change.reason == _EMPTY else change.place for change in changes]
    done = counts.get("done", 0) - sum(place in ("ingested", "repeated", _EMPTY) for place in places)
    lost = counts.get("dead", 0) + counts.get("cancelled", 0) - places.count("lost")
    enqueued = sum(counts.get(state, 0) for state in STATES) - places.count("enqueued")
    account = GameAccount(variant=variant, since=now, done_before=done, lost_before=lost)
    return changed(account, enqueued=Amount(slots=enqueued))


def slot_changes(place: str, rows: Iterable[tuple[str, str, Job | None]], reason: str = "") -> list[SlotChange]:
    """A change to *place* for each of *rows* that is self-play: kind, variant, and the job if it can be read."""
    plays = [(variant, getattr(job, "games", 0)) for kind, variant, job in rows if kind == Play.kind()]
    return [SlotChange(variant=variant, place=place, games=games, reason=reason) for variant, games in plays]


_End = tuple[Lease, Job | None, str, float | None]


def end_changes(ends: Iterable[_End]) -> list[SlotChange]:
    """The changes by leases that ended without a result: lease, job, cause, and the pause until it is tried again.

    Without a pause the job was given up.
    """
    changes = list[SlotChange]()
    for lease, job, cause, pause in ends:
        changes += slot_changes("lost" if pause is None else "reruns", [(lease.kind, lease.variant, job)], cause)
    return changes


async def find_line(view: Reads, job: str, run: JobRun | None) -> tuple[str, str]:
    """Kind and variant of *job*, from how it went, or the row of the job itself."""
    if run is not None:
        return run.kind, run.variant
    [row] = await view.list_jobs(JobQuery(begins=job), 1)
    return row.kind, row.variant


def result_changes(kind: str, variant: str, events: Iterable[tuple[Event, Event | None]]) -> list[SlotChange]:
    """The changes by the result of a job of *kind*: its *events*, each with what was published for it."""
    batches = [(event, event is published) for event, published in events if isinstance(event, BatchFinished)]
    if kind != Play.kind():
        new = [batch for batch, is_new in batches if is_new]
        return [SlotChange(variant=batch.variant, place="imported", games=batch.games) for batch in new]
    if not batches:
        return [SlotChange(variant=variant, place="lost", games=0, reason=_EMPTY)]
    batch, is_new = batches[0]
    change = SlotChange(variant=batch.variant, place="ingested" if is_new else "repeated", games=batch.games)
    return [change, changed(change, place="islands")] if is_new and batch.island else [change]
