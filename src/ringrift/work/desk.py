"""Desk: hands out jobs under leases, and takes results only from who holds the newest one."""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from ringrift import jobs
from ringrift.bus import trace
from ringrift.bus.scribe import Scribe
from ringrift.events.base import Envelope, Event
from ringrift.events.work import Buried, Enqueued
from ringrift.jobs import Job
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import told
from ringrift.kernel.failpoint import failpoint
from ringrift.kernel.ids import Ids
from ringrift.kernel.value import Value
from ringrift.store.ports import Failure, Held, JobRow, Lease, Origin, Put, Store, Tx, Wanted
from ringrift.work import quarantine

ERROR_CHARACTERS_MAX = 2000
RETURNED_AT_ONCE_MAX = 1000
TOLD_AT_ONCE_MAX = 1000
"""Ids of new jobs in one event: they must fit into it."""


class Made(Value):
    """What came of a job: what is said, written down and linked in the transaction that ends it."""

    events: tuple[Event, ...] = ()
    records: tuple[Put, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    origins: tuple[Origin, ...] = ()
    """How it was made; the desk adds for which job and when."""


class Done(Value):
    """A lease that ends well."""

    held: Held
    made: Made = Made()
    context: str = ""
    """The story that the job belongs to, as its lease has it."""


class Fault(Value):
    """A lease that ends badly.  *retry* False: no further try can help; *blob* names the input at fault."""

    lease: Lease
    error: str
    retry: bool = True
    blob: str | None = None
    started: bool = True
    renewals: int | None = None


def pause_of(fault: Fault, backoff: Backoff) -> float | None:
    """Seconds until the job is ready again; None when it is to be buried."""
    if not fault.started:
        return 0.0
    return backoff.delay(fault.lease.attempts) if fault.retry else None


async def ask(
    tx: Tx, wanted: Sequence[Job], ids: Ids, now: float, *, scribe: Scribe, context: str = ""
) -> Sequence[str]:
    """Enqueue *wanted* in *tx* and say which are new; the id of each, or of the live job with the same key.

    What comes of them belongs to the story of *context*; without one each begins its own.  Raises InvalidWork.
    """
    asked = [
        Wanted(
            id=ids.next(), kind=job.kind(), variant=job.variant, key=job.key, body=jobs.encode(job), time=now,
            priority=job.priority, node=job.node, context=context,
        )
        for job in wanted
    ]  # fmt: skip
    alive = await tx.enqueue(asked)
    said = enqueued([one for one, id in zip(asked, alive, strict=True) if one.id == id])
    await tx.append([scribe.wrap(event, source="desk") for event in said])
    return alive


def enqueued(fresh: Sequence[Wanted]) -> list[Enqueued]:
    """What is said of jobs that are new: one event for each variant and kind, more only if one could not hold them."""
    groups: dict[tuple[str, str], list[str]] = {}
    for one in fresh:
        groups.setdefault((one.variant, one.kind), []).append(one.id)
    return [
        Enqueued(variant=variant, kind=kind, jobs=tuple(ids[first : first + TOLD_AT_ONCE_MAX]))
        for (variant, kind), ids in groups.items()
        for first in range(0, len(ids), TOLD_AT_ONCE_MAX)
    ]


class StoreDesk:
    """The four verbs of a worker, and the two of who looks after workers, over a store."""

    def __init__(
        self, store: Store, clock: Clock, ids: Ids, scribe: Scribe, node: str, *, lease_seconds: float, retry: Backoff
    ) -> None:
        self._store, self._clock, self._ids, self._scribe, self._node = store, clock, ids, scribe, node
        self._seconds, self._retry = lease_seconds, retry

    async def ask(self, wanted: Sequence[Job]) -> Sequence[str]:
        """Enqueue *wanted*."""
        async with self._store.begin() as tx:
            context = trace.written(trace.current())
            return await ask(tx, wanted, self._ids, self._clock.now(), scribe=self._scribe, context=context)

    async def claim(self, kinds: Collection[str], limit: int) -> Sequence[Lease]:
        """Lease up to *limit* ready jobs of *kinds*: by priority, oldest first, pinned ones only on their node.

        A quarantined node gets no games.
        """
        async with self._store.begin() as tx:
            kinds = await quarantine.allowed(tx, self._node, kinds)
            leases = await tx.claim(kinds, self._node, self._seconds, limit)
        if leases:
            failpoint("work.after_claim")
        return leases

    async def renew(self, held: Sequence[Held]) -> None:
        """Say that these are alive, with progress and partial outputs.  Raises LeaseLost; then none is renewed."""
        failpoint("work.before_renew")
        async with self._store.begin() as tx:
            await tx.renew(held)

    async def finish(self, results: Sequence[Done]) -> Sequence[Envelope]:
        """End leases and say what came of them, in one transaction.  Raises LeaseLost; then nothing happened."""
        failpoint("desk.before_finish")
        async with self._store.begin() as tx:
            await tx.finish([done.held for done in results])
            await tx.put([record for done in results for record in done.made.records])
            await tx.link([link for done in results for link in done.made.links])
            await tx.originate([
                msgspec.structs.replace(origin, job=done.held.job, time=self._clock.now())
                for done in results
                for origin in done.made.origins
            ])  # fmt: skip
            said = await tx.append([one for done in results for one in self._wrapped(done.made.events, done.context)])
        failpoint("desk.after_finish")
        return said

    async def fail(self, faults: Sequence[Fault]) -> Sequence[str]:
        """End leases without a result: ready again after a pause, or buried with an event.  The ids that were held."""
        async with self._store.begin() as tx:
            return await self.fail_in(tx, faults)

    async def fail_in(self, tx: Tx, faults: Sequence[Fault]) -> Sequence[str]:
        """Like :meth:`fail`, in the transaction of the caller."""
        plans = [(fault, pause_of(fault, self._retry)) for fault in faults]
        ended = set(
            await tx.fail([
                Failure(
                    job=fault.lease.job, fence=fault.lease.fence, error=told(fault.error, ERROR_CHARACTERS_MAX),
                    pause=pause, renewals=fault.renewals, started=fault.started,
                )
                for fault, pause in plans
            ])
        )  # fmt: skip
        buried = [fault for fault, pause in plans if pause is None and fault.lease.job in ended]
        await tx.append([one for fault in buried for one in self._wrapped([_buried(fault)], fault.lease.context)])
        return [fault.lease.job for fault, _ in plans if fault.lease.job in ended]

    def buries(self, fault: Fault) -> bool:
        """Whether a job that fails so is given up for good."""
        return pause_of(fault, self._retry) is None

    def _wrapped(self, events: Iterable[Event], context: str) -> list[Envelope]:
        """*events* as part of the story that their job was asked in."""
        with trace.within(trace.read(context)):
            return [self._scribe.wrap(event, source="desk") for event in events]

    async def take_back(self, tx: Tx, rows: Sequence[JobRow], error: str, *, started: bool = True) -> Sequence[str]:
        """End the leases of *rows*, unless they were renewed since *rows* were read."""
        faults = [Fault(lease=_lease(row), error=error, renewals=row.renewals, started=started) for row in rows]
        return await self.fail_in(tx, faults)

    async def take_back_own(self, error: str, *, started: bool) -> Sequence[str]:
        """End every lease of this node: an earlier life's on the way in, or what is left on the way out."""
        async with self._store.begin() as tx:
            rows = await tx.jobs(("claimed",), RETURNED_AT_ONCE_MAX, holder=self._node)
            return await self.take_back(tx, rows, error, started=started)


def _buried(fault: Fault) -> Buried:
    lease = fault.lease
    return Buried(
        variant=lease.variant, job=lease.job, kind=lease.kind, key=lease.key, attempts=lease.attempts, blob=fault.blob,
        error=told(fault.error, ERROR_CHARACTERS_MAX),
    )  # fmt: skip


def _lease(row: JobRow) -> Lease:
    assert row.holder is not None
    return Lease(
        job=row.id, kind=row.kind, variant=row.variant, key=row.key, body=row.body, holder=row.holder, fence=row.fence,
        renewals=row.renewals, seconds=row.seconds, attempts=row.attempts,
    )  # fmt: skip
