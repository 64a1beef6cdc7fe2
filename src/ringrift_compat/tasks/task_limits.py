"""Limits of tasks: how many of each type may run and how fast they may start, and the verdict on one more."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ringrift.jobs import Match
from ringrift.kernel.errors import InvalidId, InvalidPayload, SettingsError, TooLarge, require_name, require_range
from ringrift.kernel.value import Value
from ringrift.kernel.verdict import Verdict
from ringrift.store.ports import TASK_PREFIX, JobCounter
from ringrift.work.run_states import RunStates
from ringrift.work.tasks import (
    RUNNING_MAX,
    SELFPLAY_TYPES,
    TASK_JOBS,
    TASK_KINDS,
    TASK_TYPES,
    TRAINING_SLOT,
    Limit,
    StoredLimits,
    Task,
    count,
    kinds_like,
)

_TRAINING_MAX = 3
"""Trainings at once in the cluster."""
_USUAL = f"""
training 1 {_TRAINING_MAX}, evaluation 2 20, export 2 20, sync 2 50, tournament 1 2, parity 2 20, cmaes 1 1,
pipeline 1 1, improvement_loop 1 1, background_loop 4 100, unknown 4 50
"""
"""Type, tasks on one node, tasks in the cluster."""
_STAGES = {type: jobs[0].stage for type, jobs in TASK_JOBS.items()}
_STAGES |= {"tournament": Match.stage, "parity": Match.stage} | dict.fromkeys(SELFPLAY_TYPES, _STAGES["selfplay"])
_METADATA_BYTES_MAX = 16 * 1024
_NAME_CHARACTERS_MAX = 200
_MINUTE_SECONDS = 60.0
_STARTS_MAX = 1000
"""Starts of one minute that a rate may allow."""


def check_task(task: Task) -> None:
    """Raise UnknownName or InvalidId for a type or a name that no task has, InvalidPayload, TooLarge for metadata."""
    require_name("task type", task.type, TASK_TYPES)
    for field, name in (("task", task.id), ("node", task.node)):
        if not 1 <= len(name) <= _NAME_CHARACTERS_MAX or not name.isprintable():
            raise InvalidId(field, name, f"use 1 to {_NAME_CHARACTERS_MAX} printable characters")
    copy_metadata(task.metadata)


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


def _table(node_max: int, cluster_max: int) -> dict[str, Limit]:
    """The limits of every type: these for selfplay, the usual ones for the rest."""
    rows = [row.split() for row in _USUAL.split(",")]
    usual = {type: Limit(node_max=int(node), cluster_max=int(cluster)) for type, node, cluster in rows}
    return dict.fromkeys(SELFPLAY_TYPES, Limit(node_max=node_max, cluster_max=cluster_max)) | usual


class TaskLimits(StoredLimits):
    """How many tasks of each type may run, and how fast they may start.  Every type has a row."""

    table: dict[str, Limit] = msgspec.field(default_factory=lambda: _table(32, 500))
    spawns_per_minute_max: int = 60
    selfplay_spawns_per_minute_max: int = 30
    burst_max: int = 10
    """Starts within *burst_seconds*."""
    selfplay_burst_max: int = 5
    burst_seconds: float = 1.0

    def __post_init__(self) -> None:
        if missing := sorted(set(TASK_TYPES) ^ set(self.table)):
            raise SettingsError("tasks.table", missing, "must have a row for every type of task and no other")
        for type, limit in self.table.items():
            require_range(f"limit.{type}.cluster_max", limit.cluster_max, 0, RUNNING_MAX)
            require_range(f"limit.{type}.node_max", limit.node_max, 0, RUNNING_MAX)
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


class TaskStart(Value):
    """The start of a task of *type* at *tick* of one host."""

    tick: float
    type: str


def check_start(
    task: Task,
    running: Sequence[JobCounter],
    starts: Sequence[TaskStart],
    limits: TaskLimits,
    *,
    run_states: RunStates,
    tick: float,
    now: float,
) -> Verdict:
    """Whether *task* may begin beside those that are *running* and after *starts*: the first rule that refuses it.

    If no rule does, the verdict names the limit of its node.
    """
    gate, type, alike, limit = f"task.{task.type}", task.type, kinds_like(task.type), limits.table[task.type]
    stage = _STAGES.get(type, "")
    state = run_states.verdict(gate, node=task.node, variant=task.variant, stage=stage, now=now)
    if not state.allowed:
        return state
    slot = TRAINING_SLOT if type == "training" else {TASK_PREFIX + type}
    rules = [
        (f"{type} of {task.variant}", count(running, slot, variant=task.variant) if task.variant else 0, 1),
        (f"tasks of type {type} on node {task.node}", count(running, alike, node=task.node), limit.node_max),
        (f"tasks of type {type} in the cluster", count(running, alike), limit.cluster_max),
        ("tasks in the cluster", count(running, TASK_KINDS), RUNNING_MAX),
        *_rate_rules(type, starts, limits, tick),
    ]
    refusals = [rule for rule in rules if rule[1] >= rule[2]]
    rule, value, limit_value = refusals[0] if refusals else rules[1]
    return Verdict(gate=gate, allowed=not refusals, rule=rule, value=value, limit=limit_value, since=now)


def _rate_rules(type: str, starts: Sequence[TaskStart], limits: TaskLimits, tick: float) -> list[tuple[str, int, int]]:
    """The rules for starts in a minute and at once: all types together, and selfplay by itself too."""
    seconds = limits.burst_seconds
    minute, burst = starts_within(starts, tick), starts_within(starts, tick, seconds)
    rules = [
        ("starts in the last minute", len(minute), limits.spawns_per_minute_max),
        (f"starts in the last {seconds:g} s", len(burst), limits.burst_max),
    ]
    if type in SELFPLAY_TYPES:
        counts = [sum(start.type in SELFPLAY_TYPES for start in period) for period in (minute, burst)]
        rules.append(("starts of selfplay in the last minute", counts[0], limits.selfplay_spawns_per_minute_max))
        rules.append((f"starts of selfplay in the last {seconds:g} s", counts[1], limits.selfplay_burst_max))
    return rules


def starts_within(starts: Iterable[TaskStart], tick: float, seconds: float = _MINUTE_SECONDS) -> tuple[TaskStart, ...]:
    """Those of *starts* that happened in the last *seconds* before *tick*."""
    return tuple(start for start in starts if tick - start.tick < seconds)
