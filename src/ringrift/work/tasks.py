"""Tasks: what programs do by themselves, outside the desk, and how many of them there may be at once.

A task has a place before it begins and gives it back at its end.  Whoever dies gives it back too: its process is gone,
or where nobody can look, its beats have stopped.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ringrift.kernel.errors import InvalidId, InvalidPayload, SettingsError, TooLarge, UnknownName, within
from ringrift.kernel.value import Value
from ringrift.kernel.verdict import Verdict
from ringrift.work.processes import Process

TYPES = (
    "selfplay", "gpu_selfplay", "hybrid_selfplay", "training", "evaluation", "export", "sync", "tournament", "parity",
    "cmaes", "pipeline", "improvement_loop", "background_loop", "unknown",
)  # fmt: skip
SELFPLAY = frozenset({"selfplay", "gpu_selfplay", "hybrid_selfplay"})
"""They share one limit: it is the same machine that they fill."""
ENDS = ("completed", "failed", "cancelled", "timed_out", "orphaned")
STATES = ("running", "paused", "draining", "emergency", "stopped")
"""Of admission: only while it is running does anybody get a place."""
TRAINING_MAX = 3
"""Trainings at once in the cluster.  There is no other such number."""
RUNNING_MAX = 10_000
METADATA_BYTES_MAX = 16 * 1024
NAME_CHARACTERS_MAX = 200
MINUTE_SECONDS = 60.0
SPAWNS_MAX = 1000
"""Starts of one minute that a rate may allow."""


class Moment(Value):
    """A tick, and the host whose clock it is of: only there can it be compared."""

    host: str
    tick: float


class Task(Value):
    """Something that runs, or ran, in a place of its own."""

    id: str
    type: str
    node: str
    beaten: Moment
    """When it last gave a sign of life."""
    process: Process | None = None
    """Whose death ends it; None if nobody can look."""
    pid: int = 0
    """As it was told."""
    serial: int = 0
    """Which admission it was: whoever ends a task by its id means that one and no later one."""
    state: str = "running"
    since: float = 0.0
    beat: float = 0.0
    beats: int = 0
    ended: float | None = None
    reason: str = ""
    key: str = ""
    """What it is for: while a task with a key runs, no other one with it starts."""
    variant: str = ""
    metadata: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if self.type not in TYPES:
            raise UnknownName("task type", self.type, TYPES)
        for what, name in (("task", self.id), ("node", self.node)):
            if not 1 <= len(name) <= NAME_CHARACTERS_MAX or not name.isprintable():
                raise InvalidId(what, name)


def plain(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of *metadata* as it can be kept.  Raises InvalidPayload, TooLarge."""
    try:
        raw = msgspec.json.encode(dict(metadata))
    except (TypeError, ValueError, RecursionError) as bad:
        raise InvalidPayload("metadata", f"is not JSON: {bad}") from bad
    if len(raw) > METADATA_BYTES_MAX:
        raise TooLarge(len(raw), METADATA_BYTES_MAX)
    found: dict[str, Any] = msgspec.json.decode(raw)
    return found


class Limit(Value):
    """How many tasks of one type may run on one node, and in the cluster."""

    node_max: int
    cluster_max: int

    def __post_init__(self) -> None:
        within("limit.cluster_max", self.cluster_max, 0, RUNNING_MAX)
        within("limit.node_max", self.node_max, 0, RUNNING_MAX)


_USUAL = {
    "training": Limit(node_max=1, cluster_max=TRAINING_MAX),
    "evaluation": Limit(node_max=2, cluster_max=20),
    "export": Limit(node_max=2, cluster_max=20),
    "sync": Limit(node_max=2, cluster_max=50),
    "tournament": Limit(node_max=1, cluster_max=2),
    "parity": Limit(node_max=2, cluster_max=20),
    "cmaes": Limit(node_max=1, cluster_max=1),
    "pipeline": Limit(node_max=1, cluster_max=1),
    "improvement_loop": Limit(node_max=1, cluster_max=1),
    "background_loop": Limit(node_max=4, cluster_max=100),
    "unknown": Limit(node_max=4, cluster_max=50),
}


def _table(node_max: int, cluster_max: int) -> dict[str, Limit]:
    return dict.fromkeys(sorted(SELFPLAY), Limit(node_max=node_max, cluster_max=cluster_max)) | _USUAL


