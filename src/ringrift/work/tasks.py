"""Tasks: work that programs do outside the desk, and how much of it there may be at once.

A task gets a place before it begins and frees it at its end.  A task that dies frees its place too: its process is
gone, or where the process cannot be looked at, its beats have stopped.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ringrift.kernel.errors import InvalidId, InvalidPayload, SettingsError, TooLarge, UnknownName, require_range
from ringrift.kernel.value import Value
from ringrift.kernel.verdict import Verdict
from ringrift.work.processes import Process

_TRAINING_MAX = 3
"""Trainings at once in the cluster."""
_USUAL = f"""
training 1 {_TRAINING_MAX}, evaluation 2 20, export 2 20, sync 2 50, tournament 1 2, parity 2 20, cmaes 1 1,
pipeline 1 1, improvement_loop 1 1, background_loop 4 100, unknown 4 50
"""
"""Type, tasks on one node, tasks in the cluster."""
_SELFPLAY = frozenset({"selfplay", "gpu_selfplay", "hybrid_selfplay"})
"""They share one limit: they fill the same machines."""
_TYPES = ("selfplay", "gpu_selfplay", "hybrid_selfplay", *(row.split()[0] for row in _USUAL.split(",")))
ENDS = ("completed", "failed", "cancelled", "timed_out", "orphaned")
STATES = ("running", "paused", "draining", "emergency", "stopped")
"""States of admission: tasks start only while it is running."""
RUNNING_MAX = 10_000
_METADATA_BYTES_MAX = 16 * 1024
_NAME_CHARACTERS_MAX = 200
_MINUTE_SECONDS = 60.0
_STARTS_MAX = 1000
"""Starts of one minute that a rate may allow."""


class HostTick(Value):
    """A tick of the clock of *host*: it compares with ticks of the same host only."""

    host: str
    tick: float


class Task(Value):
    """A task that has a place, or had one."""

    id: str
    type: str
    node: str
    beat_at: HostTick
    """When it last reported that it lives."""
    process: Process | None = None
    """The process whose death ends it; None if it cannot be looked at from here."""
    pid: int = 0
    """As the program gave it."""
    serial: int = 0
    """The number of its admission: a program that ends a task by its id means that one and no later one."""
    state: str = "running"
    since: float = 0.0
    beat: float = 0.0
    beats: int = 0
    ended: float | None = None
    reason: str = ""
    key: str = ""
    """While a task with this key runs, no other task with it starts."""
    variant: str = ""
    metadata: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if self.type not in _TYPES:
            raise UnknownName("task type", self.type, _TYPES)
        for field, name in (("task", self.id), ("node", self.node)):
            if not 1 <= len(name) <= _NAME_CHARACTERS_MAX or not name.isprintable():
                raise InvalidId(field, name, f"use 1 to {_NAME_CHARACTERS_MAX} printable characters")


def copy_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of *metadata* as it can be stored.  Raises InvalidPayload, TooLarge."""
    try:
        raw = msgspec.json.encode(dict(metadata))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidPayload("metadata", f"is not JSON: {error}") from error
    if len(raw) > _METADATA_BYTES_MAX:
        raise TooLarge(len(raw), _METADATA_BYTES_MAX)
    copy: dict[str, Any] = msgspec.json.decode(raw)
    return copy


class _Limit(Value):
    """How many tasks of one type may run on one node, and in the cluster."""

    node_max: int
    cluster_max: int

    def __post_init__(self) -> None:
        require_range("limit.cluster_max", self.cluster_max, 0, RUNNING_MAX)
        require_range("limit.node_max", self.node_max, 0, RUNNING_MAX)


def _table(node_max: int, cluster_max: int) -> dict[str, _Limit]:
    """The limits of every type: these for selfplay, the usual ones for the rest."""
    rows = [row.split() for row in _USUAL.split(",")]
    usual = {type: _Limit(node_max=int(node), cluster_max=int(cluster)) for type, node, cluster in rows}
    return dict.fromkeys(sorted(_SELFPLAY), _Limit(node_max=node_max, cluster_max=cluster_max)) | usual


class TaskLimits(Value):
    """How many tasks of each type may run, and how fast they may start.  Every type has a row."""

    table: dict[str, _Limit] = msgspec.field(default_factory=lambda: _table(32, 500))
    spawns_per_minute_max: int = 60
    selfplay_spawns_per_minute_max: int = 30
    burst_max: int = 10
    """Starts within *burst_seconds*."""
    selfplay_burst_max: int = 5
    burst_seconds: float = 1.0
    beat_seconds_max: float = 300.0
    """How long a task whose process cannot be looked at may go without a beat."""

    def __post_init__(self) -> None:
        if missing := sorted(set(_TYPES) ^ set(self.table)):
            raise SettingsError("tasks.table", missing, "must have a row for every type of task and no other")
        for name in ("spawns_per_minute_max", "selfplay_spawns_per_minute_max", "burst_max", "selfplay_burst_max"):
            require_range(f"tasks.{name}", getattr(self, name), 1, _STARTS_MAX)
        require_range("tasks.burst_seconds", self.burst_seconds, 0, _MINUTE_SECONDS)
        require_range("tasks.beat_seconds_max", self.beat_seconds_max, 1, 86_400)

    @classmethod
    def default(cls) -> "TaskLimits":
        """The usual limits."""
        return cls()

    @classmethod
    def conservative(cls) -> "TaskLimits":
        """For few or shared machines."""
        return cls(table=_table(8, 100), spawns_per_minute_max=20, selfplay_spawns_per_minute_max=10)

    @classmethod
    def aggressive(cls) -> "TaskLimits":
        """For many machines that are used for nothing else."""
        return cls(table=_table(64, 1000), spawns_per_minute_max=120, selfplay_spawns_per_minute_max=60)

    def of(self, type: str) -> _Limit:
        """The row of *type*."""
        return self.table[type]


