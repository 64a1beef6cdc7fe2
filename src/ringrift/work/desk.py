"""The desk: hands out jobs under leases and accepts a result only under the newest lease."""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from ringrift import jobs
from ringrift.bus import trace
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.events.base import Envelope, Event
from ringrift.events.work import Buried, Enqueued
from ringrift.jobs import Job, JobFilter, Match
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import InvalidPayload, UnknownName, printable
from ringrift.kernel.failpoint import failpoint
from ringrift.kernel.settings import WorkSettings
from ringrift.kernel.value import Value
from ringrift.store.ports import Failure, JobRequest, JobRow, Lease, Origin, Put, Reads, Renewal, Store, Tx
from ringrift.work.limits import allowed_kinds

ERROR_CHARACTERS_MAX = 2000
REVOKED_AT_ONCE_MAX = 1000
_LIVE = ("ready", "claimed")
"""The states of a job that has not ended."""
_JOBS_MAX = 100_000
_IDS_PER_EVENT_MAX = 1000
"""Ids of new jobs in one event: they must fit into it."""


class JobOutcome(Value):
    """The result of a job: events, records and links that are written in the transaction that ends it."""

    events: tuple[Event, ...] = ()
    records: tuple[Put, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    origins: tuple[Origin, ...] = ()
    """How each blob was made; the desk adds the job and the time."""


class Done(Value):
    """A lease that ends with a result."""

    lease: Renewal
    outcome: JobOutcome = JobOutcome()
    context: str = ""
    """The trace that the job belongs to, from its lease."""


class Fault(Value):
    """A lease that ends without a result.  *retry* False: no other try can help; *blob* names the input at fault."""

    lease: Lease
    error: str
    retry: bool = True
    blob: str | None = None
    started: bool = True
    renewals: int | None = None


def _retry_pause(fault: Fault, backoff: Backoff) -> float | None:
    """Seconds until the job is ready again; None if it is given up."""
    if not fault.started:
        return 0.0
    return backoff.delay(fault.lease.attempts) if fault.retry else None


async def enqueue(
    tx: Tx, new_jobs: Sequence[Job], envelopes: EnvelopeFactory, now: float, context: str = ""
) -> Sequence[str]:
    """Enqueue *new_jobs* in *tx*, publish which are new, and return the ids, for a live key that of the live job.

    Their results belong to the trace *context*; without one each begins its own.  Raises InvalidWork.
    """
    rows = [_new_job(job, envelopes.ids.next(), now, context) for job in new_jobs]
    live_ids = await tx.enqueue(rows)
    events = _enqueued_events([row for row, id in zip(rows, live_ids, strict=True) if row.id == id])
    await tx.append([envelopes.make(event, source="desk") for event in events])
    return live_ids


def _new_job(job: Job, id: str, now: float, context: str) -> JobRequest:
    row = JobRequest(id=id, kind=job.kind(), variant=job.variant, key=job.key, body=jobs.encode(job), time=now)
    return msgspec.structs.replace(row, priority=job.priority, node=job.node, context=context)


async def select(view: Reads, job_filter: JobFilter, states: Collection[str] = _LIVE) -> list[JobRow]:
    """The jobs in these *states* that *job_filter* selects, oldest first."""
    rows = await view.jobs(states, _JOBS_MAX, variant=job_filter.variant or None)
    return [row for row in rows if (job := _decode(row)) is not None and job_filter.matches(job)]


async def cancel(tx: Tx, job_filter: JobFilter) -> int:
    """Cancel the live jobs that *job_filter* selects and return their number; holders lose their leases."""
    return await tx.cancel([row.id for row in await select(tx, job_filter)])


def _enqueued_events(rows: Sequence[JobRequest]) -> list[Enqueued]:
    """One event for each variant and kind of these new jobs, more only if one could not hold them."""
    groups: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        groups.setdefault((row.variant, row.kind), []).append(row.id)
    return [
        Enqueued(variant=variant, kind=kind, jobs=tuple(ids[first : first + _IDS_PER_EVENT_MAX]))
        for (variant, kind), ids in groups.items()
        for first in range(0, len(ids), _IDS_PER_EVENT_MAX)
    ]


class StoreDesk:
    """Claim, renew, finish and fail for the workers of one node; revoke for daemons that watch leases."""

    def __init__(self, store: Store, clock: Clock, envelopes: EnvelopeFactory, settings: WorkSettings) -> None:
        self._store, self._clock, self._envelopes, self._node = store, clock, envelopes, envelopes.node
        self._lease_seconds, self._retry = settings.lease_seconds, settings.retry

    async def enqueue(self, new_jobs: Sequence[Job]) -> Sequence[str]:
        """Enqueue *new_jobs* in a transaction of its own; see :func:`enqueue`."""
        async with self._store.begin() as tx:
            context = trace.to_text(trace.current())
            return await enqueue(tx, new_jobs, self._envelopes, self._clock.now(), context)

    async def claim(self, kinds: Collection[str], limit: int) -> Sequence[Lease]:
        """Lease up to *limit* ready jobs of *kinds*: by priority, oldest first, pinned ones only on their node.

        A quarantined node gets no games.
        """
        async with self._store.begin() as tx:
            kinds = await allowed_kinds(tx, self._node, kinds)
            leases = await tx.claim(kinds, self._node, self._lease_seconds, limit)
        if leases:
            failpoint("work.after_claim")
        return leases

    async def renew(self, renewals: Sequence[Renewal]) -> None:
        """Renew leases, with progress and partial outputs.  Raises LeaseLost, and then none is renewed."""
        failpoint("work.before_renew")
        async with self._store.begin() as tx:
            await tx.renew(renewals)

    async def finish(self, results: Sequence[Done]) -> Sequence[Envelope]:
        """End leases and publish their outcomes, in one transaction.  Raises LeaseLost, and then nothing happened."""
        failpoint("desk.before_finish")
        async with self._store.begin() as tx:
            await tx.finish([done.lease for done in results])
            await tx.put([record for done in results for record in done.outcome.records])
            await tx.link([link for done in results for link in done.outcome.links])
            await tx.put_origins([origin for done in results for origin in self._origins(done)])
            envelopes = [self._envelope(event, done.context) for done in results for event in done.outcome.events]
            published = await tx.append(envelopes)
        failpoint("desk.after_finish")
        return published

    def _origins(self, done: Done) -> list[Origin]:
        now = self._clock.now()
        return [msgspec.structs.replace(origin, job=done.lease.job, time=now) for origin in done.outcome.origins]

    def _envelope(self, event: Event, context: str) -> Envelope:
        with trace.within(trace.from_text(context)):
            return self._envelopes.make(event, source="desk")

    async def fail(self, faults: Sequence[Fault]) -> Sequence[str]:
        """End leases without a result and return the ids of those that were still held.

        Each job is ready again after a pause, or given up with an event.
        """
        async with self._store.begin() as tx:
            return await self._fail(tx, faults)

    async def _fail(self, tx: Tx, faults: Sequence[Fault]) -> Sequence[str]:
        pauses = [_retry_pause(fault, self._retry) for fault in faults]
        ended = set(await tx.fail([_failure(*row) for row in zip(faults, pauses, strict=True)]))
        ended_leases = [(fault, pause) for fault, pause in zip(faults, pauses, strict=True) if fault.lease.job in ended]
        buried = [fault for fault, pause in ended_leases if pause is None]
        await tx.append([self._envelope(_buried(fault), fault.lease.context) for fault in buried])
        return [fault.lease.job for fault, _ in ended_leases]

    def is_final(self, fault: Fault) -> bool:
        """Whether a job that fails so is given up for good."""
        return _retry_pause(fault, self._retry) is None

    async def revoke(self, tx: Tx, rows: Sequence[JobRow], error: str, *, started: bool = True) -> Sequence[str]:
        """End the leases of *rows*, unless they were renewed since *rows* were read."""
        faults = [Fault(lease=_lease(row), error=error, renewals=row.renewals, started=started) for row in rows]
        return await self._fail(tx, faults)

    async def revoke_own(self, error: str, *, started: bool) -> Sequence[str]:
        """End every lease of this node: those of an earlier process at the start, the rest at the end."""
        async with self._store.begin() as tx:
            rows = await tx.jobs(("claimed",), REVOKED_AT_ONCE_MAX, holder=self._node)
            return await self.revoke(tx, rows, error, started=started)


def _failure(fault: Fault, pause: float | None) -> Failure:
    error = printable(fault.error, ERROR_CHARACTERS_MAX)
    failure = Failure(job=fault.lease.job, fence=fault.lease.fence, error=error, pause=pause)
    return msgspec.structs.replace(failure, renewals=fault.renewals, started=fault.started)


def _buried(fault: Fault) -> Buried:
    lease, job = fault.lease, _decode(fault.lease)
    facts: dict[str, Any] = {name: getattr(lease, name) for name in ("variant", "job", "kind", "key", "attempts")}
    if isinstance(job, Match):
        facts |= {"purpose": job.purpose, "candidate": job.candidate}
    target, error = (job.node if job else None) or "", printable(fault.error, ERROR_CHARACTERS_MAX)
    return Buried(target=target, error=error, blob=fault.blob, **facts)


def _decode(row: JobRow | Lease) -> Job | None:
    """The job of *row*; None if this version cannot read it."""
    try:
        return jobs.decode(row.kind, row.body)
    except (InvalidPayload, UnknownName):
        return None


def _lease(row: JobRow) -> Lease:
    assert row.holder is not None
    names = ("kind", "variant", "key", "body", "holder", "fence", "renewals", "seconds", "attempts")
    return Lease(job=row.id, **{name: getattr(row, name) for name in names})
