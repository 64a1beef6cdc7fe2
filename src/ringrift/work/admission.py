"""Admission of tasks: a place is requested and taken in one transaction, so that no limit is ever passed.

A refusal uses up nothing, and the refusing verdict is stored for ``ringrift why``.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from ringrift.events.base import Envelope
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import IdConflict, LimitReached, TooLarge, UnknownName, printable
from ringrift.kernel.stall_detector import Observation, StallDetector
from ringrift.kernel.value import Value
from ringrift.kernel.verdict import Verdict
from ringrift.store.ports import Reads, Store, Tx
from ringrift.store.records import Records
from ringrift.work import tasks as rules
from ringrift.work.processes import is_gone
from ringrift.work.tasks import HostTick, RunState, Task, TaskLimits, TaskStart

_ENDED_MAX = 1000
"""Tasks that ended and are still stored."""
_REASON_CHARACTERS_MAX = 2000
_RETRY_SECONDS = 0.5
_Metadata = Mapping[str, Any] | None
_Serials = Mapping[str, int] | None
_MakeEvents = Callable[[Task], Sequence[Envelope]]


class _AdmissionState(Value):
    """Limits, run state and counts, shared by every program of one store."""

    limits: TaskLimits = msgspec.field(default_factory=TaskLimits)
    run_state: RunState = RunState()
    admitted: int = 0
    refused: int = 0
    ended: int = 0
    ends: dict[str, int] = {}
    """How many tasks ended in each way."""


VERDICTS = Records("verdict", Verdict)
"""The latest verdict of every gate."""
TASKS = Records("task", Task, id="id", limit=rules.RUNNING_MAX)
"""Every task that has a place."""
ENDED_TASKS = Records("task_ended", Task, order=("ended", "serial"), limit=_ENDED_MAX)
"""The tasks that ended last."""
_STARTS = Records("task_starts", tuple[TaskStart, ...])
"""Starts of the last minute, by host."""
_STATE = Records("admission", _AdmissionState)
_STATE_ID = "state"


async def load_state(view: Reads) -> _AdmissionState:
    """The limits, run state and counts in force."""
    return await _STATE.get(view, _STATE_ID) or _AdmissionState()


async def _recent_starts(view: Reads, here: HostTick) -> tuple[TaskStart, ...]:
    return rules.starts_of_last_minute(await _STARTS.get(view, here.host) or (), here.tick)


async def _change_state(tx: Tx, **changes: object) -> None:
    await _STATE.put_at(tx, {_STATE_ID: msgspec.structs.replace(await load_state(tx), **changes)})


async def _admit(tx: Tx, task: Task, *, here: HostTick, now: float) -> tuple[Task, Verdict]:
    """Give *task* a place in *tx* if every rule allows it, and store the verdict.  Raises IdConflict."""
    tasks = await TASKS.all(tx)
    if any(other.id == task.id for other in tasks):
        raise IdConflict(task.id)
    state, starts = await load_state(tx), await _recent_starts(tx, here)
    verdict = rules.check_start(task, tasks, starts, state.limits, run_state=state.run_state, tick=here.tick, now=now)
    await _store_verdict(tx, task, verdict)
    if not verdict.allowed:
        await _change_state(tx, refused=state.refused + 1)
        return task, verdict
    serial = state.admitted + 1
    admitted = msgspec.structs.replace(task, serial=serial, since=now, beat=now, beat_at=here)
    await TASKS.put(tx, [admitted])
    await _change_state(tx, admitted=serial)
    await _STARTS.put_at(tx, {here.host: (*starts, TaskStart(tick=here.tick, type=task.type))})
    return admitted, verdict


async def _end_task(tx: Tx, task: Task, end: str, reason: str, now: float) -> Task:
    """Free the place of *task* in *tx*; it stays stored until many others have ended."""
    assert end in rules.ENDS
    state = await load_state(tx)
    reason = printable(reason, _REASON_CHARACTERS_MAX)
    ended = msgspec.structs.replace(task, state=end, reason=reason, ended=now)
    await TASKS.delete(tx, [task.id])
    await ENDED_TASKS.put_at(tx, {f"{state.ended % _ENDED_MAX:04d}": ended}, index={"task": task.id})
    await _change_state(tx, ended=state.ended + 1, ends=state.ends | {end: state.ends.get(end, 0) + 1})
    return ended


def _last_metadata(before: dict[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Both together, or if that is too much only the last: too much metadata must not keep a place taken."""
    last = rules.copy_metadata(metadata)
    try:
        return rules.copy_metadata(before | last)
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

    def __init__(self, store: Store, clock: Clock, host: str, *, make_events: _MakeEvents = lambda task: ()) -> None:
        self._store, self._clock, self._host, self._make_events = store, clock, host, make_events
        self._stall_detector = StallDetector()

    @property
    def here(self) -> HostTick:
        """Now, on this host."""
        return HostTick(host=self._host, tick=self._clock.tick())

    async def check(self, task: Task) -> Verdict:
        """The verdict that *task* would get now.  It takes nothing and is not counted."""
        async with self._store.read() as view:
            tasks, state = await TASKS.all(view), await load_state(view)
            orphans = {orphan.id for orphan in self._orphans(tasks, state.limits)}
            alive = [task for task in tasks if task.id not in orphans]
            starts, tick, now = await _recent_starts(view, self.here), self.here.tick, self._clock.now()
        return rules.check_start(task, alive, starts, state.limits, run_state=state.run_state, tick=tick, now=now)

    async def admit(self, task: Task) -> Task:
        """Give *task* a place, after the places of dead tasks were freed.

        Raises LimitReached, with the verdict stored, and IdConflict while a task of this id runs.
        """
        rules.copy_metadata(task.metadata)
        async with self._store.begin() as tx:
            await self._end_orphans(tx)
            admitted, verdict = await _admit(tx, task, here=self.here, now=self._clock.now())
            await tx.append(self._make_events(admitted) if verdict.allowed else ())
        if not verdict.allowed:
            raise LimitReached(f"task {task.id}", verdict.rule, verdict.value, verdict.limit)
        return admitted

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

    async def beat(self, ids: Sequence[str], metadata: _Metadata = None, *, serials: _Serials = None) -> list[str]:
        """Record that these tasks live, with *metadata* added to theirs; the ids of those that have a place."""
        async with self._store.begin() as tx:
            tasks = await self._with_serials(tx, ids, serials or {})
            for task in tasks:
                merged = rules.copy_metadata(task.metadata | dict(metadata or {}))
                beat = {"beat": self._clock.now(), "beat_at": self.here, "beats": task.beats + 1}
                await TASKS.put(tx, [msgspec.structs.replace(task, metadata=merged, **beat)])
        return [task.id for task in tasks]

    async def finish(
        self, id: str, end: str, reason: str = "", *, metadata: _Metadata = None, serials: _Serials = None
    ) -> Task | None:
        """End the task *id*; None if it has no place, or if another task has this id by now."""
        if end not in rules.ENDS:
            raise UnknownName("end of a task", end, rules.ENDS)
        async with self._store.begin() as tx:
            for task in await self._with_serials(tx, [id], serials or {}):
                last = msgspec.structs.replace(task, metadata=_last_metadata(task.metadata, metadata or {}))
                ended = await _end_task(tx, last, end, reason, self._clock.now())
                await tx.append(self._make_events(ended))
                return ended
        return None

    async def sweep(self) -> list[Task]:
        """End every task whose process is dead or whose beats have stopped; those tasks."""
        async with self._store.read() as view:
            if not self._orphans(await TASKS.all(view), (await load_state(view)).limits):
                return []
        async with self._store.begin() as tx:
            return await self._end_orphans(tx)

    async def set_state(self, state: str, reason: str = "") -> RunState:
        """Stop or resume admission, for every program of this store: one of STATES."""
        if state not in rules.STATES:
            raise UnknownName("state of admission", state, rules.STATES)
        reason = printable(reason, _REASON_CHARACTERS_MAX)
        run_state = RunState(state=state, reason=reason, since=self._clock.now())
        async with self._store.begin() as tx:
            await _change_state(tx, run_state=run_state)
        return run_state

    async def set_limits(self, limits: TaskLimits) -> None:
        """Put *limits* in force for every program of this store; tasks that run already stay."""
        async with self._store.begin() as tx:
            await _change_state(tx, limits=limits)

    async def _with_serials(self, tx: Tx, ids: Sequence[str], serials: Mapping[str, int]) -> list[Task]:
        """The tasks *ids* that have a place, without those whose id belongs to a later admission by now."""
        tasks = (await TASKS.get_many(tx, ids)).values()
        return [task for task in tasks if serials.get(task.id, task.serial) == task.serial]

    async def _end_orphans(self, tx: Tx) -> list[Task]:
        orphans = self._orphans(await TASKS.all(tx), (await load_state(tx)).limits)
        ended = [await _end_task(tx, task, task.state, task.reason, self._clock.now()) for task in orphans]
        await tx.append([envelope for task in ended for envelope in self._make_events(task)])
        return ended

    def _orphans(self, tasks: Sequence[Task], limits: TaskLimits) -> list[Task]:
        here, seconds = self.here, limits.beat_seconds_max
        observations = [
            Observation(name=task.id, counter=(task.serial << 32) + task.beats, seconds=seconds)
            for task in tasks
            if task.beat_at.host != here.host
        ]
        late = [stalled.name for stalled in self._stall_detector.stalled(observations, here.tick)]
        # Many tasks may have one process, and to look at it is what takes time.
        has_died = cache(lambda process: is_gone(process, here.host))
        return rules.find_orphans(tasks, here, seconds, late=late, has_died=has_died)
