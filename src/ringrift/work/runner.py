"""The runner: claims jobs, runs them in workers, and hands in their results.

It renews a lease only while the job reports progress.  A job that makes no progress, passes its deadline or is held by
another node now is killed.  A store that is busy or full ends nothing: a renewal is made later, and a result is kept
until it is stored or another node holds the job.  When the node stops, or a scope it works in is in emergency, running
jobs are asked to end early, then killed and given back.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from itertools import count
from typing import Any, Protocol

from ringrift import jobs
from ringrift.bus import spans, trace
from ringrift.events import work
from ringrift.events.base import Event
from ringrift.jobs import Job
from ringrift.kernel import errors
from ringrift.kernel.backoff import wait_out
from ringrift.kernel.clock import Clock
from ringrift.kernel.settings import WorkSettings
from ringrift.kernel.value import changed
from ringrift.store.ports import Lease, Renewal
from ringrift.work.checkpoints import Checkpoint
from ringrift.work.desk import Done, Fault, JobOutcome
from ringrift.work.launch.ports import Progress
from ringrift.work.limits import LineWork
from ringrift.work.run_states import EMERGENCY, RunStates
from ringrift.work.running_job import RunningJob, last_checkpoint
from ringrift.work.worker_pool import WorkerPool
from ringrift.workload.api import JobResult

_RENEWALS_PER_LEASE = 3
_REGISTER_SECONDS_MAX = 0.5  # how long a checkpoint may be known to this process alone
_GIVE_BACK_SECONDS_MAX = 2.0  # how long a stopping node tries to give a job back; else its lease expires
_LOST = "its lease is lost: another node holds it now, or it was cancelled"
log = logging.getLogger(__name__)

OnProgress = Callable[[], None]
FetchInputs = Callable[[Sequence[str], Checkpoint | None, OnProgress], Awaitable[None]]
_Protect = Callable[[Sequence[str], OnProgress], Awaitable[None]]


async def _keep(_: Sequence[str], __: OnProgress) -> None:
    """A durable node keeps its files where they are."""


class _Desk(Protocol):
    """What it needs of a desk, be it that of a store or over the wire; see :class:`ringrift.work.desk.StoreDesk`."""

    async def claim(self, kinds: Collection[str], limit: int) -> Sequence[Lease]: ...
    async def line_work(self, variant: str) -> LineWork: ...
    async def run_states(self) -> RunStates: ...
    async def renew(self, renewals: Sequence[Renewal]) -> None: ...
    async def finish(self, results: Sequence[Done]) -> object: ...
    async def fail(self, faults: Sequence[Fault]) -> Mapping[str, bool]: ...
    async def revoke_own(self, error: str, *, started: bool) -> Sequence[str]: ...


@dataclass(eq=False)
class Runner:
    """Runs jobs for one node."""

    node: str
    desk: _Desk
    pool: WorkerPool
    clock: Clock
    settings: WorkSettings
    kinds: Collection[str]  # kinds of job that it claims; may be changed at any time
    _: KW_ONLY
    fetch_inputs: FetchInputs  # brings blobs to this node
    run_on_node: Callable[[Job, OnProgress], Awaitable[JobOutcome]]  # does the jobs that need no worker
    make_outcome: Callable[[Job, JobResult, LineWork], JobOutcome]
    wait: Callable[[float], Awaitable[object]]  # returns when there may be new jobs
    publish: Callable[[Event], object]  # takes events that need not be durable
    protect: _Protect = _keep  # brings outputs to a durable node, before the result is acknowledged
    notice: str = ""  # why this machine is about to be taken away: then it takes no jobs, and ends those it has early
    _jobs: dict[str, RunningJob] = field(default_factory=dict)

    async def run(self, alive: Callable[[], None]) -> None:
        """Claim and run jobs until cancelled; then end in good order within the grace period."""
        renewing = asyncio.get_running_loop().create_task(self._renew_forever(), name=f"{self.node}:renew")
        try:
            while True:
                for lease in await wait_out(self._claim, on_wait=lambda _: alive()):
                    await self._begin(lease)
                alive()
                if renewing.done():
                    renewing.result()
                await self.wait(self.settings.lease_seconds / _RENEWALS_PER_LEASE)
        finally:
            draining = asyncio.get_running_loop().create_task(self._drain(renewing), name=f"{self.node}:drain")
            while not draining.done():  # whoever cancels it again, such as a node that stops meanwhile, waits, too
                with suppress(asyncio.CancelledError):
                    await asyncio.wait((draining,))
            draining.result()

    async def _claim(self) -> Sequence[Lease]:
        # A result that waits to be stored needs no slot; but not more of them are waited for than jobs can run.
        slots, at_work = self.settings.slots, sum(job.phase != "delivering" for job in self._jobs.values())
        free = min(slots - at_work, 2 * slots - len(self._jobs))
        return await self.desk.claim(self.kinds, free) if free > 0 and self.kinds and not self.notice else ()

    @property
    def checkpoints(self) -> list[str]:
        """The last checkpoint of every running job that has one."""
        return [job.checkpoint for job in self._jobs.values() if job.checkpoint is not None]

    @property
    def is_idle(self) -> bool:
        """Whether it has no job."""
        return not self._jobs

    async def _begin(self, lease: Lease) -> None:
        try:
            job = jobs.decode(lease.kind, lease.body)
        except (errors.InputError, errors.UnknownName) as unreadable:
            fault = Fault(lease=lease, error=str(unreadable), retry=False)
            await wait_out(lambda: self.desk.fail([fault]))
            return
        if (earlier := self._jobs.get(lease.job)) is not None:
            earlier.end("lost")  # its lease has expired, and this node was the next to claim the job
        running = self._jobs[lease.job] = RunningJob(lease, job, self.clock.tick())
        resumed = job.runs_in != "node" and last_checkpoint(lease) is not None
        self.publish(work.Started(**self._about(running), attempts=lease.attempts, resumed=resumed))
        running.task = asyncio.get_running_loop().create_task(self._run(running), name=f"{self.node}:{lease.key}")

    async def _run(self, running: RunningJob) -> None:
        """Run one job and end its lease, whatever happens."""
        lease = running.lease
        try:
            with spans.job_span(lease):
                async with asyncio.timeout(self.settings.deadline_seconds):
                    outcome = await self._result(running)
                await self._deliver(running, outcome)
        except (errors.LeaseLost, asyncio.CancelledError) as end:
            if isinstance(end, errors.LeaseLost) or running.end_cause == "lost":
                self._publish_failed(running, Fault(lease=lease, error=_LOST, cause="lost"))
            else:
                reason = running.stop_reason or "no progress reported"
                if running.phase == "delivering":
                    reason = f"{reason}, and its result could not be stored"
                    log.warning("%s: %s is done again: %s", self.node, lease.key, reason)
                fault = Fault(lease=lease, error=reason, cause="silent", traceback=running.traceback)
                await self._fail(running, fault)
        except errors.Unreachable:
            raise
        except Exception as error:  # noqa: BLE001 - any error ends this lease, not this node
            await self._fail(running, running.fault(error, self.settings.deadline_seconds))
        finally:
            if self._jobs.get(lease.job) is running:
                del self._jobs[lease.job]

    async def _deliver(self, running: RunningJob, outcome: JobOutcome) -> None:
        """End the lease with *outcome*, which waits for the store as long as a job may take.  Raises LeaseLost."""
        lease, context = running.lease, trace.to_text(trace.current())
        renewal, run = Renewal(job=lease.job, fence=lease.fence), running.measure(self.clock.tick())
        done = Done(lease=renewal, outcome=outcome, context=context, run=run)
        running.phase, seconds = "delivering", self.settings.deadline_seconds
        finish = partial(running.end_lease, lambda: self.desk.finish([done]))
        await wait_out(finish, on_wait=partial(self._warn, lease), seconds_max=seconds)
        self.publish(work.Finished(**self._about(running), seconds=self.clock.tick() - running.started_at))

    def _warn(self, lease: Lease, error: Exception) -> None:
        log.warning("%s: the end of %s cannot be stored yet: %s", self.node, lease.key, error)

    async def _fail(self, running: RunningJob, fault: Fault) -> None:
        """End the lease of a job that failed or was killed; one that was asked to stop has not used up a try."""
        lease, seconds = running.lease, running.lease.seconds
        if running.stop_reason:
            fault, seconds = changed(fault, started=False, cause="stopped"), _GIVE_BACK_SECONDS_MAX
        try:
            fail = partial(running.end_lease, lambda: self.desk.fail([fault]))
            again = (await wait_out(fail, seconds_max=seconds)).get(lease.job, True)
        except errors.TRANSIENT as error:
            self._warn(lease, error)
            again = True  # its lease expires, and then it is ready again
        self._publish_failed(running, fault, again=again)

    def _publish_failed(self, running: RunningJob, fault: Fault, *, again: bool = True) -> None:
        fault, about = fault.printable(), self._about(running)
        about |= {name: getattr(fault, name) for name in ("error", "cause", "traceback")}
        about |= {"attempt": fault.lease.attempts, "seconds": self.clock.tick() - running.started_at}
        self.publish(work.Failed(**about, again=again))

    def _about(self, running: RunningJob) -> dict[str, Any]:
        lease, purpose = running.lease, jobs.purpose_of(running.job)
        return {"job": lease.job, "kind": lease.kind, "variant": lease.variant, "node": self.node, "purpose": purpose}

    def _report(self, running: RunningJob, progress: Progress) -> None:
        tick, before = self.clock.tick(), running.published[1]
        running.update(progress, tick)
        if running.is_worth_publishing(tick):
            self._publish_progress(running, before)

    def _publish_progress(self, running: RunningJob, before: Mapping[str, float], **more: Any) -> None:
        about = {**self._about(running), "done": running.progress, "metrics": dict(running.metrics)}
        self.publish(work.Progressed(**about, before=dict(before), **more))

    async def _result(self, running: RunningJob) -> JobOutcome:
        def on_progress() -> None:
            report(Progress(running.progress, {}))

        job, lease, report = running.job, running.lease, partial(self._report, running)
        if job.runs_in == "node":
            return await self.run_on_node(job, on_progress)
        checkpoint = last_checkpoint(lease)
        await self.fetch_inputs(job.blobs, checkpoint, on_progress)
        line = await self.desk.line_work(job.variant)
        running.phase, pool = "starting", self.pool
        was_stopped = partial(getattr, running, "stop_reason")
        async with pool.worker(line.workload, isolate=job.isolate, was_stopped=was_stopped) as worker:
            on_progress()
            running.worker, running.phase = worker, "sent"
            self._publish_progress(running, {}, first=True)
            if running.stop_reason:
                worker.ask_to_stop()
            spec = job.to_spec(lease.job, lease.attempts, line.params)
            result = await worker.run(spec, checkpoint.blob if checkpoint else None, report)
        running.cpu_seconds = result.metrics.get("cpu_seconds", 0.0)
        try:
            outcome = self.make_outcome(job, result, line)
            await self.protect([output.blob for output in result.outputs], on_progress)
            return outcome
        except errors.JobFailed as error:
            if result.partial and running.stop_reason:  # too little, because we asked it to stop: no error of the job
                raise errors.JobFailed(running.stop_reason) from error
            raise

    async def _renew_forever(self) -> None:
        interval = self.settings.lease_seconds / _RENEWALS_PER_LEASE
        steps = math.ceil(interval / _REGISTER_SECONDS_MAX)
        is_due = False
        for step in count(1):
            await asyncio.sleep(interval / steps)
            is_due = is_due or step % steps == 0
            for job in self._jobs.values():
                if job.is_silent(self.clock.tick()):
                    job.end()
            try:
                await self._obey_emergencies()
                await self._renew([job for job in self._jobs.values() if job.needs_renewal(is_due)])
                is_due = False
            except errors.TRANSIENT as error:
                # Whoever would take a lease over has the same store to wait for: the next step renews it.
                log.warning("%s: leases cannot be renewed yet: %s", self.node, error)
                is_due = True

    async def _obey_emergencies(self) -> None:
        """Stop all jobs after a notice, else those of every scope in emergency; one that goes on is killed in time."""
        if not self._jobs:
            return
        states, tick, now = await self.desk.run_states(), self.clock.tick(), self.clock.now()
        for job in self._jobs.values():
            state = states.find(node=self.node, variant=job.lease.variant, stage=job.job.stage, now=now)
            if self.notice or (state is not None and state.state == EMERGENCY):
                job.ask_to_stop(self.notice or str(state), tick + self.settings.grace_seconds)
            else:
                job.kill_at = math.inf
            if tick >= job.kill_at and job.phase != "delivering":
                job.end()

    async def _renew(self, running: list[RunningJob]) -> None:
        """Renew the leases of *running*; a job whose lease is lost is killed."""
        tick, checkpoints = self.clock.tick(), {job.lease.job: job.checkpoint for job in running}
        while running:
            try:
                await self.desk.renew([job.renewal(self.node) for job in running])
                break
            except errors.LeaseLost as lost:
                for job in running:
                    if job.lease.job in lost.names and not job.is_ending:
                        job.end("lost")
                running = [job for job in running if job.lease.job not in lost.names]
        for job in running:
            checkpoint = checkpoints[job.lease.job]
            if checkpoint is not None and checkpoint != job.registered:
                self._publish_progress(job, job.published[1], checkpoint=checkpoint)
            job.renewed_at, job.registered = tick, checkpoint

    async def _drain(self, renewing: "asyncio.Task[None]") -> None:
        """Ask running jobs to end with what they have; kill and give back those that do not in time."""
        reason = f"node {self.node} is stopping"
        for job in self._jobs.values():
            job.ask_to_stop(reason, math.inf)
        tasks: list[asyncio.Task[Any]] = [job.task for job in self._jobs.values() if job.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=self.settings.grace_seconds)
        renewing.cancel()
        for job in list(self._jobs.values()):
            job.end()
        await asyncio.gather(renewing, *tasks, return_exceptions=True)
        await self.pool.end()
        try:
            # A claim that was cancelled on its way may have gone through all the same.
            await wait_out(lambda: self.desk.revoke_own(reason, started=False), seconds_max=_GIVE_BACK_SECONDS_MAX)
        except errors.TRANSIENT as error:
            log.warning("%s: leases cannot be given back and will expire: %s", self.node, error)
