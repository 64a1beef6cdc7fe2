"""Workers of one workload, kept warm between jobs and replaced before they are worn out."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from ringrift.kernel.settings import WorkSettings
from ringrift.work.launch.ports import Launch, Worker


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
    async def worker(self, *, isolate: bool = False, was_stopped: Callable[[], bool] = bool) -> AsyncIterator[Worker]:
        """A worker for one job.  It is not used again after a failure, when worn out, or if *isolate* is set."""
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
        # One that was asked to stop ends after its job, and would take the next one with it.
        if isolate or was_stopped() or pooled.is_worn_out(self._settings):
            await asyncio.shield(pooled.worker.end(self._settings.grace_seconds))
        else:
            self._idle.append(pooled)

    async def end(self) -> None:
        """End every idle worker, all within one grace period."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*(pooled.worker.end(self._settings.grace_seconds) for pooled in idle))
