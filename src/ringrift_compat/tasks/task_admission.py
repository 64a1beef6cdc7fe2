"""Admission of tasks: a place is requested and taken in one transaction, so that no limit is ever passed.

Tasks are rows of the jobs table (see :mod:`ringrift.work.tasks`), and every limit is a look-up of its counters.
A refusal uses up nothing, and the refusing verdict is stored for ``ringrift why``.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.events.work import TaskChanged
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import IdConflict, LimitReached, TooLarge, require_name
from ringrift.kernel.stall_detector import StallDetector
from ringrift.kernel.value import changed
from ringrift.kernel.verdict import Verdict
from ringrift.store.ports import TASK_PREFIX, TASKS_RETAINED, JobCounter, Reads, Store, TaskRequest, Tx
from ringrift.store.records import Records
from ringrift.work import run_states
from ringrift.work import tasks as core
from ringrift.work.limits import VERDICTS
from ringrift.work.run_states import RunState, load_run_states
from ringrift.work.tasks import ALL, ENDS, TASK_KINDS, TASK_TOTALS, HostTick, Task, TaskTotals, running_tasks
from ringrift_compat.tasks import task_limits as rules
from ringrift_compat.tasks.task_limits import TaskLimits, TaskStart, copy_metadata

_RETRY_SECONDS = 0.5
_Metadata = Mapping[str, Any] | None
_Fences = Mapping[str, int] | None
_LIMITS = Records("task_limits", TaskLimits)
_STARTS = Records("task_starts", tuple[TaskStart, ...])
"""Starts of the last minute, by host."""


async def load_limits(view: Reads) -> TaskLimits:
    """The limits in force for tasks."""
    return await _LIMITS.get(view, ALL) or TaskLimits()


async def load_totals(view: Reads) -> TaskTotals:
    """How many tasks were refused, and how many ended in each way."""
    return await TASK_TOTALS.get(view, ALL) or TaskTotals()


async def last_tasks(view: Reads) -> list[Task]:
    """Every task that has a place, and of those that ended the newest, oldest first."""
    newest = core.decode_tasks(row for row in await view.last_tasks(TASKS_RETAINED) if row.body)
    fences = {task.fence for task in newest}
    return [task for task in await running_tasks(view) if task.fence not in fences] + newest


async def _recent_starts(view: Reads, here: HostTick) -> tuple[TaskStart, ...]:
    return rules.starts_within(await _STARTS.get(view, here.host) or (), here.tick)


async def _check(
    view: Reads, task: Task, *, here: HostTick, now: float, without: Iterable[Task] = ()
) -> tuple[Verdict, tuple[TaskStart, ...]]:
    """The verdict on *task* if those *without* had ended, and the starts that it rests on."""
    counters = await view.job_counters("claimed", TASK_KINDS | core.kinds_like(task.type))
    ended = [
        JobCounter(kind=TASK_PREFIX + other.type, variant=other.variant, holder=other.node, count=-1)
        for other in without
    ]
    limits, starts = await load_limits(view), await _recent_starts(view, here)
    states, running = await load_run_states(view), [*counters, *ended]
    return rules.check_start(task, running, starts, limits, run_states=states, tick=here.tick, now=now), starts


def _last_metadata(before: dict[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Both together, or if that is too much only the last: too much metadata must not keep a place taken."""
    last = copy_metadata(metadata)
    try:
        return copy_metadata(before | last)
    except TooLarge:
        return last


async def _store_verdict(tx: Tx, task: Task, verdict: Verdict) -> None:
    """Store a refusal with the time of the first one; an admission deletes it."""
    id = f"{task.variant or task.node}:{verdict.gate}"
    before = await VERDICTS.get(tx, id)
    if verdict.allowed:
        await VERDICTS.delete(tx, [id] if before else [])
        return
    index = {"node": task.node} | ({"variant": task.variant} if task.variant else {})
    await VERDICTS.put_at(tx, {id: verdict.with_since_of(before)}, index)


