"""The desk: hands out jobs under leases and accepts a result only under the newest lease."""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from ringrift import jobs
from ringrift.bus import trace
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.events.base import Envelope, Event
from ringrift.events.work import Buried, Cancelled, Enqueued
from ringrift.jobs import Job, JobFilter, Match
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import InputError, printable
from ringrift.kernel.failpoint import failpoint
from ringrift.kernel.settings import WorkSettings
from ringrift.kernel.stall_detector import StallDetector
from ringrift.kernel.value import Value, changed
from ringrift.kernel.verdict import Verdict
from ringrift.store.ports import LIVE_STATES, Failure, JobRequest, JobRow, Lease, Origin, Put, Reads, Renewal, Store, Tx
from ringrift.work import claims, game_ledger
from ringrift.work.breakers import NODE_CAUSES, JobEnd, record_ends
from ringrift.work.checkpoints import CHECKPOINTS, decode_checkpoints
from ringrift.work.counted_once import count_once, find_counted, lease_ingested
from ringrift.work.durations import JobRun, lengthen, record_runs
from ringrift.work.failures import TRACEBACK_CHARACTERS_MAX, JobFailure, record_failures
from ringrift.work.game_ledger import CANCELLED, SlotChange, end_changes, find_line, result_changes, slot_changes
from ringrift.work.limits import LINE_WORK, VERDICTS, LineWork
from ringrift.work.run_states import RunStates, load_run_states
from ringrift.work.tries import TRIES, JobTries, able_nodes, can_refuse, retry_pause, save_tries, spent_jobs

_ERROR_CHARACTERS_MAX = 2000
REVOKED_AT_ONCE_MAX = 1000
_AWAY_PAUSES = 10  # first pauses of a retry that a job waits for a disk that is away, or a store that is busy
_UNREADABLE = "unreadable"  # the cause of a refusal of files that another workload or version has made
_JOBS_MAX = 100_000
_IDS_PER_EVENT_MAX = 1000  # ids of new jobs in one event: they must fit into it
FindMissing = Callable[[str], Awaitable[str]] | None  # by the name of a workload why it cannot run; empty if it can


