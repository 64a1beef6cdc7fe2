"""Hands: workers and their launch without a process, which do at once whatever a test tells them to."""

import asyncio
from collections.abc import Awaitable, Callable

from ringrift.work.launch.ports import Report
from ringrift.workload.api import JobResult, JobSpec

Deed = Callable[["LoopWorker", JobSpec, Report], Awaitable[JobResult]]


async def nothing(worker: "LoopWorker", spec: JobSpec, report: Report) -> JobResult:
    """A job that is done at once."""
    return JobResult()


class LoopWorker:
    """A worker on the loop: remembers what it was asked, and how it was treated."""

    def __init__(self, deed: Deed) -> None:
        self._deed = deed
        self.memory = 100
        self.specs: list[JobSpec] = []
        self.resumed: list[str | None] = []
        self.stop = asyncio.Event()
        self.ended: float | None = None

    async def run(self, spec: JobSpec, resume: str | None, report: Report) -> JobResult:
        assert self.ended is None, "a worker that was ended is not used again"
        self.specs.append(spec)
        self.resumed.append(resume)
        return await self._deed(self, spec, report)

    def ask_to_stop(self) -> None:
        self.stop.set()

    async def end(self, grace_seconds: float) -> None:
        self.ended = grace_seconds


class LoopLaunch:
    """Starts workers that do *deed*."""

    def __init__(self, deed: Deed = nothing) -> None:
        self._deed = deed
        self.workers: list[LoopWorker] = []

    async def start(self, workload: str) -> LoopWorker:
        self.workers.append(LoopWorker(self._deed))
        return self.workers[-1]
