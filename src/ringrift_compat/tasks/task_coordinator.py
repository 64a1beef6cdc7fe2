"""The task coordinator: places for tasks, taken atomically from limits that every program of this home shares."""

import os
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any

from ringrift.kernel.errors import RingriftError
from ringrift.store.ports import Reads
from ringrift.work import admission
from ringrift.work.tasks import ENDS, Task, TaskLimits
from ringrift_compat.embedded_node import embedded
from ringrift_compat.health.protocols import CoordinatorStatus, HealthCheckResult
from ringrift_compat.tasks.admission import program_tasks
from ringrift_compat.types import TaskType


class TaskCoordinator:
    """A view of the tasks of this home: every program sees the same."""

    @classmethod
    @cache
    def get_instance(cls) -> "TaskCoordinator":
        """The coordinator."""
        return cls()

    def register_task(
        self, task_id: str, task_type: str, node_id: str, pid: int = 0, metadata: Mapping[str, Any] | None = None
    ) -> str:
        """Check the limits and take a place for a task in one step; its id.

        The death of the process *pid* ends the task.  Raises LimitReached, and IdConflict while a task of this id runs.
        """
        tasks = program_tasks()
        return embedded.call(tasks.admit(tasks.task(task_id, TaskType(task_type), node_id, pid, metadata))).id

    def heartbeat_task(self, task_id: str, metadata: Mapping[str, Any] | None = None) -> bool:
        """Report that the task lives; whether it still has its place."""
        return bool(embedded.call(program_tasks().beat([task_id], metadata)))

    def complete_task(self, task_id: str, metadata: Mapping[str, Any] | None = None) -> bool:
        """End the task as done; whether it had a place."""
        return embedded.call(program_tasks().finish(task_id, "completed", metadata=metadata))

    def fail_task(self, task_id: str, error: str = "") -> bool:
        """End the task as failed; whether it had a place."""
        return embedded.call(program_tasks().finish(task_id, "failed", str(error)))

    def cancel_task(self, task_id: str, reason: str = "") -> bool:
        """End the task as cancelled; whether it had a place."""
        return embedded.call(program_tasks().finish(task_id, "cancelled", reason))

    def get_tasks(self, status: str | None = "running") -> list[Task]:
        """The tasks in this state, oldest first; None stands for all, the last ended ones included."""
        return [task for task in embedded.query(all_tasks) if status in (None, task.state)]

    def get_stats(self) -> dict[str, Any]:
        """How many tasks run, by type and node, how they ended so far, the limits, and the state."""
        return embedded.query(_stats)

    def set_limits(self, limits: TaskLimits) -> None:
        """Put other limits in force for every program of this home; what runs already stays."""
        embedded.call(program_tasks().tasks.set_limits(limits))

    def pause(self, reason: str = "") -> None:
        """Admit nothing until :meth:`resume`; what runs goes on."""
        self._set_state("paused", reason)

    def drain(self, reason: str = "") -> None:
        """Admit nothing, so that what runs comes to its end."""
        self._set_state("draining", reason)

    def emergency_stop(self, reason: str = "") -> None:
        """Admit nothing, because something is badly broken."""
        self._set_state("emergency", reason)

    def resume(self) -> None:
        """Admit tasks again."""
        self._set_state("running", "")

    def _set_state(self, state: str, reason: str) -> None:
        embedded.call(program_tasks().tasks.set_state(state, reason))

    def health_check(self) -> HealthCheckResult:
        """Healthy while the store answers and tasks are admitted."""
        stats = self.get_stats()
        state, reason = stats["state"], stats["state_reason"]
        if state == "running":
            return HealthCheckResult(True, details=stats)
        status = CoordinatorStatus.ERROR if state == "emergency" else CoordinatorStatus(state)
        return HealthCheckResult(False, status, f"admission is {state}: {reason or 'no reason was given'}", stats)


async def all_tasks(view: Reads) -> list[Task]:
    """Every task that runs, and those that ended last."""
    tasks = [*await admission.ENDED_TASKS.all(view), *await admission.TASKS.all(view)]
    return sorted(tasks, key=lambda task: task.serial)


async def _stats(view: Reads) -> dict[str, Any]:
    tasks, admitting = await admission.TASKS.all(view), await admission.load_state(view)
    limits = admitting.limits.table
    return {
        "state": admitting.run_state.state,
        "state_reason": admitting.run_state.reason,
        "running": len(tasks),
        "by_type": dict(Counter(task.type for task in tasks)),
        "by_node": dict(Counter(task.node for task in tasks)),
        "registered": admitting.admitted,
        "refused": admitting.refused,
        **{end: admitting.ends.get(end, 0) for end in ENDS},
        "limits": {type: {"node": row.node_max, "cluster": row.cluster_max} for type, row in limits.items()},
    }


def can_spawn(task_type: str, node_id: str) -> tuple[bool, str]:
    """Whether a task of this type could begin on this node now, and why not: it advises and takes nothing.

    If the store cannot be read, it could not.
    """
    kind = TaskType(task_type)
    try:
        tasks = program_tasks()
        verdict = embedded.call(tasks.tasks.check(tasks.task("new", kind, node_id, os.getpid())))
    except (RingriftError, OSError) as error:
        return False, f"the limits cannot be read: {error}"
    return verdict.allowed, "OK" if verdict.allowed else str(verdict)
