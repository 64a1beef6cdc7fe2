"""The seam to whatever runs a workload's jobs."""

from collections.abc import Callable, Mapping
from typing import Protocol

from ringrift.workload.api import JobResult, JobSpec

Report = Callable[["Word"], None]


class Word:
    """One thing a worker says while it works: how far it is, or a checkpoint it has kept."""

    __slots__ = ("checkpoint", "done", "metrics")

    def __init__(self, done: float, metrics: Mapping[str, float], checkpoint: str | None = None) -> None:
        self.done, self.metrics, self.checkpoint = done, metrics, checkpoint


class Worker(Protocol):
    """Somebody who does the jobs of one workload, one at a time."""

    async def run(self, spec: JobSpec, resume: str | None, report: Report) -> JobResult:
        """Do one job, at the place in its trace where the caller runs.  Raises JobFailed or ChildDied.

        Cancelling it kills the worker.
        """

    def ask_to_stop(self) -> None:
        """Ask the running job to end early with what it has."""

    async def end(self, grace_seconds: float) -> None:
        """Ask, wait, then kill.  Leaves nothing behind."""

    @property
    def memory(self) -> int:
        """Bytes it had resident when it last reported."""


class Launch(Protocol):
    """Starts workers."""

    async def start(self, workload: str) -> Worker:
        """A worker for *workload*.  Raises ChildDied, UnknownName."""
