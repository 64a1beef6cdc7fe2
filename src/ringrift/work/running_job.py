"""A job under its lease: its progress, its silence, and what its failure says about the job or about the node."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from traceback import format_exception
from typing import Literal, TypeVar

import msgspec

from ringrift.jobs import Job
from ringrift.kernel import errors
from ringrift.kernel.value import changed
from ringrift.store.ports import Lease, Renewal
from ringrift.work.checkpoints import Checkpoint, decode_checkpoints
from ringrift.work.desk import Fault
from ringrift.work.durations import JobRun
from ringrift.work.failures import TRACEBACK_CHARACTERS_MAX
from ringrift.work.launch.ports import Progress, Worker

_TRUST = 2 / 3  # share of its lease after which a holder without progress stops: another node waits for all of it
_PUBLISH_SECONDS = 1.0  # between two events about the progress of a job: a worker may report much more often
_Phase = Literal["fetching", "starting", "sent", "running", "delivering"]  # from *running* on a failure is the job's
T = TypeVar("T")


def last_checkpoint(lease: Lease) -> Checkpoint | None:
    """The checkpoint that an earlier holder registered last, if there is one."""
    return next(reversed(decode_checkpoints(lease.outputs)), None)


class RunningJob:
    """A job under its lease, and its progress."""

    def __init__(self, lease: Lease, job: Job, tick: float) -> None:
        self.lease, self.job = lease, job
        self.started_at = self.progress_at = self.renewed_at = self.published_at = tick
        self.progress = self._silence = self.cpu_seconds = 0.0
        self.metrics: Mapping[str, float] = {}
        self.published: tuple[float, Mapping[str, float]] = (0.0, {})
        self.checkpoint: str | None = None
        self.registered: str | None = None
        self.worker: Worker | None = None
        self.task: asyncio.Task[None] | None = None
        self.traceback = ""  # where it was when it died or was killed
        self.end_cause = ""  # why it was killed: it is *silent*, or its lease is *lost*
        self.stop_reason = ""  # why it was asked to stop: then its end uses up no try
        self.kill_at = math.inf
        self.phase: _Phase = "fetching"
        self.is_ending = False  # the end of its lease is on its way: its answer says what became of it, no renewal does

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for its worker or for the store: it reports no progress then, but has another time limit."""
        return self.phase in ("starting", "delivering")

    def end(self, cause: str = "silent") -> None:
        """Kill it, once: the steps that follow must not be cancelled."""
        if self.task is not None and not self.end_cause:
            self.end_cause = cause
            self.task.cancel()

    async def end_lease(self, send: Callable[[], Awaitable[T]]) -> T:
        """Send the end of its lease, once; a renewal that it overtakes finds the lease gone, which is no loss."""
        self.is_ending = True
        try:
            return await send()
        finally:
            self.is_ending = False

    def ask_to_stop(self, reason: str, kill_at: float) -> None:
        """Ask it to end with what it has, and have it killed at *kill_at*."""
        if self.worker is not None and not self.stop_reason:
            self.worker.ask_to_stop()
        self.stop_reason, self.kill_at = self.stop_reason or reason, min(self.kill_at, kill_at)

    def update(self, progress: Progress, tick: float) -> None:
        """Store a report of the worker: any but its last, where it was at its end, is progress."""
        if progress.traceback:
            self.traceback = progress.traceback
            return
        self._silence = self._silence if self.is_waiting else max(self._silence, tick - self.progress_at)
        self.phase = "running" if self.phase == "sent" else self.phase
        self.progress_at, self.progress = tick, min(max(progress.done, 0.0), 1.0)
        self.metrics = progress.metrics or self.metrics
        self.checkpoint = progress.checkpoint or self.checkpoint

    def measure(self, tick: float) -> JobRun:
        """How long it took until *tick*, and its longest silence."""
        silence, seconds = max(self._silence, tick - self.progress_at), tick - self.started_at
        run = JobRun(kind=self.lease.kind, variant=self.lease.variant, size=self.job.size, seconds=seconds)
        return changed(run, silence=silence, cpu_seconds=self.cpu_seconds)

    def is_worth_publishing(self, tick: float) -> bool:
        """Whether it has progressed since the last event about it, and that was long enough ago."""
        if tick - self.published_at < _PUBLISH_SECONDS or self.published == (self.progress, self.metrics):
            return False
        self.published, self.published_at = (self.progress, self.metrics), tick
        return True

    def needs_renewal(self, is_due: bool) -> bool:
        """Whether it has earned a renewal that *is_due*, or has a checkpoint to register at once."""
        has_lived = self.progress_at > self.renewed_at or self.is_waiting
        return has_lived if is_due else self.checkpoint != self.registered

    def is_silent(self, tick: float) -> bool:
        """Whether it has made no progress for so long that it must not rely on its lease any more."""
        return tick - self.progress_at > _TRUST * self.lease.seconds and not self.is_waiting

    def renewal(self, node: str) -> Renewal:
        """The claim to its lease, with the partial outputs to register, from which the next holder can go on."""
        blob = self.checkpoint
        outputs = None if blob is None else msgspec.json.encode([Checkpoint(blob=blob, node=node)])
        return Renewal(job=self.lease.job, fence=self.lease.fence, progress=self.progress, outputs=outputs)

    def fault(self, error: Exception, deadline: float) -> Fault:
        """The consequence of *error* for the lease: the node's failures use up no try, the job's do."""
        traceback = getattr(error, "traceback", "") or self.traceback
        fault, text = partial(Fault, lease=self.lease, traceback=traceback), str(error) or type(error).__name__
        if (cause := self._outside_cause(error)) is not None:
            return fault(error=text, cause=cause, started=False)
        match error:
            case errors.JobFailed() | errors.NoRoute():
                version, retry = getattr(error, "version", ""), getattr(error, "retry", True)
                return fault(error=text, retry=retry, blob=error.blob, version=version)
            case errors.ChildDied() | errors.TransferError():
                return fault(error=text, cause="child_died" if isinstance(error, errors.ChildDied) else "error")
            case TimeoutError():
                return fault(error=f"not done within the deadline of {deadline:g} s", cause="timeout")
        traceback = "".join(format_exception(error))[-TRACEBACK_CHARACTERS_MAX:]
        return fault(error=f"{type(error).__name__}: {error}", traceback=traceback)

    def _outside_cause(self, error: Exception) -> str | None:
        """What a node lacks, if that is why it failed: see :data:`ringrift.work.breakers.NODE_CAUSES`; *away*, *busy*.

        A worker that cannot be started, or that dies before it has sent a message about the job, failed without having
        seen the job; a full or missing disk of this node lets every job fail.
        """
        if self.job.runs_in != "node":
            if self.phase == "starting" or (self.phase == "sent" and isinstance(error, errors.ChildDied)):
                return "spawn"
            if isinstance(error, errors.NodeAway) and error.node == self.lease.holder:
                return "folder_away"
            if isinstance(error, errors.NoRoom):
                return "no_room"
        if isinstance(error, errors.NodeAway) or (isinstance(error, errors.NoRoute) and not error.gone):
            return "away"  # which is not gone
        return "busy" if isinstance(error, errors.TRANSIENT) else None
