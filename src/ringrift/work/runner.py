"""Runner: claims jobs, has them done by workers, and says what came of them.

It renews a lease only while the work reports progress.  A job that is silent too long, past its deadline or no longer
ours is killed.  On the way out running jobs are asked to end early, then killed and given back.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from ringrift import jobs
from ringrift.bus import spans, trace
from ringrift.events import work
from ringrift.events.base import Event
from ringrift.jobs import NODE_KINDS, Job
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import (
    ChildDied,
    InputError,
    JobFailed,
    LeaseLost,
    NoRoute,
    TransferError,
    UnknownName,
    Unreachable,
    told,
)  # fmt: skip
from ringrift.kernel.settings import WorkSettings
from ringrift.kernel.value import Value
from ringrift.store.ports import Held, Lease
from ringrift.work.crew import Crew
from ringrift.work.desk import ERROR_CHARACTERS_MAX, Done, Fault, Made, StoreDesk
from ringrift.work.launch.ports import Word, Worker
from ringrift.workload.api import JobResult

RENEWALS_PER_LEASE = 3
TRUST = 2 / 3
"""Share of its lease after which a silent holder stops by itself: the taker waits for all of it."""
KEEP_SECONDS_MAX = 0.5
"""How long a checkpoint may be known to this process alone."""
TELL_SECONDS = 1.0
"""Between two tellings of how far a job is: a worker may report much more often."""
log = logging.getLogger(__name__)

Moved = Callable[[], None]
Stage = Callable[[Sequence[str], "Checkpoint | None", Moved], Awaitable[None]]
Move = Callable[[Job, Moved], Awaitable[Made]]
Conclude = Callable[[Job, JobResult], Made]
Wait = Callable[[float], Awaitable[None]]
Tell = Callable[[Event], object]


class Checkpoint(Value):
    """Where an earlier holder of a job left off: a partial output, registered under its fence."""

    blob: str
    node: str


def left_by(lease: Lease) -> Checkpoint | None:
    """The checkpoint that comes with *lease*, if an earlier holder left one."""
    left = msgspec.json.decode(lease.outputs, type=list[Checkpoint])
    return left[-1] if left else None


class Task:
    """One job on its way."""

    def __init__(self, lease: Lease, job: Job, tick: float) -> None:
        self.lease, self.job = lease, job
        self.began = self.heard = self.renewed = tick
        self.progress = 0.0
        self.metrics: Mapping[str, float] = {}
        self.told: tuple[float, Mapping[str, float]] = (0.0, {})
        self.told_at = tick
        self.checkpoint: str | None = None
        self.registered: str | None = None
        self.worker: Worker | None = None
        self.running: asyncio.Task[None] | None = None
        self.lost = self.ended = False
        self.starting = False
        """Its worker is being started: that says nothing, but has a time limit of its own."""

    def end(self, *, lost: bool) -> None:
        """Kill it, once: what follows must not be killed on its way."""
        if self.running is not None and not self.ended:
            self.lost, self.ended = lost, True
            self.running.cancel()

    def hear(self, word: Word, tick: float) -> None:
        """Take in what the worker says: any word is a sign of progress."""
        self.heard, self.progress = tick, min(max(word.done, 0.0), 1.0)
        self.metrics = word.metrics or self.metrics
        self.checkpoint = word.checkpoint or self.checkpoint

    def is_further(self, tick: float) -> bool:
        """Whether it has come further since that was last told, and it is time to tell again."""
        if tick - self.told_at < TELL_SECONDS or self.told == (self.progress, self.metrics):
            return False
        self.told, self.told_at = (self.progress, self.metrics), tick
        return True

    def outputs(self, node: str) -> bytes | None:
        """The partial outputs to register under the fence, so that the next holder can go on from them."""
        return None if self.checkpoint is None else msgspec.json.encode([Checkpoint(blob=self.checkpoint, node=node)])


class Runner:
    """Does jobs for one node."""

    def __init__(
        self, node: str, desk: StoreDesk, crew: Crew, clock: Clock, settings: WorkSettings, kinds: Collection[str], *,
        stage: Stage, move: Move, conclude: Conclude, wait: Wait, tell: Tell,
    ) -> None:  # fmt: skip
        self._node, self._desk, self._crew, self._clock = node, desk, crew, clock
        self._settings, self.kinds = settings, frozenset(kinds)
        """Of which kinds it takes jobs; it may be told otherwise at any time."""
        self._stage, self._move, self._conclude, self._wait = stage, move, conclude, wait
        self._tell = tell
        self._tasks: dict[str, Task] = {}
        self.draining = False

    async def run(self, alive: Callable[[], None]) -> None:
        """Claim and do jobs until cancelled; then end in good order within the grace period."""
        self.draining = False
        renewing = asyncio.get_running_loop().create_task(self._renew_forever(), name=f"{self._node}:renew")
        try:
            while True:
                free = self._settings.slots - len(self._tasks)
                if free > 0 and self.kinds:
                    for lease in await self._desk.claim(self.kinds, free):
                        await self._begin(lease)
                alive()
                if renewing.done():
                    renewing.result()
                await self._wait(self._settings.lease_seconds / RENEWALS_PER_LEASE)
        finally:
            await asyncio.shield(self._drain(renewing))

    async def _begin(self, lease: Lease) -> None:
        try:
            job = jobs.decode(lease.kind, lease.body)
        except (InputError, UnknownName) as unreadable:
            await self._desk.fail([Fault(lease=lease, error=str(unreadable), retry=False)])
            return
        task = Task(lease, job, self._clock.tick())
        self._tasks[lease.job] = task
        self._tell(work.Started(**self._about(lease), attempts=lease.attempts))
        task.running = asyncio.get_running_loop().create_task(self._do(task), name=f"{self._node}:{lease.key}")

    async def _do(self, task: Task) -> None:
        """Do one job and settle its lease, whatever happens."""
        try:
            with spans.doing(task.lease):
                async with asyncio.timeout(self._settings.deadline_seconds):
                    made = await self._result(task)
                held = Held(job=task.lease.job, fence=task.lease.fence)
                await self._desk.finish([Done(held=held, made=made, context=trace.written(trace.current()))])
                self._tell(work.Finished(**self._about(task.lease), seconds=self._clock.tick() - task.began))
        except LeaseLost:
            log.info("%s: somebody else holds %s now", self._node, task.lease.key)
            self._tell_failed(task.lease, "somebody else holds it now")
        except asyncio.CancelledError:
            if task.lost:
                self._tell_failed(task.lease, "somebody else holds it now")
            else:
                await self._give_back(task)
        except Unreachable:
            raise
        except Exception as wrong:  # noqa: BLE001 - whatever went wrong ends this lease, not this node
            fault = _fault(task.lease, wrong, self._settings.deadline_seconds)
            # What a job could not bring to its end because it was asked to stop is no try of its own.
            await self._fail(msgspec.structs.replace(fault, started=not self.draining))
        finally:
            del self._tasks[task.lease.job]

    async def _give_back(self, task: Task) -> None:
        """A killed job: silent ones have had their try, the others were only in the way of our leaving."""
        silent = not self.draining
        error = "no progress reported" if silent else f"node {self._node} is stopping"
        await self._fail(Fault(lease=task.lease, error=error, started=silent))

    async def _fail(self, fault: Fault) -> None:
        await self._desk.fail([fault])
        self._tell_failed(fault.lease, fault.error, again=not self._desk.buries(fault))

    def _tell_failed(self, lease: Lease, error: str, *, again: bool = True) -> None:
        self._tell(work.Failed(**self._about(lease), error=told(error, ERROR_CHARACTERS_MAX), again=again))

    def _about(self, lease: Lease) -> dict[str, Any]:
        return {"job": lease.job, "kind": lease.kind, "variant": lease.variant, "node": self._node}

    def _hear(self, task: Task, word: Word) -> None:
        tick = self._clock.tick()
        task.hear(word, tick)
        if task.is_further(tick):
            self._tell(work.Progressed(**self._about(task.lease), done=task.progress, metrics=dict(task.metrics)))

    async def _result(self, task: Task) -> Made:
        def moved() -> None:
            self._hear(task, Word(task.progress, {}))

        if task.lease.kind in NODE_KINDS:
            return await self._move(task.job, moved)
        left = left_by(task.lease)
        await self._stage(task.job.blobs, left, moved)
        task.starting = True
        async with self._crew.worker(isolate=task.job.isolate) as worker:
            moved()
            task.worker, task.starting = worker, False
            if self.draining:
                worker.ask_to_stop()
            spec, resume = self._crew.spec(task.job, task.lease), left.blob if left else None
            result = await worker.run(spec, resume, lambda word: self._hear(task, word))
        return self._conclude(task.job, result)

    async def _renew_forever(self) -> None:
        interval = self._settings.lease_seconds / RENEWALS_PER_LEASE
        looks = math.ceil(interval / KEEP_SECONDS_MAX)
        while True:
            for _ in range(looks - 1):
                await asyncio.sleep(interval / looks)
                await self._renew([t for t in self._tasks.values() if t.checkpoint != t.registered])
            await asyncio.sleep(interval / looks)
            await self._renew([t for t in self._tasks.values() if t.heard > t.renewed or t.starting])

    async def _renew(self, moving: "list[Task]") -> None:
        """Renew what moves, kill what does not."""
        tick, trust = self._clock.tick(), TRUST * self._settings.lease_seconds
        for task in self._tasks.values():
            if tick - task.heard > trust and not task.starting:
                task.end(lost=False)
        kept = {task.lease.job: task.checkpoint for task in moving}
        while moving:
            try:
                await self._desk.renew([
                    Held(job=t.lease.job, fence=t.lease.fence, progress=t.progress, outputs=t.outputs(self._node))
                    for t in moving
                ])  # fmt: skip
                break
            except LeaseLost as lost:
                for task in moving:
                    if task.lease.job in lost.names:
                        task.end(lost=True)
                moving = [task for task in moving if task.lease.job not in lost.names]
        for task in moving:
            task.renewed, task.registered = tick, kept[task.lease.job]

    async def _drain(self, renewing: "asyncio.Task[None]") -> None:
        """Ask running jobs to end with what they have; kill and give back those that do not in time."""
        self.draining = True
        for task in self._tasks.values():
            if task.worker is not None:
                task.worker.ask_to_stop()
        running: list[asyncio.Task[Any]] = [t.running for t in self._tasks.values() if t.running is not None]
        if running:
            await asyncio.wait(running, timeout=self._settings.grace_seconds)
        renewing.cancel()
        for task in list(self._tasks.values()):
            task.end(lost=False)
        await asyncio.gather(renewing, *running, return_exceptions=True)
        await self._crew.end()
        # A claim that was cancelled on its way may have gone through all the same.
        await self._desk.take_back_own(f"node {self._node} is stopping", started=False)


def _fault(lease: Lease, wrong: Exception, deadline: float) -> Fault:
    """What a failure means for the lease: some can be tried again, some cannot, some name the input at fault."""
    match wrong:
        case JobFailed():
            return Fault(lease=lease, error=wrong.reason, retry=wrong.retry, blob=wrong.blob)
        case NoRoute():
            return Fault(lease=lease, error=str(wrong), blob=wrong.blob if wrong.gone else None)
        case ChildDied() | TransferError():
            return Fault(lease=lease, error=str(wrong))
        case TimeoutError():
            return Fault(lease=lease, error=f"not done within the deadline of {deadline:g} s")
    log.warning("job %s failed", lease.key, exc_info=wrong)
    return Fault(lease=lease, error=f"{type(wrong).__name__}: {wrong}")
