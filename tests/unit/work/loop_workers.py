"""Workers and their launch without a process: they run the function that a test gives them."""

import asyncio
from collections.abc import Awaitable, Callable

from ringrift.work.launch.ports import Progress, ReportProgress
from ringrift.workload.api import JobResult, JobSpec

Behaviour = Callable[["LoopWorker", JobSpec, ReportProgress], Awaitable[JobResult]]


async def nothing(worker: "LoopWorker", spec: JobSpec, report: ReportProgress) -> JobResult:
    """A job that is done at once."""
    return JobResult()


class LoopWorker:
    """A worker on the loop: records its specs and how it was ended."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self.memory = 100
        self.specs: list[JobSpec] = []
        self.resumed: list[str | None] = []
        self.stop = asyncio.Event()
        self.ended: float | None = None

    async def run(self, spec: JobSpec, resume: str | None, report: ReportProgress) -> JobResult:
        assert self.ended is None, "a worker that was ended is not used again"
        report(Progress(0.0, {}))  # as the process does when it gets a job
        self.specs.append(spec)
        self.resumed.append(resume)
        return await self._behaviour(self, spec, report)

    def ask_to_stop(self) -> None:
        self.stop.set()

    async def end(self, grace_seconds: float) -> None:
        self.ended = grace_seconds


class LoopLaunch:
    """Starts workers that do *behaviour*."""

    def __init__(self, behaviour: Behaviour = nothing) -> None:
        self._behaviour = behaviour
        self.workers: list[LoopWorker] = []

    async def start(self, workload: str) -> LoopWorker:
        self.workers.append(LoopWorker(self._behaviour))
        return self.workers[-1]
