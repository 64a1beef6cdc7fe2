"""Workers, each of one workload, kept warm between jobs and replaced before they are worn out."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from ringrift.kernel.settings import WorkSettings
from ringrift.work.launch.ports import Launch, Worker


class _PooledWorker:
    """A worker of *workload*, the number of jobs it has done, and its memory after the first."""

    def __init__(self, worker: Worker, workload: str) -> None:
        self.worker, self.workload, self.jobs, self.first_memory = worker, workload, 0, 0

    def is_worn_out(self, settings: WorkSettings) -> bool:
        """Whether it has done enough jobs or has grown too much since its first."""
        growth = self.worker.memory - self.first_memory if self.first_memory else 0
        return self.jobs >= settings.jobs_per_child or growth > settings.child_growth_bytes_max


class WorkerPool:
    """Workers of any workload: those that are idle and those that work are together no more than the node's slots."""

    def __init__(self, launch: Launch, settings: WorkSettings) -> None:
        self._launch, self._settings = launch, settings
        self._idle: list[_PooledWorker] = []  # the last one used last
        self._busy = 0

    @asynccontextmanager
    async def worker(
        self, workload: str, *, isolate: bool = False, was_stopped: Callable[[], object] = bool
    ) -> AsyncIterator[Worker]:
        """A worker of *workload* for one job; not used again after a failure, when worn out, or if *isolate* is set."""
        self._busy += 1
        try:
            async with self._use(workload, isolate, was_stopped) as worker:
                yield worker
        finally:
            self._busy -= 1

    @asynccontextmanager
    async def _use(self, workload: str, isolate: bool, was_stopped: Callable[[], object]) -> AsyncIterator[Worker]:
        warm = [pooled for pooled in self._idle if pooled.workload == workload and not isolate][-1:]
        # One that this job does not use makes room, the one that has been idle for longest first.
        surplus = max(len(self._idle) - len(warm) + self._busy - self._settings.slots, 0)
        ending = [pooled for pooled in self._idle if pooled not in warm][:surplus]
        self._idle = [pooled for pooled in self._idle if pooled not in (*warm, *ending)]
        await asyncio.shield(asyncio.gather(*(old.worker.end(self._settings.grace_seconds) for old in ending)))
        pooled = warm[0] if warm else _PooledWorker(await self._launch.start(workload), workload)
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
