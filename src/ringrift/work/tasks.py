"""Tasks: work that programs do outside the desk, and how it shares the limits of jobs.

Tasks and jobs are rows of one table: a task of a type counts the jobs that do the same work, and while limits are
stored, claims of those jobs count the tasks.  A task frees its place at its end, and when it dies: its process is gone,
or where the process cannot be looked at, its beats have stopped.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from typing import Any

import msgspec

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.events.work import TaskChanged
from ringrift.jobs import Distribute, Export, Job, Match, Play, Rate, Sync, Train, Tune, Verify
from ringrift.kernel.errors import printable
from ringrift.kernel.stall_detector import Observation
from ringrift.kernel.value import Value, changed
from ringrift.store.ports import TASK_PREFIX, JobCounter, JobRow, Reads, TaskChange, Tx
from ringrift.store.records import Records
from ringrift.work.processes import Process, is_gone

SELFPLAY_TYPES = ("selfplay", "gpu_selfplay", "hybrid_selfplay")  # they share one limit: they fill the same machines
TASK_TYPES: tuple[str, ...] = (*SELFPLAY_TYPES, "training", "evaluation", "export", "sync", "tournament", "parity")
TASK_TYPES += ("cmaes", "pipeline", "improvement_loop", "background_loop", "unknown")
ENDS = ("completed", "failed", "cancelled", "timed_out", "orphaned")
_ROW_STATES = {"completed": "done", "cancelled": "cancelled"}  # end of a task → state of its row, otherwise *dead*
TASK_JOBS: dict[str, tuple[type[Job], ...]] = {"selfplay": (Play,), "training": (Train,), "export": (Export,)}
TASK_JOBS |= {"evaluation": (Match, Verify, Rate), "sync": (Sync, Distribute), "cmaes": (Tune,)}
# By type of task, the kinds of job that do the same work and share its limit; selfplay stands for its three types.
LIMITED_KINDS = {type: tuple(job.kind() for job in jobs) for type, jobs in TASK_JOBS.items()}
TASK_KINDS = frozenset(TASK_PREFIX + type for type in TASK_TYPES)
TRAINING_SLOT = frozenset({Train.kind(), TASK_PREFIX + "training"})  # of these together, one for each variant
RUNNING_MAX = 10_000
_REASON_CHARACTERS_MAX = 2000


class HostTick(Value):
    """A tick of the clock of *host*: it compares with ticks of the same host only."""

    host: str
    tick: float


class Task(Value):
    """A task that has a place, or had one."""

    id: str
    type: str
    node: str
    beat_at: HostTick  # when it last reported that it lives
    process: Process | None = None  # the process whose death ends it; None if it cannot be looked at from here
    pid: int = 0  # as the program gave it
    fence: int = 0  # the number of its admission: a program that ends a task by its id means that one and no later one
    state: str = "running"
    since: float = 0.0
    beat: float = 0.0
    beats: int = 0
    ended: float | None = None
    reason: str = ""
    variant: str = ""  # no two tasks of one type have the same; a training keeps jobs from training it too
    metadata: dict[str, Any] = {}


class Limit(Value):
    """How many tasks and jobs of one type may run on one node, and in the cluster."""

    node_max: int
    cluster_max: int


class StoredLimits(Value):
    """The limits that a program has stored, as far as they bind jobs too.  Without any there is no table."""

    table: dict[str, Limit] = {}
    beat_seconds_max: float = 300.0  # how long a task whose process cannot be looked at may go without a beat


class TaskTotals(Value):
    """Counts over all programs of one store that no row has."""

    refused: int = 0
    ends: dict[str, int] = {}  # how many tasks ended in each way


ALL = "all"  # the id of the only record of its kind
_LIMITS = Records("task_limits", StoredLimits)
TASK_TOTALS = Records("task_totals", TaskTotals)
_DECODER = msgspec.json.Decoder(Task)
_HasDied = Callable[[Process, str], bool]


def kinds_like(type: str) -> frozenset[str]:
    """The kinds of task and job that share the limit of *type*."""
    types = SELFPLAY_TYPES if type in SELFPLAY_TYPES else (type,)
    jobs = LIMITED_KINDS.get(types[0], ())
    return frozenset((*(TASK_PREFIX + name for name in types), *jobs))


def count(counters: Iterable[JobCounter], kinds: Collection[str], *, node: str = "", variant: str = "") -> int:
    """How many of *kinds* there are, on one node or of one variant, or of all."""
    rows = (row for row in counters if node in ("", row.holder) and variant in ("", row.variant))
    return sum(row.count for row in rows if row.kind in kinds)


async def load_limits(view: Reads) -> StoredLimits:
    """The stored limits, which bind tasks and claims."""
    return await _LIMITS.get(view, ALL) or StoredLimits()


async def running_tasks(view: Reads, ids: Sequence[str] | None = None) -> list[Task]:
    """Every task that has a place, oldest first; with *ids* only those."""
    keys = None if ids is None else [TASK_PREFIX + id for id in ids]
    return decode_tasks(await view.tasks(RUNNING_MAX, keys=keys))


def decode_tasks(rows: Iterable[JobRow]) -> list[Task]:
    """The tasks of *rows*."""
    return [changed(_DECODER.decode(row.body), fence=row.fence) for row in rows]


def task_change(task: Task, state: str = "claimed") -> TaskChange:
    """The row of *task* as it is now; its id is that of :meth:`ringrift.store.ports.Tx.register_tasks`."""
    job, error = f"{TASK_PREFIX}{task.id}#{task.fence}", task.reason or None
    return TaskChange(job=job, fence=task.fence, state=state, body=msgspec.json.encode(task), error=error)


async def end_tasks(tx: Tx, envelopes: EnvelopeFactory, tasks: Sequence[Task], now: float) -> list[Task]:
    """Free the places of *tasks*, each with its end and reason, and publish that; those that still had one."""
    assert all(task.state in ENDS for task in tasks)
    final = [changed(task, ended=now, reason=printable(task.reason, _REASON_CHARACTERS_MAX)) for task in tasks]
    changes = {task.fence: task_change(task, _ROW_STATES.get(task.state, "dead")) for task in final}
    ids = set(await tx.change_tasks(list(changes.values())))
    ended = [task for task in final if changes[task.fence].job in ids]
    if ended:
        totals = await TASK_TOTALS.get(tx, ALL) or TaskTotals()
        ends, events = Counter(totals.ends) + Counter(task.state for task in ended), []
        for task in ended:
            facts = {name: getattr(task, name) for name in ("node", "state", "reason", "variant", "metadata")}
            events.append(TaskChanged(task=task.id, kind=task.type, seconds=max(now - task.since, 0.0), **facts))
        await TASK_TOTALS.put_at(tx, {ALL: changed(totals, ends=ends)})
        await tx.append([envelopes.make(event, source="admission") for event in events])
    return ended


async def still_as(view: Reads, orphans: Sequence[Task]) -> list[Task]:
    """Those of *orphans* that have not sent a beat or ended since they were read."""
    current = {task.fence: task.beats for task in await running_tasks(view, [task.id for task in orphans])}
    return [task for task in orphans if current.get(task.fence) == task.beats]


def observe(tasks: Iterable[Task], host: str, seconds: float) -> list[Observation]:
    """What an observer on *host* watches: the beats of tasks on other hosts, whose ticks mean nothing here."""
    others = [task for task in tasks if task.beat_at.host != host]
    return [Observation(TASK_PREFIX + task.id, (task.fence << 32) + task.beats, seconds) for task in others]


def find_orphans(
    tasks: Iterable[Task], here: HostTick, seconds: float, stalled: Iterable[Observation], has_died: _HasDied = is_gone
) -> list[Task]:
    """Those of *tasks* that are dead at *here*, as they end.

    Where the process can be looked at, it alone decides.  Otherwise the beats decide: on this host by their age, on
    others if they were *stalled* for an observer.
    """
    has_died = cache(has_died)  # many tasks may have one process, and to look at it is what takes time
    late, orphans = {observation.name for observation in stalled}, []
    for task in tasks:
        reason = ""
        if task.process is not None and task.process.host == here.host:
            reason = f"its process {task.pid} is gone" if has_died(task.process, here.host) else ""
        elif task.beat_at.host == here.host:
            silence = here.tick - task.beat_at.tick
            reason = f"no sign of life for {silence:.0f} s" if silence >= seconds else ""
        elif TASK_PREFIX + task.id in late:
            reason = f"no sign of life for {seconds:g} s"
        if reason:
            orphans.append(changed(task, state="orphaned", reason=reason))
    return orphans