class TaskLimits(Value):
    """How many tasks of each type may run, and how fast they may start.  Every type has a row."""

    table: dict[str, Limit] = msgspec.field(default_factory=lambda: _table(32, 500))
    spawns_per_minute_max: int = 60
    selfplay_spawns_per_minute_max: int = 30
    burst_max: int = 10
    """Starts within *burst_seconds*."""
    selfplay_burst_max: int = 5
    burst_seconds: float = 1.0
    beat_seconds_max: float = 300.0
    """How long a task whose process nobody can look at may give no sign of life."""

    def __post_init__(self) -> None:
        if missing := sorted(set(TYPES) ^ set(self.table)):
            raise SettingsError("tasks.table", missing, "must have a row for every type of task and no other")
        for name in ("spawns_per_minute_max", "selfplay_spawns_per_minute_max", "burst_max", "selfplay_burst_max"):
            within(f"tasks.{name}", getattr(self, name), 1, SPAWNS_MAX)
        within("tasks.burst_seconds", self.burst_seconds, 0, MINUTE_SECONDS)
        within("tasks.beat_seconds_max", self.beat_seconds_max, 1, 86_400)

    @classmethod
    def default(cls) -> "TaskLimits":
        """The usual ones."""
        return cls()

    @classmethod
    def conservative(cls) -> "TaskLimits":
        """For few or shared machines."""
        return cls(table=_table(8, 100), spawns_per_minute_max=20, selfplay_spawns_per_minute_max=10)

    @classmethod
    def aggressive(cls) -> "TaskLimits":
        """For many machines that nobody else uses."""
        return cls(table=_table(64, 1000), spawns_per_minute_max=120, selfplay_spawns_per_minute_max=60)

    def of(self, type: str) -> Limit:
        """The row of *type*."""
        return self.table[type]


class Spawn(Value):
    """That a task of *type* began at *tick* of one host."""

    tick: float
    type: str


class RunState(Value):
    """Whether anybody gets a place at all, and why not."""

    state: str = "running"
    reason: str = ""
    since: float = 0.0


OPEN = RunState()


def same_kind(type: str) -> frozenset[str]:
    """The types that share the limit of *type*."""
    return SELFPLAY if type in SELFPLAY else frozenset({type})


def may_start(
    task: Task, running: Iterable[Task], spawns: Sequence[Spawn], limits: TaskLimits, *,
    gate: RunState = OPEN, tick: float = 0.0, now: float = 0.0,
) -> Verdict:  # fmt: skip
    """Whether *task* may begin beside those that are *running* and after *spawns*: the first rule that says no.

    When all agree it is what the limit of its node says.
    """
    kind, limit = same_kind(task.type), limits.of(task.type)
    everyone = tuple(running)
    alike = [other for other in everyone if other.type in kind]
    on_node = sum(other.node == task.node for other in alike)
    rules = [
        (f"admission is {gate.state}{gate.reason and ': '}{gate.reason}", int(gate.state != "running"), 1),
        (f"tasks for {task.key}", sum(other.key == task.key for other in everyone) if task.key else 0, 1),
        (f"tasks of type {task.type} on node {task.node}", on_node, limit.node_max),
        (f"tasks of type {task.type} in the cluster", len(alike), limit.cluster_max),
        ("tasks in the cluster", len(everyone), RUNNING_MAX),
        *_rates(task.type, spawns, limits, tick),
    ]
    refused = [rule for rule in rules if rule[1] >= rule[2]]
    rule, value, limit_value = refused[0] if refused else rules[2]
    return Verdict(gate=f"task.{task.type}", allowed=not refused, rule=rule, value=value, limit=limit_value, since=now)


def _rates(type: str, spawns: Sequence[Spawn], limits: TaskLimits, tick: float) -> list[tuple[str, int, int]]:
    """What may begin in a minute and at once: all types together, and selfplay by itself too."""
    short = limits.burst_seconds
    minute = within_last(spawns, tick, MINUTE_SECONDS)
    burst = within_last(spawns, tick, short)
    found = [
        ("starts in the last minute", len(minute), limits.spawns_per_minute_max),
        (f"starts in the last {short:g} s", len(burst), limits.burst_max),
    ]
    if type in SELFPLAY:
        mine = [sum(spawn.type in SELFPLAY for spawn in some) for some in (minute, burst)]
        found.append(("starts of selfplay in the last minute", mine[0], limits.selfplay_spawns_per_minute_max))
        found.append((f"starts of selfplay in the last {short:g} s", mine[1], limits.selfplay_burst_max))
    return found


def within_last(spawns: Iterable[Spawn], tick: float, seconds: float) -> tuple[Spawn, ...]:
    """Those of *spawns* that lie in the last *seconds*."""
    return tuple(spawn for spawn in spawns if tick - spawn.tick < seconds)


def orphaned(
    tasks: Iterable[Task], here: Moment, seconds: float, *, late: Collection[str], gone: Callable[[Process], bool]
) -> list[Task]:
    """Those of *tasks* that nobody does any more, with the reason, at the moment *here*.

    Where the process can be looked at, it alone decides: who lives keeps its place.  Otherwise the beats decide, and
    those of another host are *late* when an observer has seen them stand still.
    """
    found = []
    for task in tasks:
        reason = ""
        if task.process is not None and task.process.host == here.host:
            reason = f"its process {task.pid} is gone" if gone(task.process) else ""
        elif task.beaten.host == here.host:
            silent = here.tick - task.beaten.tick
            reason = f"it gave no sign of life for {silent:.0f} s" if silent >= seconds else ""
        elif task.id in late:
            reason = f"it gave no sign of life for {seconds:g} s"
        if reason:
            found.append(msgspec.structs.replace(task, state="orphaned", reason=reason))
    return found
