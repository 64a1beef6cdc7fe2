"""The documented task coordinator: places for tasks, taken atomically from limits that every program shares."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any

from ringrift.kernel.errors import RingriftError
from ringrift.kernel.verdict import Verdict
from ringrift.work import admission
from ringrift.work.tasks import ENDS, RunState, Task, TaskLimits
from ringrift_compat.admitting import Admitting, admitting
from ringrift_compat.ambient import ambient
from ringrift_compat.health import CoordinatorStatus, HealthCheckResult
from ringrift_compat.levels import TaskType

LISTED_MAX = 10_000
ALLOWED = "OK"


class CoordinatorRunState(StrEnum):
    """Whether tasks get places: only while it is running."""

    RUNNING = "running"
    PAUSED = "paused"
    DRAINING = "draining"
    EMERGENCY = "emergency"
    STOPPED = "stopped"


class TaskStatus(StrEnum):
    """What became of a task."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    ORPHANED = "orphaned"


@dataclass
class TaskInfo:
    """A task in the documented shape."""

    task_id: str
    task_type: TaskType
    node_id: str
    pid: int = 0
    status: TaskStatus = TaskStatus.RUNNING
    started_at: float = 0.0
    last_heartbeat: float = 0.0
    completed_at: float | None = None
    error: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)


def shown(task: Task) -> TaskInfo:
    """*task* in the documented shape."""
    return TaskInfo(
        task_id=task.id, task_type=TaskType(task.type), node_id=task.node, pid=task.pid,
        status=TaskStatus(task.state), started_at=task.since, last_heartbeat=task.beat, completed_at=task.ended,
        error=task.reason, metadata=task.metadata,
    )  # fmt: skip


class TaskCoordinator:
    """A view of the tasks of this home: what one program does with it, every other one sees."""

    @classmethod
    def get_instance(cls) -> "TaskCoordinator":
        """The coordinator."""
        return get_coordinator()

    def can_spawn(self, task_type: str, node_id: str) -> tuple[bool, str]:
        """Whether a task could begin now, and why not.  It advises and takes nothing."""
        return can_spawn(task_type, node_id)

    can_spawn_task = can_spawn

    def register_task(
        self, task_id: str, task_type: str, node_id: str, pid: int = 0, metadata: Mapping[str, Any] | None = None
    ) -> str:
        """Take a place for a task, check and all in one step; its id.

        The death of the process *pid*, whosever it is, ends the task.  Raises LimitReached, and IdConflict while a task
        of this id runs.
        """
        tasks = admitting()
        task = tasks.task(task_id, TaskType(task_type), node_id, pid, metadata)
        return ambient.call(tasks.admit(task)).id

    def heartbeat_task(self, task_id: str, metadata: Mapping[str, Any] | None = None) -> bool:
        """Say that the task lives; whether it still has its place."""
        return bool(ambient.call(admitting().beat([task_id], metadata)))

    heartbeat = update_heartbeat = heartbeat_task

    def complete_task(self, task_id: str, metadata: Mapping[str, Any] | None = None) -> bool:
        """The task has done what it was to do; whether it had a place to give back."""
        return _finished(task_id, "completed", metadata=metadata)

    complete = complete_task

    def fail_task(self, task_id: str, error: str = "") -> bool:
        """The task has failed; whether it had a place to give back."""
        return _finished(task_id, "failed", str(error))

    fail = fail_task

    def cancel_task(self, task_id: str, reason: str = "") -> bool:
        """The task is not to be done any more; whether it had a place to give back."""
        return _finished(task_id, "cancelled", reason)

    cancel = cancel_task

    def unregister_task(self, task_id: str) -> bool:
        """As :meth:`complete_task`."""
        return self.complete_task(task_id)

    unregister = unregister_task

    def get_task(self, task_id: str) -> TaskInfo | None:
        """The task of this id, running or ended."""
        found = ambient.call(admitting().tasks.find(task_id))
        return None if found is None else shown(found)

    def get_tasks(
        self, task_type: str | None = None, node_id: str | None = None, status: str | None = TaskStatus.RUNNING
    ) -> list[TaskInfo]:
        """Tasks of this type, node and status, oldest first; None stands for all."""
        wanted_type = None if task_type is None else TaskType(task_type)
        wanted_status = None if status is None else TaskStatus(status)
        found = [shown(task) for task in ambient.call(_all(admitting()))]
        return [
            task for task in found
            if wanted_type in (None, task.task_type) and node_id in (None, task.node_id)
            and wanted_status in (None, task.status)
        ][:LISTED_MAX]  # fmt: skip

    def count_tasks(self, task_type: str | None = None, node_id: str | None = None) -> int:
        """How many tasks run."""
        return len(self.get_tasks(task_type, node_id))

    def get_stats(self) -> dict[str, Any]:
        """How many run, by type and node, how they ended so far, the limits, and the state."""
        return ambient.call(_stats(admitting()))

    def cleanup_stale_tasks(self) -> list[str]:
        """End the tasks whose process is gone or that give no sign of life; their ids."""
        return [task.id for task in ambient.call(admitting().tasks.sweep())]

    @property
    def limits(self) -> TaskLimits:
        """The limits in force, the same for every program of this home."""
        return ambient.call(_limits(admitting()))

    def set_limits(self, limits: TaskLimits) -> None:
        """Put other limits in force for every program of this home; what runs already stays."""
        ambient.call(admitting().tasks.limit(limits))

    def get_state(self) -> CoordinatorRunState:
        """Whether tasks get places."""
        return CoordinatorRunState(ambient.call(_state(admitting())).state)

    @property
    def state(self) -> CoordinatorRunState:
        """As :meth:`get_state`."""
        return self.get_state()

    def pause(self, reason: str = "") -> None:
        """Let nobody in until :meth:`resume`; what runs goes on."""
        _be(CoordinatorRunState.PAUSED, reason)

    def resume(self) -> None:
        """Let tasks in again."""
        _be(CoordinatorRunState.RUNNING, "")

    def drain(self, reason: str = "") -> None:
        """Let nobody in, so that what runs comes to its end."""
        _be(CoordinatorRunState.DRAINING, reason)

    def emergency_stop(self, reason: str = "") -> None:
        """Let nobody in, because something is badly wrong."""
        _be(CoordinatorRunState.EMERGENCY, reason)

    emergency = emergency_stop

    def stop(self, reason: str = "") -> None:
        """Let nobody in: all is over."""
        _be(CoordinatorRunState.STOPPED, reason)

    def health_check(self) -> HealthCheckResult:
        """Healthy while it answers and lets tasks in."""
        stats = self.get_stats()
        state = CoordinatorRunState(stats["state"])
        emergency = state is CoordinatorRunState.EMERGENCY
        status = CoordinatorStatus.ERROR if emergency else CoordinatorStatus(state.value)
        healthy = state is CoordinatorRunState.RUNNING
        message = "" if healthy else f"admission is {state}: {stats['state_reason'] or 'no reason was given'}"
        return HealthCheckResult(healthy=healthy, status=status, message=message, details=stats)