class JobOutcome(Value):
    """The result of a job: events, records and links that are written in the transaction that ends it."""

    events: tuple[Event, ...] = ()
    records: tuple[Put, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    origins: tuple[Origin, ...] = ()  # how each blob was made; the desk adds the job and the time


class Done(Value):
    """A lease that ends with a result."""

    lease: Renewal
    outcome: JobOutcome = JobOutcome()
    context: str = ""  # the trace that the job belongs to, from its lease
    run: JobRun | None = None  # how it went; without it no breaker counts its success, and nothing is measured


class Fault(Value):
    """A lease that ends without a result.  *retry* False: no other try can help; *blob* names the input at fault."""

    lease: Lease
    error: str
    retry: bool = True
    blob: str | None = None
    started: bool = True
    renewals: int | None = None
    cause: str = "error"  # what kind of end it was: see :class:`ringrift.events.work.Failed`
    traceback: str = ""
    version: str = ""  # that of the workload, if it refused the job

    def printable(self) -> "Fault":
        """The same with texts that can be stored."""
        traceback = printable(self.traceback[-TRACEBACK_CHARACTERS_MAX:], TRACEBACK_CHARACTERS_MAX)
        return changed(self, error=printable(self.error, _ERROR_CHARACTERS_MAX), traceback=traceback)

    def job(self) -> Job | None:
        """The job; None if this version cannot read it."""
        return jobs.decode_if_known(self.lease.kind, self.lease.body)

    def is_telling(self) -> bool:
        """Whether breakers count it: a job that was given back, or whose input is bad, says nothing about others."""
        return self.cause in NODE_CAUSES or (self.started and self.retry and self.blob is None)


async def enqueue(
    tx: Tx, new_jobs: Sequence[Job], envelopes: EnvelopeFactory, now: float, context: str = ""
) -> Sequence[str]:
    """Enqueue *new_jobs* in *tx*, publish which are new, and return the ids, for a live key that of the live job.

    Their results belong to the trace *context*; without one each begins its own.  Raises InvalidWork.
    """
    names, rows = ("variant", "key", "priority", "node"), []
    for job in new_jobs:
        id, facts = envelopes.ids.next(), {name: getattr(job, name) for name in names}
        facts |= {"time": now, "context": context, "pause": job.pause_seconds}
        rows.append(JobRequest(id=id, kind=job.kind(), body=jobs.encode(job), **facts))
    live_ids = await tx.enqueue(rows)
    fresh = [(row, job) for row, job, id in zip(rows, new_jobs, live_ids, strict=True) if row.id == id]
    await game_ledger.record(tx, slot_changes("enqueued", [(row.kind, row.variant, job) for row, job in fresh]), now)
    await tx.append([envelopes.make(Enqueued(**fields), source="desk") for fields in _grouped(fresh)])
    return live_ids


async def select(view: Reads, job_filter: JobFilter, states: Collection[str] = LIVE_STATES) -> list[JobRow]:
    """The jobs in these *states* that *job_filter* selects, oldest first."""
    rows = await view.jobs(states, _JOBS_MAX, variant=job_filter.variant or None)
    return [
        row for row in rows if (job := jobs.decode_if_known(row.kind, row.body)) is not None and job_filter.matches(job)
    ]


async def cancel(tx: Tx, job_filter: JobFilter, envelopes: EnvelopeFactory) -> int:
    """Cancel the live jobs that *job_filter* selects and publish which; their number.  Holders lose their leases."""
    return await cancel_rows(tx, await select(tx, job_filter), envelopes)


async def cancel_rows(tx: Tx, rows: Sequence[JobRow], envelopes: EnvelopeFactory) -> int:
    """Cancel *rows*, which are live, and publish which; their number."""
    count = await tx.cancel([row.id for row in rows])
    await TRIES.delete(tx, [row.id for row in rows if row.attempts])
    pairs = [(row, jobs.decode_if_known(row.kind, row.body)) for row in rows]
    made = [envelopes.make(Cancelled(**fields), source="desk") for fields in _grouped(pairs)]
    lost = slot_changes("lost", [(row.kind, row.variant, job) for row, job in pairs], CANCELLED)
    await game_ledger.record(tx, lost, made[0].time if made else 0.0)
    await tx.append(made)
    return count


async def cancel_job(tx: Tx, row: JobRow, envelopes: EnvelopeFactory, reason: str) -> None:
    """Cancel the live job *row* for a person, and publish it as given up, so that its line goes on without it.

    Its holder loses the lease and kills it at its next renewal.  Raises InputError for a job that has ended.
    """
    if row.state not in LIVE_STATES:
        raise InputError(f"job {row.id} cannot be cancelled: it is {row.state}; only a job that waits or runs can be")
    await cancel_rows(tx, [row], envelopes)
    fault = Fault(lease=lease_of(row), error=reason, cause="cancelled")
    await tx.append([envelopes.make(_buried(fault), source="desk")])


def _grouped(rows: Sequence[tuple[JobRequest | JobRow, Job | None]]) -> Iterator[dict[str, Any]]:
    """The fields of one event for each variant, kind and purpose of *rows*; more only if one could not hold them."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for row, job in rows:
        groups.setdefault((row.variant, row.kind, jobs.purpose_of(job)), []).append(row.id)
    for (variant, kind, purpose), ids in groups.items():
        for first in range(0, len(ids), _IDS_PER_EVENT_MAX):
            part = tuple(ids[first : first + _IDS_PER_EVENT_MAX])
            yield {"variant": variant, "kind": kind, "purpose": purpose, "jobs": part}


class StoreDesk:
    """Claim, renew, finish and fail for the workers of one node; revoke for daemons that watch leases."""

    def __init__(
        self, store: Store, clock: Clock, envelopes: EnvelopeFactory, settings: WorkSettings, find: FindMissing = None
    ) -> None:
        """*find* says why a workload cannot run here; without it each can."""
        self.is_remote = False  # whether the node has no store: then it never refuses a job alone
        self._store, self._clock, self._envelopes, self._node = store, clock, envelopes, envelopes.node
        self._find_missing, self._missing = find, dict[str, str]()  # by workload why it cannot run here, or ""
        self._settings, self.has_refusals = settings, True  # an earlier process of this node may have stored some
        self.only: Collection[str] | None = None  # ids of the only jobs that it claims; None: any
        self._memory = StallDetector()  # of jobs left to others: within the longest time of a job each has a free slot

    async def enqueue(self, new_jobs: Sequence[Job]) -> Sequence[str]:
        """Enqueue *new_jobs* in a transaction of its own; see :func:`enqueue`."""
        async with self._store.begin() as tx:
            context = trace.to_text(trace.current())
            return await enqueue(tx, new_jobs, self._envelopes, self._clock.now(), context)

    async def claim(self, kinds: Collection[str], limit: int, denied: Mapping[str, str] = {}) -> Sequence[Lease]:
        """Lease up to *limit* ready jobs of *kinds* that no brake refuses: by priority, oldest first.

        See :mod:`ringrift.work.claims`.  A lease lasts longer where such jobs report progress seldom.
        *denied*: kinds that the key of a remote node does not allow, each with the scope that it lacks.
        """
        async with self._store.begin() as tx:
            lines = await LINE_WORK.scan(tx)
            workloads = {line.workload for line in lines.values()} if set(kinds) - jobs.NODE_KINDS else set[str]()
            unknown = workloads.difference(self._missing) if self._find_missing else ()
            if not unknown:
                missing = None if self.is_remote else self._missing
                fit = await claims.find_fit(tx, self._node, lines, kinds, missing, denied)
                leases, has_refusals = await self._claim(tx, lines, kinds, limit, fit)
        if unknown:  # looking for a workload may import it, which no transaction waits for
            for name in sorted(unknown):
                self._missing[name] = await self._find_missing(name) if self._find_missing else ""
            return await self.claim(kinds, limit)
        self.has_refusals = has_refusals
        if leases:
            failpoint("work.after_claim")
        return leases

    async def _claim(
        self, tx: Tx, lines: Mapping[str, LineWork], kinds: Collection[str], limit: int, fit: claims.Fit
    ) -> tuple[Sequence[Lease], bool]:
        """The leases, and whether a refusal is stored."""
        settings, now, only = self._settings, self._clock.now(), self.only
        observed = await spent_jobs(tx, self._node, settings.deadline_seconds)
        stalled = self._memory.stalled(observed, self._clock.tick())  # no other node has tried them in that time
        spent = [job.name for job in observed if job not in stalled]
        leases, plan = await claims.claim(
            tx, kinds, limit, spent, self._node, settings=settings, now=now, lines=lines, fit=fit, only=only
        )
        # While there were and are no refusals, nothing is looked up.
        has_refusals = plan.has_refusals() or self.has_refusals
        has_refusals = has_refusals and await claims.store_refusals(tx, plan, self._node)
        return await lengthen(tx, leases, settings.lease_seconds_max), has_refusals

    async def line_work(self, variant: str) -> LineWork:
        """What jobs of *variant* run with: as its line says, else as this process was started."""
        async with self._store.read() as view:
            row = await LINE_WORK.get(view, variant)
        return row or LineWork(workload=self._settings.workload, params=dict(self._settings.params))

    async def run_states(self) -> RunStates:
        """The scopes that do not run: one row is read."""
        async with self._store.read() as view:
            return await load_run_states(view)

    async def renew(self, renewals: Sequence[Renewal]) -> None:
        """Renew leases, with progress and partial outputs.  Raises LeaseLost, and then none is renewed."""
        failpoint("work.before_renew")
        async with self._store.begin() as tx:
            await tx.renew(renewals)
            owners = {row.blob: renewal.job for renewal in renewals for row in decode_checkpoints(renewal.outputs)}
            await CHECKPOINTS.put_at(tx, owners)

    async def finish(self, results: Sequence[Done]) -> Sequence[Envelope]:
        """End leases and publish their outcomes, all or none.  Raises LeaseLost, and then nothing happened."""
        failpoint("desk.before_finish")
        async with self._store.begin() as tx:
            published = await self._finish(tx, results)
        failpoint("desk.after_finish")
        return published

    async def _finish(self, tx: Tx, results: Sequence[Done], enqueued: Sequence[SlotChange] = ()) -> Sequence[Envelope]:
        await tx.finish([done.lease for done in results])
        await TRIES.delete(tx, [done.lease.job for done in results])
        await tx.put([record for done in results for record in done.outcome.records])
        await tx.link([link for done in results for link in done.outcome.links])
        counted = await find_counted(tx, [event for done in results for event in done.outcome.events])
        now, made = self._clock.now(), [(done.lease.job, row) for done in results for row in done.outcome.origins]
        await tx.put_origins([changed(origin, job=job, time=now) for job, origin in made])
        once = [[(e, count_once(e, done.lease.job, counted)) for e in done.outcome.events] for done in results]
        rows = [(event, done.context) for done, pairs in zip(results, once, strict=True) for _, event in pairs if event]
        published, slots = await tx.append([self._envelope(*row) for row in rows]), list(enqueued)
        for done, pairs in zip(results, once, strict=True):
            slots += result_changes(*await find_line(tx, done.lease.job, done.run), pairs)
        await game_ledger.record(tx, slots, now)
        runs = [(done.lease.job, done.run) for done in results if done.run]
        await VERDICTS.delete(tx, [f"{run.variant}:read.{run.kind}" for _, run in runs])
        await self._record_ends(tx, {job: (run.kind, run.variant, None, "error") for job, run in runs})
        await record_runs(tx, [run for _, run in runs], now)
        return published

    async def ingest(self, key: str, job: Job, outcome: JobOutcome, context: str, run: JobRun | None) -> bool:
        """Enqueue and finish *job*, done here without a lease, as *key* in one transaction.

        False if its files were counted before: a result that was accepted under its lease is the same file.
        """
        async with self._store.begin() as tx:
            if await tx.origins([origin.blob for origin in outcome.origins]):
                return False
            id = self._envelopes.ids.next()
            lease = await lease_ingested(tx, id, key, job, self._node, self._clock.now())
            enqueued = slot_changes("enqueued", [(job.kind(), job.variant, job)])
            await self._finish(tx, [Done(lease=lease, outcome=outcome, context=context, run=run)], enqueued)
        return True

    async def _record_ends(self, tx: Tx, rows: Mapping[str, tuple[str, str, str | None, str]]) -> None:
        """Let breakers count jobs: each with its kind, variant, error and cause."""
        lines = await LINE_WORK.get_many(tx, sorted({variant for _, variant, _, _ in rows.values()})) if rows else {}
        own, ends = LineWork(workload=self._settings.workload), []
        for job, (kind, variant, error, cause) in rows.items():
            workload = lines.get(variant, own).workload
            ends.append(JobEnd(job, kind, self._node, error, cause, workload))
        await record_ends(tx, self._envelopes, ends, self._settings.breakers, self._clock.now())

    def _envelope(self, event: Event, context: str) -> Envelope:
        with trace.within(trace.from_text(context)):
            return self._envelopes.make(event, source="desk")

    async def fail(self, faults: Sequence[Fault]) -> dict[str, bool]:
        """End leases without a result; by job whether it is tried again, without those that were not held any more."""
        async with self._store.begin() as tx:
            ended = await self._fail(tx, faults)
            telling = [(fault, fault.lease) for fault, _ in ended if fault.is_telling()]
            rows = {lease.job: (lease.kind, lease.variant, fault.error, fault.cause) for fault, lease in telling}
            await self._record_ends(tx, rows)
            return {fault.lease.job: pause is not None for fault, pause in ended}

    async def _fail(self, tx: Tx, faults: Sequence[Fault]) -> list[tuple[Fault, float | None]]:
        """Those of *faults* that ended a lease, with errors that can be stored, and the pause of each job."""
        faults = [await self._explain(tx, fault.printable()) for fault in faults]
        tries = await TRIES.get_many(tx, [fault.lease.job for fault in faults if fault.lease.attempts > 1])
        pauses = {fault.lease.job: await self._pause(tx, fault, tries) for fault in faults}
        ids = set(await tx.fail([_failure(fault, pauses[fault.lease.job]) for fault in faults]))
        ended = [(fault, pauses[fault.lease.job]) for fault in faults if fault.lease.job in ids]
        buried = [fault for fault, pause in ended if pause is None]
        used = {job: row for job, row in tries.items() if job in ids and pauses[job] is not None}
        await save_tries(tx, used, self._settings.retry)
        await TRIES.delete(tx, [fault.lease.job for fault in buried])
        await tx.append([self._envelope(_buried(fault), fault.lease.context) for fault in buried])
        now, counted = self._clock.now(), [fault for fault, _ in ended if fault.started or fault.cause in NODE_CAUSES]
        await record_failures(tx, [_job_failure(fault, now) for fault in counted])
        ends = [(fault.lease, fault.job(), fault.cause if fault.retry else "refused", pause) for fault, pause in ended]
        await game_ledger.record(tx, end_changes(ends), now)
        return ended

    async def _explain(self, tx: Tx, fault: Fault) -> Fault:
        """*fault*; a refusal of what another workload or version has made says nothing about the file or the job.

        The job waits, with a verdict, for a node that can read the file.  What a remote node alone refuses, another
        node tries.
        """
        if fault.retry:
            return fault
        lease, job = fault.lease, fault.job()
        line = await LINE_WORK.get(tx, lease.variant)
        here = (line.workload if line else self._settings.workload, fault.version)
        makers: dict[str, set[tuple[str, str]]] = {}
        blobs = [fault.blob] if fault.blob else list(job.blobs) if job else []
        for origin in await tx.origins(blobs) if fault.version else ():
            makers.setdefault(origin.blob, set()).add((origin.workload, origin.version))
        strange = [min(pairs) for pairs in makers.values() if here not in pairs]
        if not strange:
            is_alone = self.is_remote and not await can_refuse(tx, lease, self._node)
            return changed(fault, retry=True, blob=None) if is_alone else fault
        rule = f"made by {' '.join(strange[0])}, not readable by {' '.join(here)}: {fault.error}"
        verdict = Verdict(f"read.{lease.kind}", False, rule, 0, 1, self._clock.now())
        await VERDICTS.put_at(tx, {f"{lease.variant}:{verdict.gate}": verdict}, {"variant": lease.variant})
        return changed(fault, error=rule, cause=_UNREADABLE, started=False, retry=True, blob=None)

    async def _pause(self, tx: Tx, fault: Fault, tries: dict[str, JobTries]) -> float | None:
        """Seconds until the job is ready again, None if it is given up; a used-up try is counted in *tries*."""
        lease, backoff = fault.lease, self._settings.retry
        if fault.cause in ("away", "busy", _UNREADABLE):
            return min(_AWAY_PAUSES * backoff.first_seconds, backoff.seconds_max)
        if not (fault.started and fault.retry):
            return None if fault.started else 0.0
        failures = Counter(tries[lease.job].failures if lease.job in tries else ()) + Counter((lease.holder,))
        tries[lease.job] = JobTries(kind=lease.kind, variant=lease.variant, failures=failures)
        job = fault.job()
        others = set() if job is None or job.node else await able_nodes(tx, lease.kind, lease.variant)
        return retry_pause(failures, lease.holder, others - {lease.holder}, backoff)

    async def revoke(self, tx: Tx, rows: Sequence[JobRow], error: str, *, started: bool = True) -> Sequence[str]:
        """End the leases of *rows*, unless they were renewed since *rows* were read."""
        leases = [lease_of(row) for row in rows]
        faults = [Fault(lease=lease, error=error, renewals=lease.renewals, started=started) for lease in leases]
        return [fault.lease.job for fault, _ in await self._fail(tx, faults)]

    async def revoke_own(self, error: str, *, started: bool, keep: Collection[str] = ()) -> Sequence[str]:
        """End every lease of this node but those of *keep*: of an earlier process at the start, the rest at the end."""
        async with self._store.begin() as tx:
            await VERDICTS.delete(tx, await claims.find_refusals(tx, [self._node]))
            rows = await tx.jobs(("claimed",), REVOKED_AT_ONCE_MAX, holder=self._node)
            rows = [row for row in rows if row.id not in keep]
            revoked = await self.revoke(tx, rows, error, started=started)
        self.has_refusals = False
        return revoked


def lease_of(row: JobRow) -> Lease:
    """The lease of *row*, which is claimed."""
    names = ("kind", "variant", "key", "body", "fence", "renewals", "seconds", "attempts")
    return Lease(job=row.id, holder=row.holder or "", **{name: getattr(row, name) for name in names})


def _job_failure(fault: Fault, now: float) -> JobFailure:
    lease, facts = fault.lease, {name: getattr(fault, name) for name in ("error", "cause", "traceback")}
    facts |= {name: getattr(lease, name) for name in ("job", "kind", "variant")}
    return JobFailure(node=lease.holder, attempt=lease.attempts, time=now, **facts)


def _failure(fault: Fault, pause: float | None) -> Failure:
    facts = {name: getattr(fault, name) for name in ("error", "renewals", "started")}
    return Failure(job=fault.lease.job, fence=fault.lease.fence, pause=pause, **facts)


def _buried(fault: Fault) -> Buried:
    lease, job = fault.lease, fault.job()
    facts: dict[str, Any] = {name: getattr(lease, name) for name in ("variant", "job", "kind", "key", "attempts")}
    if isinstance(job, Match):
        facts["candidate"] = job.candidate
    facts |= {name: getattr(fault, name) for name in ("error", "blob", "traceback")}
    facts |= {"target": (job.node if job else None) or "", "purpose": jobs.purpose_of(job)}
    return Buried(cause=fault.cause if fault.retry else "refused", **facts)
