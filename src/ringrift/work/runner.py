"""The runner: claims jobs, runs them in workers, and hands in their results.

It renews a lease only while the job reports progress.  A job that makes no progress, passes its deadline or is held by
another node now is killed.  When the node stops, or a scope it works in is in emergency, running jobs are asked to end
early, then killed and given back.
"""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import msgspec

from ringrift import jobs
from ringrift.bus import spans, trace
from ringrift.events import work
from ringrift.events.base import Event
from ringrift.jobs import Job
from ringrift.kernel import errors
from ringrift.kernel.clock import Clock
from ringrift.kernel.settings import WorkSettings
from ringrift.kernel.value import Value, changed
from ringrift.store.ports import Lease, Renewal
from ringrift.work.desk import ERROR_CHARACTERS_MAX, Done, Fault, JobOutcome, StoreDesk
from ringrift.work.durations import JobRun
from ringrift.work.launch.ports import Launch, Progress, Worker
from ringrift.work.run_states import EMERGENCY
from ringrift.workload.api import JobResult


class _PooledWorker:
    """A worker, the number of jobs it has done, and its memory after the first."""

    def __init__(self, worker: Worker) -> None:
        self.worker, self.jobs, self.first_memory = worker, 0, 0

    def is_worn_out(self, settings: WorkSettings) -> bool:
        """Whether it has done enough jobs or has grown too much since its first."""
        growth = self.worker.memory - self.first_memory if self.first_memory else 0
        return self.jobs >= settings.jobs_per_child or growth > settings.child_growth_bytes_max