class TaskStart(Value):
    """The start of a task of *type* at *tick* of one host."""

    tick: float
    type: str


class RunState(Value):
    """Whether tasks get places at all, and why not."""

    state: str = "running"
    reason: str = ""
    since: float = 0.0


_OPEN = RunState()


def _types_like(type: str) -> frozenset[str]:
    return _SELFPLAY if type in _SELFPLAY else frozenset({type})


def check_start(
    task: Task,
    running: Iterable[Task],
    starts: Sequence[TaskStart],
    limits: TaskLimits,
    *,
    run_state: RunState = _OPEN,
    tick: float = 0.0,
    now: float = 0.0,
) -> Verdict:
    """Whether *task* may begin beside those that are *running* and after *starts*: the first rule that refuses it.

    If no rule does, the verdict names the limit of its node.
    """
    types, limit = _types_like(task.type), limits.of(task.type)
    state, reason, tasks = run_state.state, run_state.reason, tuple(running)
    alike = [other for other in tasks if other.type in types]
    on_node = sum(other.node == task.node for other in alike)
    rules = [
        (f"admission is {state}{reason and ': '}{reason}", int(state != "running"), 1),
        (f"tasks for {task.key}", sum(other.key == task.key for other in tasks) if task.key else 0, 1),
        (f"tasks of type {task.type} on node {task.node}", on_node, limit.node_max),
        (f"tasks of type {task.type} in the cluster", len(alike), limit.cluster_max),
        ("tasks in the cluster", len(tasks), RUNNING_MAX),
        *_rate_rules(task.type, starts, limits, tick),
    ]
    refusals = [rule for rule in rules if rule[1] >= rule[2]]
    rule, value, limit_value = refusals[0] if refusals else rules[2]
    gate, is_allowed = f"task.{task.type}", not refusals
    return Verdict(gate=gate, allowed=is_allowed, rule=rule, value=value, limit=limit_value, since=now)


def _rate_rules(type: str, starts: Sequence[TaskStart], limits: TaskLimits, tick: float) -> list[tuple[str, int, int]]:
    """The rules for starts in a minute and at once: all types together, and selfplay by itself too."""
    seconds = limits.burst_seconds
    minute, burst = starts_of_last_minute(starts, tick), _starts_within(starts, tick, seconds)
    rules = [
        ("starts in the last minute", len(minute), limits.spawns_per_minute_max),
        (f"starts in the last {seconds:g} s", len(burst), limits.burst_max),
    ]
    if type in _SELFPLAY:
        counts = [sum(start.type in _SELFPLAY for start in period) for period in (minute, burst)]
        rules.append(("starts of selfplay in the last minute", counts[0], limits.selfplay_spawns_per_minute_max))
        rules.append((f"starts of selfplay in the last {seconds:g} s", counts[1], limits.selfplay_burst_max))
    return rules


def starts_of_last_minute(starts: Iterable[TaskStart], tick: float) -> tuple[TaskStart, ...]:
    """Those of *starts* that happened in the last minute before *tick*."""
    return _starts_within(starts, tick, _MINUTE_SECONDS)


def _starts_within(starts: Iterable[TaskStart], tick: float, seconds: float) -> tuple[TaskStart, ...]:
    return tuple(start for start in starts if tick - start.tick < seconds)


def find_orphans(
    tasks: Iterable[Task], here: HostTick, seconds: float, *, late: Collection[str], has_died: Callable[[Process], bool]
) -> list[Task]:
    """Those of *tasks* that are dead at *here*, with the reason.

    Where the process can be looked at, it alone decides.  Otherwise the beats decide; those of another host are *late*
    if an observer has seen them stand still.
    """
    orphans = []
    for task in tasks:
        reason = ""
        if task.process is not None and task.process.host == here.host:
            reason = f"its process {task.pid} is gone" if has_died(task.process) else ""
        elif task.beat_at.host == here.host:
            silence = here.tick - task.beat_at.tick
            reason = f"no sign of life for {silence:.0f} s" if silence >= seconds else ""
        elif task.id in late:
            reason = f"no sign of life for {seconds:g} s"
        if reason:
            orphans.append(msgspec.structs.replace(task, state="orphaned", reason=reason))
    return orphans