async def _all(tasks: Admitting) -> list[Task]:
    async with tasks.node.store.read() as view:
        found = [*await admission.ended(view), *await admission.running(view)]
    return sorted(found, key=lambda task: task.serial)


async def _limits(tasks: Admitting) -> TaskLimits:
    async with tasks.node.store.read() as view:
        return await admission.limits_of(view)


async def _state(tasks: Admitting) -> RunState:
    async with tasks.node.store.read() as view:
        return await admission.gate_of(view)


async def _stats(tasks: Admitting) -> dict[str, Any]:
    async with tasks.node.store.read() as view:
        there, book = await admission.running(view), await admission.book_of(view)
        gate, limits = await admission.gate_of(view), await admission.limits_of(view)
    by_type: dict[str, int] = {}
    by_node: dict[str, int] = {}
    for task in there:
        by_type[task.type] = by_type.get(task.type, 0) + 1
        by_node[task.node] = by_node.get(task.node, 0) + 1
    return {
        "state": CoordinatorRunState(gate.state), "state_reason": gate.reason, "total_tasks": len(there),
        "running": len(there), "by_type": by_type, "by_node": by_node, "registered": book.admitted,
        "refused": book.refused, **{end: book.ends.get(end, 0) for end in ENDS},
        "limits": {type: {"node": one.node_max, "cluster": one.cluster_max} for type, one in limits.table.items()},
    }  # fmt: skip


def _be(state: CoordinatorRunState, reason: str) -> None:
    ambient.call(admitting().tasks.be(state.value, reason))


def _finished(id: str, state: str, reason: str = "", metadata: Mapping[str, Any] | None = None) -> bool:
    return ambient.call(admitting().finish(id, state, reason, metadata)) is not None


@cache
def get_coordinator() -> TaskCoordinator:
    """The coordinator of this program's home."""
    return TaskCoordinator()


get_task_coordinator = get_coordinator


def advice(verdict: Verdict) -> tuple[bool, str]:
    """*verdict* in the documented shape."""
    return verdict.allowed, ALLOWED if verdict.allowed else str(verdict)


def can_spawn(task_type: str, node_id: str) -> tuple[bool, str]:
    """Whether a task of this type could begin on this node now, and why not: it advises and takes nothing.

    When nobody can tell, it could not.
    """
    wanted = TaskType(task_type)
    try:
        tasks = admitting()
        task = tasks.task("asked", wanted, node_id, os.getpid())
        return advice(ambient.call(tasks.tasks.check(task)))
    except (RingriftError, OSError) as wrong:
        return False, f"nobody can tell: {wrong}"