class WorkerPool:
    """Workers of one workload."""

    def __init__(self, launch: Launch, settings: WorkSettings) -> None:
        self._launch, self._settings = launch, settings
        self._idle: list[_PooledWorker] = []

    @asynccontextmanager
    async def worker(
        self, *, isolate: bool = False, was_stopped: Callable[[], bool] = lambda: False
    ) -> AsyncIterator[Worker]:
        """A worker for one job.  It is not used again after a failure, when worn out, or if *isolate* is set.

        A worker that was asked to stop ends after its job, and would take the next one with it.
        """
        pooled = self._idle.pop() if self._idle and not isolate else None
        if pooled is None:
            pooled = _PooledWorker(await self._launch.start(self._settings.workload))
        try:
            yield pooled.worker
        except BaseException:
            await asyncio.shield(pooled.worker.end(0.0))
            raise
        pooled.jobs += 1
        pooled.first_memory = pooled.first_memory or pooled.worker.memory
        if isolate or was_stopped() or pooled.is_worn_out(self._settings):
            await asyncio.shield(pooled.worker.end(self._settings.grace_seconds))
        else:
            self._idle.append(pooled)

    async def end(self) -> None:
        """End every idle worker, all within one grace period."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*(pooled.worker.end(self._settings.grace_seconds) for pooled in idle))


_RENEWALS_PER_LEASE = 3
_TRUST = 2 / 3  # share of its lease after which a holder without progress stops: another node waits for all of it
_REGISTER_SECONDS_MAX = 0.5  # how long a checkpoint may be known to this process alone
_PUBLISH_SECONDS = 1.0  # between two events about the progress of a job: a worker may report much more often
log = logging.getLogger(__name__)

OnProgress = Callable[[], None]
FetchInputs = Callable[[Sequence[str], "Checkpoint | None", OnProgress], Awaitable[None]]


class Checkpoint(Value):
    """Where an earlier holder of a job stopped: a partial output, registered under its fence."""

    blob: str
    node: str


def _checkpoint(lease: Lease) -> Checkpoint | None:
    checkpoints = msgspec.json.decode(lease.outputs, type=list[Checkpoint])
    return checkpoints[-1] if checkpoints else None


class _RunningJob:
    """A job under its lease, and its progress."""

    def __init__(self, lease: Lease, job: Job, tick: float) -> None:
        self.lease, self.job = lease, job
        self.started_at = self.progress_at = self.renewed_at = self.published_at = tick
        self.progress = self._silence = 0.0
        self.metrics: Mapping[str, float] = {}
        self.published: tuple[float, Mapping[str, float]] = (0.0, {})
        self.checkpoint: str | None = None
        self.registered: str | None = None
        self.worker: Worker | None = None
        self.task: asyncio.Task[None] | None = None
        self.is_lost = self.is_ended = False
        self.stop_reason = ""  # why it was asked to stop: then its end uses up no try
        self.kill_at = math.inf
        self.is_starting = False  # its worker is being started: that reports no progress, but has its own time limit

    def end(self, *, lost: bool) -> None:
        """Kill it, once: the steps that follow must not be cancelled."""
        if self.task is not None and not self.is_ended:
            self.is_lost, self.is_ended = lost, True
            self.task.cancel()

    def ask_to_stop(self, reason: str, kill_at: float) -> None:
        """Ask it to end with what it has, and have it killed at *kill_at*."""
        if self.worker is not None and not self.stop_reason:
            self.worker.ask_to_stop()
        self.stop_reason, self.kill_at = self.stop_reason or reason, min(self.kill_at, kill_at)

    def update(self, progress: Progress, tick: float) -> None:
        """Store a report of the worker: any report is progress."""
        self._silence = self._silence if self.is_starting else max(self._silence, tick - self.progress_at)
        self.progress_at, self.progress = tick, min(max(progress.done, 0.0), 1.0)
        self.metrics = progress.metrics or self.metrics
        self.checkpoint = progress.checkpoint or self.checkpoint

    def measure(self, tick: float) -> JobRun:
        """How long it took until *tick*, and its longest silence."""
        silence, seconds = max(self._silence, tick - self.progress_at), tick - self.started_at
        lease, size = self.lease, self.job.size
        return JobRun(kind=lease.kind, variant=lease.variant, seconds=seconds, silence=silence, size=size)

    def is_worth_publishing(self, tick: float) -> bool:
        """Whether it has progressed since the last event about it, and that was long enough ago."""
        if tick - self.published_at < _PUBLISH_SECONDS or self.published == (self.progress, self.metrics):
            return False
        self.published, self.published_at = (self.progress, self.metrics), tick
        return True

    def has_lived(self) -> bool:
        """Whether it has earned another renewal since the last one."""
        return self.progress_at > self.renewed_at or self.is_starting

    def renewal(self, node: str) -> Renewal:
        """The claim to its lease, with the partial outputs to register, from which the next holder can go on."""
        blob = self.checkpoint
        outputs = None if blob is None else msgspec.json.encode([Checkpoint(blob=blob, node=node)])
        return Renewal(job=self.lease.job, fence=self.lease.fence, progress=self.progress, outputs=outputs)


class Runner:
    """Runs jobs for one node.

    *fetch_inputs* brings blobs to this node, *run_on_node* does the jobs that need no worker, *make_outcome* turns a
    result into an outcome, *wait* returns when there may be new jobs, *publish* takes events that need not be durable.
    """

    def __init__(
        self,
        node: str,
        desk: StoreDesk,
        pool: WorkerPool,
        clock: Clock,
        settings: WorkSettings,
        kinds: Collection[str],
        *,
        fetch_inputs: FetchInputs,
        run_on_node: Callable[[Job, OnProgress], Awaitable[JobOutcome]],
        make_outcome: Callable[[Job, JobResult], JobOutcome],
        wait: Callable[[float], Awaitable[object]],
        publish: Callable[[Event], object],
    ) -> None:
        self._node, self._desk, self._pool, self._clock, self._settings = node, desk, pool, clock, settings
        self.kinds = frozenset(kinds)  # kinds of job that it claims; may be changed at any time
        self._fetch_inputs, self._run_on_node, self._make_outcome = fetch_inputs, run_on_node, make_outcome
        self._wait, self._publish = wait, publish
        self._jobs: dict[str, _RunningJob] = {}

    async def run(self, alive: Callable[[], None]) -> None:
        """Claim and run jobs until cancelled; then end in good order within the grace period."""
        renewing = asyncio.get_running_loop().create_task(self._renew_forever(), name=f"{self._node}:renew")
        try:
            while True:
                free = self._settings.slots - len(self._jobs)
                if free > 0 and self.kinds:
                    for lease in await self._desk.claim(self.kinds, free):
                        await self._begin(lease)
                alive()
                if renewing.done():
                    renewing.result()
                await self._wait(self._settings.lease_seconds / _RENEWALS_PER_LEASE)
        finally:
            await asyncio.shield(self._drain(renewing))

    async def _begin(self, lease: Lease) -> None:
        try:
            job = jobs.decode(lease.kind, lease.body)
        except (errors.InputError, errors.UnknownName) as unreadable:
            await self._desk.fail([Fault(lease=lease, error=str(unreadable), retry=False)])
            return
        running = self._jobs[lease.job] = _RunningJob(lease, job, self._clock.tick())
        resumed = job.runs_in != "node" and _checkpoint(lease) is not None
        self._publish(work.Started(**self._about(running), attempts=lease.attempts, resumed=resumed))
        running.task = asyncio.get_running_loop().create_task(self._run(running), name=f"{self._node}:{lease.key}")

    async def _run(self, running: _RunningJob) -> None:
        """Run one job and end its lease, whatever happens."""
        lease = running.lease
        try:
            with spans.job_span(lease):
                async with asyncio.timeout(self._settings.deadline_seconds):
                    outcome = await self._result(running)
                renewal, context = Renewal(job=lease.job, fence=lease.fence), trace.to_text(trace.current())
                run = running.measure(self._clock.tick())
                await self._desk.finish([Done(lease=renewal, outcome=outcome, context=context, run=run)])
                self._publish(work.Finished(**self._about(running), seconds=self._clock.tick() - running.started_at))
        except errors.LeaseLost:
            log.info("%s: another node holds %s now", self._node, lease.key)
            self._publish_failed(running, "another node holds it now", "lost")
        except asyncio.CancelledError:
            if running.is_lost:
                self._publish_failed(running, "another node holds it now", "lost")
            else:
                reason = running.stop_reason or "no progress reported"
                await self._fail(running, Fault(lease=lease, error=reason, cause="silent"))
        except errors.Unreachable:
            raise
        except Exception as error:  # noqa: BLE001 - any error ends this lease, not this node
            fault = _fault(running, error, self._settings.deadline_seconds)
            log.info("%s: attempt %d of %s failed: %s", self._node, lease.attempts, lease.key, fault.error)
            await self._fail(running, fault)
        finally:
            del self._jobs[lease.job]

    async def _fail(self, running: _RunningJob, fault: Fault) -> None:
        """End the lease of a job that failed or was killed; one that was asked to stop has not used up a try."""
        if running.stop_reason:
            fault = changed(fault, started=False, cause="stopped")
        await self._desk.fail([fault])
        self._publish_failed(running, fault.error, fault.cause, again=not self._desk.is_final(fault))

    def _publish_failed(self, running: _RunningJob, error: str, cause: str, *, again: bool = True) -> None:
        error = errors.printable(error, ERROR_CHARACTERS_MAX)
        self._publish(work.Failed(**self._about(running), error=error, cause=cause, again=again))

    def _about(self, running: _RunningJob) -> dict[str, Any]:
        lease, purpose = running.lease, jobs.purpose_of(running.job)
        return {"job": lease.job, "kind": lease.kind, "variant": lease.variant, "node": self._node, "purpose": purpose}

    def _report(self, running: _RunningJob, progress: Progress) -> None:
        tick = self._clock.tick()
        running.update(progress, tick)
        before = running.published[1]
        if running.is_worth_publishing(tick):
            self._publish_progress(running, before)

    def _publish_progress(self, running: _RunningJob, before: Mapping[str, float], **more: Any) -> None:
        done, metrics = running.progress, dict(running.metrics)
        about = {**self._about(running), "done": done, "metrics": metrics, "before": dict(before)}
        self._publish(work.Progressed(**about, **more))

    async def _result(self, running: _RunningJob) -> JobOutcome:
        def on_progress() -> None:
            self._report(running, Progress(running.progress, {}))

        job, lease = running.job, running.lease
        if job.runs_in == "node":
            return await self._run_on_node(job, on_progress)
        checkpoint = _checkpoint(lease)
        await self._fetch_inputs(job.blobs, checkpoint, on_progress)
        running.is_starting = True
        async with self._pool.worker(isolate=job.isolate, was_stopped=lambda: bool(running.stop_reason)) as worker:
            on_progress()
            running.worker, running.is_starting = worker, False
            self._publish_progress(running, {}, first=True)
            if running.stop_reason:
                worker.ask_to_stop()
            spec = job.to_spec(lease.job, lease.attempts, self._settings.params)
            resume = checkpoint.blob if checkpoint else None
            result = await worker.run(spec, resume, lambda progress: self._report(running, progress))
        return self._make_outcome(job, result)

    async def _renew_forever(self) -> None:
        interval = self._settings.lease_seconds / _RENEWALS_PER_LEASE
        steps = math.ceil(interval / _REGISTER_SECONDS_MAX)
        for step in count(1):
            await asyncio.sleep(interval / steps)
            await self._obey_emergencies()
            if step % steps:
                await self._renew([job for job in self._jobs.values() if job.checkpoint != job.registered])
            else:
                await self._renew([job for job in self._jobs.values() if job.has_lived()])

    async def _obey_emergencies(self) -> None:
        """Stop the jobs of every scope that is in emergency; a job that was asked to stop in vain is killed in time."""
        if not self._jobs:
            return
        states, tick, now = await self._desk.run_states(), self._clock.tick(), self._clock.now()
        for job in self._jobs.values():
            state = states.find(node=self._node, variant=job.lease.variant, stage=job.job.stage, now=now)
            if state is not None and state.state == EMERGENCY:
                job.ask_to_stop(str(state), tick + self._settings.grace_seconds)
            else:
                job.kill_at = math.inf
            if tick >= job.kill_at:
                job.end(lost=False)

    async def _renew(self, running: list[_RunningJob]) -> None:
        """Renew the leases of *running*, and kill every job that has not progressed for too long."""
        tick = self._clock.tick()
        for job in self._jobs.values():
            if tick - job.progress_at > _TRUST * job.lease.seconds and not job.is_starting:
                job.end(lost=False)
        checkpoints = {job.lease.job: job.checkpoint for job in running}
        while running:
            try:
                await self._desk.renew([job.renewal(self._node) for job in running])
                break
            except errors.LeaseLost as lost:
                for job in running:
                    if job.lease.job in lost.names:
                        job.end(lost=True)
                running = [job for job in running if job.lease.job not in lost.names]
        for job in running:
            checkpoint = checkpoints[job.lease.job]
            if checkpoint is not None and checkpoint != job.registered:
                self._publish_progress(job, job.published[1], checkpoint=checkpoint)
            job.renewed_at, job.registered = tick, checkpoint

    async def _drain(self, renewing: "asyncio.Task[None]") -> None:
        """Ask running jobs to end with what they have; kill and give back those that do not in time."""
        for job in self._jobs.values():
            job.ask_to_stop(f"node {self._node} is stopping", math.inf)
        tasks: list[asyncio.Task[Any]] = [job.task for job in self._jobs.values() if job.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=self._settings.grace_seconds)
        renewing.cancel()
        for job in list(self._jobs.values()):
            job.end(lost=False)
        await asyncio.gather(renewing, *tasks, return_exceptions=True)
        await self._pool.end()
        # A claim that was cancelled on its way may have gone through all the same.
        await self._desk.revoke_own(f"node {self._node} is stopping", started=False)


def _fault(running: _RunningJob, error: Exception, deadline: float) -> Fault:
    """The consequence of *error* for the lease: whether to try again, and the input at fault if there is one."""
    lease = running.lease
    match error:
        case errors.JobFailed():
            return Fault(lease=lease, error=error.reason, retry=error.retry, blob=error.blob)
        case errors.NoRoute():
            return Fault(lease=lease, error=str(error), blob=error.blob if error.gone else None)
        case errors.ChildDied():
            cause = "spawn" if running.is_starting else "child_died"
            return Fault(lease=lease, error=str(error), cause=cause)
        case errors.NoRoom():
            return Fault(lease=lease, error=str(error), cause="no_room")
        case errors.TransferError():
            return Fault(lease=lease, error=str(error))
        case TimeoutError():
            return Fault(lease=lease, error=f"not done within the deadline of {deadline:g} s", cause="timeout")
    log.warning("job %s failed", lease.key, exc_info=error)
    return Fault(lease=lease, error=f"{type(error).__name__}: {error}")
