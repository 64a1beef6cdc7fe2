"""The task coordinator: places for tasks, taken atomically from limits that every program of this home shares."""

import os
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any

from ringrift.cluster.roster import NODES
from ringrift.kernel.errors import RingriftError
from ringrift.pipeline.system_health import issue_text
from ringrift.store.ports import Reads
from ringrift.work.run_states import CLUSTER, RunState, load_run_states
from ringrift.work.tasks import ENDS, LIMITED_KINDS, RUNNING_MAX, HostTick, Task, running_tasks
from ringrift_compat.embedded_node import embedded
from ringrift_compat.health.protocols import CoordinatorStatus, HealthCheckResult
from ringrift_compat.health.survey import read_system_health
from ringrift_compat.tasks import task_admission
from ringrift_compat.tasks.admission import program_tasks
from ringrift_compat.tasks.task_limits import TaskLimits
from ringrift_compat.types import TaskType

_TYPES = {kind: type for type, kinds in LIMITED_KINDS.items() for kind in kinds}
"""Kind of job → the type of task that does the same work."""
_OWN_ISSUES = ("jobs/run_state", "slots/", "store")
"""The issues of the system that concern the admission of tasks."""
_STATUSES = {"running": CoordinatorStatus.DEGRADED, "emergency": CoordinatorStatus.ERROR}


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
        """The tasks in this state, oldest first, then the jobs of the loop that run, each as the task that it is.

        None stands for every state, the tasks that ended last included.
        """
        return [task for task in embedded.query(all_tasks) if status in (None, task.state)]

    def get_stats(self) -> dict[str, Any]:
        """How many tasks and jobs run, by type and node, how tasks ended so far, the limits, and the state."""
        return embedded.query(_stats)

    def set_limits(self, limits: TaskLimits) -> None:
        """Put other limits in force for every program and the loop of this home; what runs already stays."""
        embedded.call(program_tasks().tasks.set_limits(limits))

    def pause(self, reason: str = "") -> None:
        """Pause the cluster: no task and no job of the loop starts until :meth:`resume`; what runs goes on."""
        self._set_state("paused", reason)

    def drain(self, reason: str = "") -> None:
        """Drain the cluster: nothing starts, and what runs comes to its end."""
        self._set_state("draining", reason)

    def emergency_stop(self, reason: str = "") -> None:
        """Nothing starts, running jobs of the loop are stopped within their grace, and no champion changes."""
        self._set_state("emergency", reason)

    def resume(self) -> None:
        """Let tasks and jobs start again."""
        self._set_state("running", "")

    def _set_state(self, state: str, reason: str) -> None:
        tasks = program_tasks()
        by = f"process {os.getpid()} on {tasks.node.settings.node.id}"
        embedded.call(tasks.tasks.set_state(state, reason, by))

    def health_check(self) -> HealthCheckResult:
        """Healthy while the store answers, every scope runs and no slot is stuck: a view of the system's health."""
        stats = self.get_stats()
        issues = [issue for issue in read_system_health().issues if issue.part.startswith(_OWN_ISSUES)]
        if not issues:
            return HealthCheckResult(True, details=stats)
        state = stats["state"]
        status = _STATUSES.get(state) or CoordinatorStatus(state)
        return HealthCheckResult(False, status, "; ".join(map(issue_text, issues)), stats)


async def all_tasks(view: Reads) -> list[Task]:
    """Every task that runs, those that ended last, and the jobs of the loop that run."""
    return [*await task_admission.last_tasks(view), *await _loop_tasks(view)]


async def _loop_tasks(view: Reads) -> list[Task]:
    """The running jobs of the loop as tasks of the type whose limit they share."""
    starts = {job.job: job.since for node in await NODES.all(view) for job in node.activity.jobs}
    return [
        Task(
            id=row.id,
            type=_TYPES.get(row.kind, TaskType.UNKNOWN.value),
            node=row.holder or "",
            variant=row.variant,
            fence=row.fence,
            since=starts.get(row.id, row.time),
            beats=row.renewals,
            beat_at=HostTick(host=row.holder or "", tick=0.0),
            metadata={"job": row.kind, "key": row.key, "progress": row.progress},
        )
        for row in await view.jobs(("claimed",), RUNNING_MAX)
    ]


async def _stats(view: Reads) -> dict[str, Any]:
    own, jobs, totals = await running_tasks(view), await _loop_tasks(view), await task_admission.load_totals(view)
    tasks = [*own, *jobs]
    limits = (await task_admission.load_limits(view)).table
    cluster = (await load_run_states(view)).find(now=embedded.node().clock.now()) or RunState(scope=CLUSTER)
    return {
        "state": cluster.state,
        "state_reason": cluster.reason,
        "running": len(tasks),
        "by_type": dict(Counter(task.type for task in tasks)),
        "by_node": dict(Counter(task.node for task in tasks)),
        "jobs": len(jobs),
        "registered": len(own) + sum(totals.ends.values()),
        "refused": totals.refused,
        **{end: totals.ends.get(end, 0) for end in ENDS},
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
