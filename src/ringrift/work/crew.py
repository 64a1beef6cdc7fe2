"""Crew: the workers of a node, kept warm between jobs and replaced before they go stale."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ringrift.jobs import Job
from ringrift.kernel.settings import WorkSettings
from ringrift.store.ports import Lease
from ringrift.work.launch.ports import Launch, Worker
from ringrift.work.translate import to_spec
from ringrift.workload.api import JobSpec


class Hand:
    """One worker and what it has done."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.jobs = 0
        self.first_memory = 0


def stale(hand: Hand, settings: WorkSettings) -> bool:
    """Whether a worker should be replaced: many jobs done, or grown too much since its first."""
    grown = hand.worker.memory - hand.first_memory
    return hand.jobs >= settings.jobs_per_child or (hand.first_memory > 0 and grown > settings.child_growth_bytes_max)


class Crew:
    """Workers of one workload."""

    def __init__(self, launch: Launch, settings: WorkSettings) -> None:
        self._launch, self._settings = launch, settings
        self._idle: list[Hand] = []

    @asynccontextmanager
    async def worker(self, *, isolate: bool = False) -> AsyncIterator[Worker]:
        """A worker for one job.  After any failure, when stale or isolated, it is not used again."""
        hand = self._idle.pop() if self._idle and not isolate else None
        if hand is None:
            hand = Hand(await self._launch.start(self._settings.workload))
        try:
            yield hand.worker
        except BaseException:
            await asyncio.shield(hand.worker.end(0.0))
            raise
        hand.jobs += 1
        hand.first_memory = hand.first_memory or hand.worker.memory
        if isolate or stale(hand, self._settings):
            await asyncio.shield(hand.worker.end(self._settings.grace_seconds))
        else:
            self._idle.append(hand)

    def spec(self, job: Job, lease: Lease) -> JobSpec:
        """What a worker is asked for *job*."""
        return to_spec(job, lease.job, lease.attempts, self._settings.params)

    async def end(self) -> None:
        """End every idle worker, all within one grace period."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*(hand.worker.end(self._settings.grace_seconds) for hand in idle))
