"""Admission: a place for a task is asked for and taken in one transaction, so that no limit is ever passed.

Whoever is refused has used up nothing, and the refusing verdict is kept for ``ringrift why``.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from ringrift.events.base import Envelope
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import IdConflict, LimitReached, TooLarge, UnknownName, told
from ringrift.kernel.value import Value
from ringrift.kernel.verdict import Verdict
from ringrift.kernel.watch import Seen, Watch
from ringrift.store.ports import Put, Reads, Store, Tx
from ringrift.work.processes import is_gone
from ringrift.work.tasks import (
    ENDS,
    MINUTE_SECONDS,
    RUNNING_MAX,
    STATES,
    Moment,
    RunState,
    Spawn,
    Task,
    TaskLimits,
    may_start,
    orphaned,
    plain,
    within_last,
)

KIND, ENDED, BOOK, SPAWNS, LIMITS, GATE = "task", "task_ended", "task_book", "task_spawns", "task_limits", "task_gate"
VERDICT = "verdict"
"""The kind under which every gate's word is kept."""
ONE = "one"
"""The id of a record that there is only one of."""
ENDED_MAX = 1000
"""Tasks that ended and are still remembered."""
REASON_CHARACTERS_MAX = 2000
RETRY_SECONDS = 0.5
Says = Callable[[Task], Sequence[Envelope]]


class Book(Value):
    """How many tasks were ever admitted, refused and ended, by how they ended."""

    admitted: int = 0
    refused: int = 0
    ended: int = 0
    ends: dict[str, int] = {}


async def running(view: Reads) -> list[Task]:
    """Every task that has a place."""
    return [msgspec.json.decode(one.body, type=Task) for one in await view.scan(KIND, "", RUNNING_MAX)]


async def ended(view: Reads) -> list[Task]:
    """Those that ended last, the oldest first."""
    found = [msgspec.json.decode(one.body, type=Task) for one in await view.scan(ENDED, "", ENDED_MAX)]
    return sorted(found, key=lambda task: (task.ended or 0.0, task.serial))


async def book_of(view: Reads) -> Book:
    """The counts so far."""
    body = (await view.get(BOOK, [ONE])).get(ONE)
    return Book() if body is None else msgspec.json.decode(body, type=Book)


async def limits_of(view: Reads) -> TaskLimits:
    """The limits in force, the same for every program of this store."""
    body = (await view.get(LIMITS, [ONE])).get(ONE)
    return TaskLimits() if body is None else msgspec.json.decode(body, type=TaskLimits)


async def gate_of(view: Reads) -> RunState:
    """Whether anybody gets a place now."""
    body = (await view.get(GATE, [ONE])).get(ONE)
    return RunState() if body is None else msgspec.json.decode(body, type=RunState)


async def spawns_of(view: Reads, here: Moment) -> tuple[Spawn, ...]:
    """What began on this host in the last minute."""
    body = (await view.get(SPAWNS, [here.host])).get(here.host)
    known = () if body is None else msgspec.json.decode(body, type=tuple[Spawn, ...])
    return within_last(known, here.tick, MINUTE_SECONDS)


async def admit(tx: Tx, task: Task, limits: TaskLimits, *, here: Moment, now: float) -> tuple[Task, Verdict]:
    """Give *task* a place in *tx* if every rule agrees, and note what the gate said.  Raises IdConflict."""
    there = await running(tx)
    if any(other.id == task.id for other in there):
        raise IdConflict(task.id)
    book, spawns = await book_of(tx), await spawns_of(tx, here)
    verdict = may_start(task, there, spawns, limits, gate=await gate_of(tx), tick=here.tick, now=now)
    await _note(tx, task, verdict)
    if not verdict.allowed:
        await _put(tx, BOOK, ONE, msgspec.structs.replace(book, refused=book.refused + 1))
        return task, verdict
    serial = book.admitted + 1
    placed = msgspec.structs.replace(task, serial=serial, since=now, beat=now, beaten=here)
    await _put(tx, KIND, task.id, placed)
    await _put(tx, BOOK, ONE, msgspec.structs.replace(book, admitted=serial))
    await _put(tx, SPAWNS, here.host, (*spawns, Spawn(tick=here.tick, type=task.type)))
    return placed, verdict


