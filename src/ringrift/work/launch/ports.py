"""The port to workers: what runs the jobs of a workload."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from ringrift.workload.api import JobResult, JobSpec

ReportProgress = Callable[["Progress"], None]


class Progress(NamedTuple):
    """A report of a working worker: the share that is done, metrics, and the last checkpoint."""

    done: float
    metrics: Mapping[str, float]
    checkpoint: str | None = None
    traceback: str = ""  # with its last report: where it was when it was killed


class Worker(Protocol):
    """Runs the jobs of one workload, one at a time."""

    async def run(self, spec: JobSpec, resume: str | None, report: ReportProgress) -> JobResult:
        """Run one job, at the caller's place in its trace.  Raises JobFailed, ChildDied, NoRoom or NodeAway.

        It reports once before it runs the job: a failure before that is the node's.  Cancelling it kills the worker.
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
        """A worker for *workload*.  Raises ChildDied or OSError."""