class Admission:
    """Admits, renews and ends the tasks of one host."""

    def __init__(self, store: Store, clock: Clock, host: str, envelopes: EnvelopeFactory) -> None:
        self._store, self._clock, self._host, self._envelopes = store, clock, host, envelopes
        self._stall_detector = StallDetector()

    @property
    def here(self) -> HostTick:
        """Now, on this host."""
        return HostTick(host=self._host, tick=self._clock.tick())

    async def check(self, task: Task) -> Verdict:
        """The verdict that *task* would get now.  It takes nothing and is not counted."""
        rules.check_task(task)
        async with self._store.read() as view:
            here, now = self.here, self._clock.now()
            verdict, _ = await _check(view, task, here=here, now=now)
            if not verdict.allowed and (orphans := await self._orphans(view)):
                verdict, _ = await _check(view, task, here=here, now=now, without=orphans)
        return verdict

    async def admit(self, task: Task) -> Task:
        """Give *task* a place; if there is none, after the places of dead tasks were freed.

        Raises LimitReached, with the verdict stored, and IdConflict while a task of this id runs.
        """
        rules.check_task(task)
        async with self._store.begin() as tx:
            here, now = self.here, self._clock.now()
            verdict, starts = await _check(tx, task, here=here, now=now)
            is_taken = bool(await running_tasks(tx, [task.id]))
            if is_taken or not verdict.allowed:
                await self._end_orphans(tx)
                verdict, starts = await _check(tx, task, here=here, now=now)
            if is_taken and await running_tasks(tx, [task.id]):
                raise IdConflict(task.id)
            await _store_verdict(tx, task, verdict)
            if verdict.allowed:
                return await self._start(tx, task, starts, here=here, now=now)
            totals = await load_totals(tx)
            await TASK_TOTALS.put_at(tx, {ALL: changed(totals, refused=totals.refused + 1)})
        raise LimitReached(f"task {task.id}", verdict.rule, verdict.value, verdict.limit)

    async def _start(self, tx: Tx, task: Task, starts: tuple[TaskStart, ...], *, here: HostTick, now: float) -> Task:
        started = changed(task, since=now, beat=now, beat_at=here)
        seconds = (await load_limits(tx)).beat_seconds_max
        request = TaskRequest(
            kind=TASK_PREFIX + task.type,
            variant=task.variant,
            key=TASK_PREFIX + task.id,
            body=msgspec.json.encode(started),
            holder=task.node,
            seconds=seconds,
            time=now,
        )
        [fence] = await tx.register_tasks([request])
        if fence is None:
            raise IdConflict(task.id)
        await _STARTS.put_at(tx, {here.host: (*starts, TaskStart(tick=here.tick, type=task.type))})
        facts = {name: getattr(task, name) for name in ("node", "state", "variant", "metadata")}
        event = TaskChanged(task=task.id, kind=task.type, **facts)
        await tx.append([self._envelopes.make(event, source="admission")])
        return changed(started, fence=fence)

    async def wait_admit(self, task: Task, seconds: float) -> Task:
        """Give *task* a place as soon as there is one within *seconds*.  Raises LimitReached, IdConflict."""
        until = self._clock.tick() + seconds
        while True:
            left = until - self._clock.tick()
            if left <= 0 or (await self.check(task)).allowed:
                try:
                    return await self.admit(task)
                except LimitReached:
                    if left <= 0:
                        raise
            await self._store.wait(None, min(_RETRY_SECONDS, max(left, 0.0)))

    async def beat(self, ids: Sequence[str], metadata: _Metadata = None, *, fences: _Fences = None) -> list[str]:
        """Record that these tasks live, with *metadata* added to theirs; the ids of those that have a place."""
        async with self._store.begin() as tx:
            tasks = await self._with_fences(tx, ids, fences or {})
            for task in tasks:
                merged = copy_metadata(task.metadata | dict(metadata or {}))
                beat = {"beat": self._clock.now(), "beat_at": self.here, "beats": task.beats + 1}
                await tx.change_tasks([core.task_change(changed(task, metadata=merged, **beat))])
        return [task.id for task in tasks]

    async def finish(
        self, id: str, end: str, reason: str = "", *, metadata: _Metadata = None, fences: _Fences = None
    ) -> Task | None:
        """End the task *id*; None if it has no place, or if another task has this id by now."""
        require_name("end of a task", end, ENDS)
        async with self._store.begin() as tx:
            for task in await self._with_fences(tx, [id], fences or {}):
                last = changed(task, state=end, reason=reason, metadata=_last_metadata(task.metadata, metadata or {}))
                [ended] = await core.end_tasks(tx, self._envelopes, [last], self._clock.now())
                return ended
        return None

    async def sweep(self) -> list[Task]:
        """End every task whose process is dead or whose beats have stopped; those tasks."""
        async with self._store.read() as view:
            if not await self._orphans(view):
                return []
        async with self._store.begin() as tx:
            return await self._end_orphans(tx)

    async def set_state(self, state: str, reason: str = "", by: str = "") -> RunState:
        """Set the run state of the whole cluster: see :mod:`ringrift.work.run_states`."""
        scope, now = run_states.CLUSTER, self._clock.now()
        async with self._store.begin() as tx:
            return await run_states.set_run_state(
                tx, self._envelopes, scope=scope, state=state, reason=reason, by=by, now=now
            )

    async def set_limits(self, limits: TaskLimits) -> None:
        """Put *limits* in force for every task and every claim of this store; what runs already stays."""
        async with self._store.begin() as tx:
            await _LIMITS.put_at(tx, {ALL: limits})

    async def _with_fences(self, tx: Tx, ids: Sequence[str], fences: Mapping[str, int]) -> list[Task]:
        """The tasks *ids* that have a place, without those whose id belongs to a later admission by now."""
        return [task for task in await running_tasks(tx, ids) if fences.get(task.id, task.fence) == task.fence]

    async def _end_orphans(self, tx: Tx) -> list[Task]:
        return await core.end_tasks(tx, self._envelopes, await self._orphans(tx), self._clock.now())

    async def _orphans(self, view: Reads) -> list[Task]:
        tasks, here = await running_tasks(view), self.here
        seconds = (await load_limits(view)).beat_seconds_max
        stalled = self._stall_detector.stalled(core.observe(tasks, here.host, seconds), here.tick)
        return core.find_orphans(tasks, here, seconds, stalled)
