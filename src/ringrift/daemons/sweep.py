"""Cleans up: old events and jobs, free pages, abandoned parts of files, blobs that nothing needs, corrupt files."""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from ringrift.blobs.ports import Blobs, StoredBlob
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.events.catalog import EVENTS
from ringrift.events.data import Corrupted, Removed
from ringrift.kernel.clock import Clock
from ringrift.kernel.failpoint import failpoint
from ringrift.kernel.settings import Settings, SweepSettings
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline import retention
from ringrift.store.ports import Store, Tx
from ringrift.store.records import Records
from ringrift.supervision.spec import Daemon
from ringrift.sync import ledger
from ringrift.sync.orphans import ADOPTIONS
from ringrift.work.checkpoints import CHECKPOINTS
from ringrift.work.limits import VERDICTS

_COMPACTED_AT_ONCE = 2_000
_ARCHIVED_AT_ONCE = 500
_ROUNDS_MAX = 10_000
_PAGE = 200  #: Blobs that are looked at in one transaction.
_PAGES_MAX = 50  #: Pages in one sweep; the next one goes on there.
_DETAILS = tuple(event.name() for event in EVENTS if event.KEEP == "detail")
_PLACES = Records("sweep_place", str)  #: By node: the blob after which its next sweep goes on.
log = logging.getLogger(__name__)


async def sweep(*, store: Store, blobs: Blobs, envelopes: EnvelopeFactory, clock: Clock, settings: Settings) -> bool:
    """Sweep once, in small transactions so that no other waits long.  Files are gone through a part at a time.

    Whether it came to the last file; if not, the next sweep goes on there.
    """
    limits = settings.store
    await _drop_details(store, limits.detail_events_max)
    await _repeat(store, _COMPACTED_AT_ONCE, lambda tx, limit: tx.compact(limits.log_events_max, limit))
    await _repeat(store, _ARCHIVED_AT_ONCE, lambda tx, limit: tx.archive_jobs(limits.jobs_max, limit))
    files = _Files(store, blobs, envelopes, settings.sweep)
    await files.drop_parts(clock.now())
    async with store.read() as view:
        place = await _PLACES.get(view, envelopes.node) or ""
    for _ in range(_PAGES_MAX):
        page = await blobs.page(place, _PAGE)
        place = page[-1].blob if len(page) == _PAGE else ""
        removed = await files.remove(page, clock.now())
        await files.scrub([stored.blob for stored in page if stored.blob not in removed], place, clock.now())
        if not place:
            return True
    return False


class _Files:
    """Looks after the blobs of one node."""

    def __init__(self, store: Store, blobs: Blobs, envelopes: EnvelopeFactory, settings: SweepSettings) -> None:
        self._store, self._blobs, self._envelopes, self._settings = store, blobs, envelopes, settings
        self._node, self._removed, self._stays = envelopes.node, 0, Counter[str]()

    async def drop_parts(self, now: float) -> None:
        """Delete what unfinished writers left, and parts that nobody went on with for the time of grace."""
        await self._blobs.drop_parts(now - self._settings.grace_seconds)

    async def remove(self, page: Sequence[StoredBlob], now: float) -> set[str]:
        """Delete those of *page* that nothing needs, and return them: first the records, then the files.

        A crash in between leaves files that the ledger does not list; they are still unneeded at the next sweep.
        """
        before = now - min(self._settings.retention_seconds, self._settings.grace_seconds)
        async with self._store.read() as view:
            checkpoints = await CHECKPOINTS.get_many(view, [stored.blob for stored in page])
            old = [stored for stored in page if stored.time < before or stored.blob in checkpoints]
            rulings = await retention.rule(view, old, self._settings, now) if old else []
        unneeded = {ruling.blob for ruling in rulings if ruling.goes}
        self._stays.update(ruling.reason for ruling in rulings if not ruling.goes)
        if not unneeded:
            return unneeded
        async with self._store.begin() as tx:
            # Judged again where nothing can come between: a job or a line may have asked for it meanwhile.
            pairs = [stored for stored in old if stored.blob in unneeded]
            rulings = [row for row in await retention.rule(tx, pairs, self._settings, now) if row.goes]
            await ledger.remove(tx, {row.blob: row.reason for row in rulings}, self._node, now)
            await CHECKPOINTS.delete(tx, [row.blob for row in rulings if row.blob in checkpoints])
            await ADOPTIONS.delete(tx, [row.blob for row in rulings])
            size, names = sum(row.size for row in rulings), tuple(row.blob for row in rulings)
            event = Removed(node=self._node, blobs=names, count=len(names), bytes=size)
            await tx.append([self._envelopes.make(event, source="sweep")] if names else [])
        failpoint("sweep.before_delete")
        stored_again = await self._blobs.delete(names, max(before, now - retention.CHECKPOINT_SECONDS))
        if stored_again:
            async with self._store.begin() as tx:
                await tx.put([ledger.holding(blob, self._node) for blob in stored_again])
        self._removed += len(names) - len(stored_again)
        return set(names).difference(stored_again)

    async def scrub(self, blobs: Sequence[str], place: str, now: float) -> None:
        """Verify *blobs*, and record what this sweep has done and that the next one goes on after *place*."""
        corrupt = await self._blobs.verify(blobs)
        if corrupt:
            log.error("%d corrupt blobs were set aside: %s", len(corrupt), ", ".join(blob[:12] for blob in corrupt))
        async with self._store.begin() as tx:
            for blob in corrupt:
                await ledger.forget(tx, blob, [self._node])
            events = [Corrupted(blob=blob, node=self._node) for blob in corrupt]
            await tx.append([self._envelopes.make(event, source="sweep") for event in events])
            await _PLACES.put_at(tx, {self._node: place})
            rule = "; ".join(f"{count} old blobs stay: {reason}" for reason, count in self._stays.most_common(3))
            old = self._removed + self._stays.total()
            verdict = Verdict("retention", self._removed > 0 or not old, rule, self._removed, old, now)
            await VERDICTS.put_at(tx, {f"retention:{self._node}": verdict})


async def _drop_details(store: Store, keep: int) -> None:
    async with store.read() as view:
        oldest = await view.read(0, 1)
    end = store.position - keep
    for first in range(oldest[0].position if oldest else end, end, _COMPACTED_AT_ONCE):
        async with store.begin() as tx:
            await tx.compact(keep, _COMPACTED_AT_ONCE, _DETAILS, (first, first + _COMPACTED_AT_ONCE - 1))


async def _repeat(store: Store, limit: int, act: Callable[[Tx, int], Awaitable[int]]) -> None:
    for _ in range(_ROUNDS_MAX):
        async with store.begin() as tx:
            if await act(tx, limit) < limit:
                break


_SECONDS = "sweep.every_seconds"
SPEC = Daemon(name="sweep", run=sweep, every=_SECONDS, after=("beat",), seconds_max=600.0, category="resources")
