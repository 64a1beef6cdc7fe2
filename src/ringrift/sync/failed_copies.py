"""Failed copies: each is a row until its target has the file; it is tried four times more, then an alert is raised."""

from collections.abc import Collection, Iterable

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.events.alert import Cleared, Raised
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.stall_detector import Observation
from ringrift.kernel.value import Value, changed
from ringrift.store.ports import Tx
from ringrift.store.records import Records

_RETRIES = Backoff(first_seconds=30.0, seconds_max=240.0, tries=5)  #: After 30, 60, 120 and 240 s.
_ALERT = "copy_failed"  #: The kind of the alert.
_ROWS_MAX = 1000  #: Beyond it the oldest of those that were given up are deleted.
_OBSERVED = "copy:"


class FailedCopy(Value):
    """A file that could not be brought to *target*."""

    blob: str
    target: str
    kind: str
    variant: str
    error: str
    failures: int = 1  #: Tries so far.
    since: float = 0.0  #: When the first one failed.
    given_up: bool = False

    @property
    def id(self) -> str:
        return f"{self.blob}@{self.target}"


FAILED = Records("failed_copy", FailedCopy, id="id", index=("target",))


async def record_failure(tx: Tx, failure: FailedCopy) -> None:
    """Write *failure*, counted on top of earlier ones."""
    before = await FAILED.get(tx, failure.id)
    if before is not None:
        failure = changed(failure, failures=before.failures + 1, since=before.since, given_up=before.given_up)
    await FAILED.put(tx, [failure])


async def record_arrival(tx: Tx, blob: str, target: str, envelopes: EnvelopeFactory) -> None:
    """*target* has *blob*: what failed before is over, and so is its alert."""
    row = await FAILED.get(tx, f"{blob}@{target}")
    if row is not None:
        await delete_failures(tx, [row], envelopes)


async def delete_failures(tx: Tx, rows: Iterable[FailedCopy], envelopes: EnvelopeFactory) -> None:
    """Delete *rows*, and close the alert about each node for which nothing was given up any more."""
    rows = list(rows)
    await FAILED.delete(tx, [row.id for row in rows])
    for target in sorted({row.target for row in rows if row.given_up}):
        if not any(row.given_up for row in (await FAILED.find(tx, "target", target)).values()):
            await tx.append([envelopes.make(Cleared(kind=_ALERT, subject=target), source="transfer")])


async def give_up(tx: Tx, rows: Iterable[FailedCopy], envelopes: EnvelopeFactory) -> None:
    """Raise an alert about the target of each of *rows*: they are not tried again by themselves."""
    by_target = dict[str, list[FailedCopy]]()
    for row in rows:
        by_target.setdefault(row.target, []).append(row)
    for target, group in by_target.items():
        last = group[-1]
        detail = f"{len(group)} not copied, e.g. {last.kind} {last.blob[:12]}, {last.failures} tries: {last.error}"
        event = Raised(kind=_ALERT, subject=target, level="warning", detail=detail)
        await FAILED.put(tx, [changed(row, given_up=True) for row in group])
        await tx.append([envelopes.make(event, source="transfer")])


def is_spent(row: FailedCopy) -> bool:
    """Whether no try of *row* is left."""
    return _RETRIES.delay(row.failures) is None


def observe(rows: Iterable[FailedCopy]) -> list[Observation]:
    """Those of *rows* that are tried again, each after its pause since the last try on the observer's clock."""
    pauses = [(row, _RETRIES.delay(row.failures)) for row in rows if not row.given_up]
    return [Observation(f"{_OBSERVED}{row.id}", row.failures, pause) for row, pause in pauses if pause is not None]


def barred_targets(rows: Iterable[FailedCopy]) -> dict[str, set[str]]:
    """By blob, the nodes that a plan leaves out: their copies are tried again from here, or not at all."""
    barred = dict[str, set[str]]()
    for row in rows:
        barred.setdefault(row.blob, set()).add(row.target)
    return barred


def find_due(rows: Iterable[FailedCopy], stalled: Collection[str]) -> list[FailedCopy]:
    """Those of *rows* whose pause is over, by the names of *stalled* observations."""
    return [row for row in rows if f"{_OBSERVED}{row.id}" in stalled]


def find_excess(rows: Iterable[FailedCopy]) -> list[FailedCopy]:
    """The oldest of those that were given up, where there are too many rows."""
    by_age = sorted(rows, key=lambda row: row.since)
    return [row for row in by_age if row.given_up][: max(len(by_age) - _ROWS_MAX, 0)]