async def end(tx: Tx, task: Task, state: str, reason: str, now: float) -> Task:
    """Take the place of *task* back in *tx*; it is remembered until many others have ended."""
    assert state in ENDS
    book = await book_of(tx)
    over = msgspec.structs.replace(task, state=state, reason=told(reason, REASON_CHARACTERS_MAX), ended=now)
    await tx.delete(KIND, [task.id])
    slot = f"{book.ended % ENDED_MAX:04d}"
    await tx.put([Put(kind=ENDED, id=slot, body=msgspec.json.encode(over), index={"task": task.id})])
    ends = book.ends | {state: book.ends.get(state, 0) + 1}
    await _put(tx, BOOK, ONE, msgspec.structs.replace(book, ended=book.ended + 1, ends=ends))
    return over


def _last_words(before: dict[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Both together, or where that is too much only what was said last: no place stays taken for that."""
    last = plain(metadata)
    try:
        return plain(before | last)
    except TooLarge:
        return last


async def _put(tx: Tx, kind: str, id: str, value: object) -> None:
    await tx.put([Put(kind=kind, id=id, body=msgspec.json.encode(value))])


async def _note(tx: Tx, task: Task, verdict: Verdict) -> None:
    """Keep a refusal, dated from when it began; a place that was given ends it."""
    id = f"{task.variant or task.node}:{verdict.gate}"
    before = (await tx.get(VERDICT, [id])).get(id)
    if verdict.allowed:
        await tx.delete(VERDICT, [id] if before else [])
        return
    told_before = None if before is None else msgspec.json.decode(before, type=Verdict)
    body = msgspec.json.encode(verdict.told_since(told_before))
    index = {"node": task.node} | ({"variant": task.variant} if task.variant else {})
    await tx.put([Put(kind=VERDICT, id=id, body=body, index=index)])


class Admission:
    """The verbs of who runs tasks, over a store."""

    def __init__(self, store: Store, clock: Clock, host: str, *, says: Says = lambda task: ()) -> None:
        self._store, self._clock, self._host, self._says = store, clock, host, says
        self._watch = Watch()

    @property
    def here(self) -> Moment:
        """Now, on this host."""
        return Moment(host=self._host, tick=self._clock.tick())

    async def check(self, task: Task) -> Verdict:
        """What *task* would be told now.  It takes nothing and counts for nothing."""
        async with self._store.read() as view:
            there, limits = await running(view), await limits_of(view)
            gone = {one.id for one in self._orphans(there, limits)}
            alive = [one for one in there if one.id not in gone]
            spawns = await spawns_of(view, self.here)
            return may_start(
                task, alive, spawns, limits, gate=await gate_of(view), tick=self.here.tick, now=self._clock.now()
            )

    async def admit(self, task: Task) -> Task:
        """*task* in its place, taken after those were freed whose tasks nobody does any more.

        Raises LimitReached, whose verdict is kept, and IdConflict while a task of this id runs.
        """
        plain(task.metadata)
        async with self._store.begin() as tx:
            limits = await limits_of(tx)
            await self._bury(tx, self._orphans(await running(tx), limits))
            placed, verdict = await admit(tx, task, limits, here=self.here, now=self._clock.now())
            await tx.append(self._says(placed) if verdict.allowed else ())
        if not verdict.allowed:
            raise LimitReached(f"task {task.id}", verdict.rule, verdict.value, verdict.limit)
        return placed

    async def wait_admit(self, task: Task, seconds: float) -> Task:
        """*task* in its place, as soon as there is one within *seconds*.  Raises LimitReached, IdConflict."""
        until = self._clock.tick() + seconds
        while True:
            left = until - self._clock.tick()
            if left <= 0 or (await self.check(task)).allowed:
                try:
                    return await self.admit(task)
                except LimitReached:
                    if left <= 0:
                        raise
            await self._store.wait(None, min(RETRY_SECONDS, max(left, 0.0)))

    async def beat(
        self, ids: Sequence[str], metadata: Mapping[str, Any] | None = None, *, serials: Mapping[str, int] | None = None
    ) -> list[str]:
        """Say that these are alive, with *metadata* on top of theirs; the ids of those that have a place."""
        async with self._store.begin() as tx:
            known = await self._known(tx, ids, serials or {})
            for task in known:
                alive = msgspec.structs.replace(
                    task, beat=self._clock.now(), beaten=self.here, beats=task.beats + 1,
                    metadata=plain(task.metadata | dict(metadata or {})),
                )  # fmt: skip
                await _put(tx, KIND, task.id, alive)
        return [task.id for task in known]

    async def finish(
        self, id: str, state: str, reason: str = "", *,
        metadata: Mapping[str, Any] | None = None, serials: Mapping[str, int] | None = None,
    ) -> Task | None:  # fmt: skip
        """End the task *id*; None if it has no place, or the id is another task's by now."""
        if state not in ENDS:
            raise UnknownName("end of a task", state, ENDS)
        async with self._store.begin() as tx:
            known = await self._known(tx, [id], serials or {})
            if not known:
                return None
            last = msgspec.structs.replace(known[0], metadata=_last_words(known[0].metadata, metadata or {}))
            over = await end(tx, last, state, reason, self._clock.now())
            await tx.append(self._says(over))
        return over

    async def sweep(self) -> list[Task]:
        """End every task that nobody does any more; those."""
        async with self._store.read() as view:
            if not self._orphans(await running(view), await limits_of(view)):
                return []
        async with self._store.begin() as tx:
            return await self._bury(tx, self._orphans(await running(tx), await limits_of(tx)))

    async def find(self, id: str) -> Task | None:
        """The task *id*: the running one, else the last that ended."""
        async with self._store.read() as view:
            body = (await view.get(KIND, [id])).get(id)
            over = await view.find(ENDED, "task", [id], ENDED_MAX)
        found = [msgspec.json.decode(record, type=Task) for record in (body, *(one.body for one in over)) if record]
        return max(found, key=lambda task: task.serial, default=None)

    async def be(self, state: str, reason: str = "") -> RunState:
        """Let nobody in any more, or again: one of STATES, for every program of this store."""
        if state not in STATES:
            raise UnknownName("state of admission", state, STATES)
        gate = RunState(state=state, reason=told(reason, REASON_CHARACTERS_MAX), since=self._clock.now())
        async with self._store.begin() as tx:
            await _put(tx, GATE, ONE, gate)
        return gate

    async def limit(self, limits: TaskLimits) -> None:
        """Put *limits* in force for every program of this store; what runs already stays."""
        async with self._store.begin() as tx:
            await _put(tx, LIMITS, ONE, limits)

    async def _known(self, tx: Tx, ids: Sequence[str], serials: Mapping[str, int]) -> list[Task]:
        bodies = await tx.get(KIND, ids)
        found = [msgspec.json.decode(body, type=Task) for body in bodies.values()]
        return [task for task in found if serials.get(task.id, task.serial) == task.serial]

    async def _bury(self, tx: Tx, orphans: Sequence[Task]) -> list[Task]:
        buried = [await end(tx, task, task.state, task.reason, self._clock.now()) for task in orphans]
        await tx.append([said for task in buried for said in self._says(task)])
        return buried

    def _orphans(self, tasks: Sequence[Task], limits: TaskLimits) -> list[Task]:
        here, seconds = self.here, limits.beat_seconds_max
        strangers = [task for task in tasks if task.beaten.host != here.host]
        seen = [Seen(name=task.id, mark=(task.serial << 32) + task.beats, seconds=seconds) for task in strangers]
        late = [thing.name for thing in self._watch.overdue(seen, here.tick)]
        # Many tasks may have one process, and to look at it is what takes time.
        return orphaned(tasks, here, seconds, late=late, gone=cache(lambda process: is_gone(process, here.host)))
