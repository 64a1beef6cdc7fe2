"""The documented task lifecycle: what became of every task, registered in this home or only told of in events."""

from collections import Counter, OrderedDict
from functools import cache
from typing import Any

from ringrift_compat.ambient import Embedded, ambient
from ringrift_compat.health import CoordinatorStatus, HealthCheckResult
from ringrift_compat.levels import TaskType
from ringrift_compat.listening import Listeners
from ringrift_compat.router_event import EventSource, RouterEvent
from ringrift_compat.tasks import TaskInfo, TaskStatus, get_coordinator

KEPT = "task_lifecycle"
HEARD_MAX = 1000
"""Tasks that are known from events alone."""
FAILED_SHARE_MAX = 0.5
"""Of the tasks that ended: more that failed or were orphaned is not healthy."""
_STATUS = {
    "TASK_SPAWNED": TaskStatus.RUNNING, "TASK_HEARTBEAT": TaskStatus.RUNNING, "TASK_COMPLETED": TaskStatus.COMPLETED,
    "TASK_FAILED": TaskStatus.FAILED, "TASK_ABANDONED": TaskStatus.FAILED, "TASK_CANCELLED": TaskStatus.CANCELLED,
    "TASK_ORPHANED": TaskStatus.ORPHANED,
}  # fmt: skip
_OVER = frozenset(TaskStatus) - {TaskStatus.PENDING, TaskStatus.RUNNING}


class Heard:
    """What events told of tasks, for as long as the node is open."""

    def __init__(self) -> None:
        self.tasks: OrderedDict[str, TaskInfo] = OrderedDict()
        self.wired = False

    @classmethod
    def of(cls, node: Embedded) -> "Heard":
        """That of *node*."""
        found: Heard = node.kept.setdefault(KEPT, cls())
        return found

    def note(self, event: RouterEvent) -> None:
        """Take in one event; one without the id of a task tells of none."""
        status = _STATUS[event.event_type]
        for id in _ids(event.payload):
            before = self.tasks.get(id)
            if before is not None and before.status in _OVER and event.event_type == "TASK_HEARTBEAT":
                continue  # it came late, and brings nobody back
            self.tasks.pop(id, None)
            self.tasks[id] = _changed(before or _unknown(id, event), status, event)
        while len(self.tasks) > HEARD_MAX:
            self.tasks.popitem(last=False)


def _ids(told: dict[str, Any]) -> list[str]:
    one = told.get("task_id") or told.get("job")
    many = told.get("jobs") or ()
    return [str(id) for id in ([one] if one else many)]


def _unknown(id: str, event: RouterEvent) -> TaskInfo:
    told = event.payload
    word = str(told.get("task_type") or told.get("kind") or "")
    known = TaskType(word) if word in set(TaskType) else TaskType.UNKNOWN
    return TaskInfo(
        task_id=id, task_type=known, node_id=str(told.get("node_id") or told.get("node") or event.source),
        started_at=event.timestamp,
    )  # fmt: skip


def _changed(task: TaskInfo, status: TaskStatus, event: RouterEvent) -> TaskInfo:
    task.status, task.last_heartbeat = status, event.timestamp
    task.completed_at = event.timestamp if status in _OVER else None
    task.error = str(event.payload.get("error") or "") if status in _OVER else ""
    return task


class TaskLifecycleCoordinator:
    """Follows tasks through their lives: those that are registered, and those that only events tell of."""

    def subscribe_to_events(self) -> bool:
        """Listen to what is said of tasks; once, however often it is asked for."""
        return ambient.call(_listen(ambient.node()))

    def get_task(self, task_id: str) -> TaskInfo | None:
        """The task of this id."""
        return get_coordinator().get_task(task_id) or Heard.of(ambient.node()).tasks.get(task_id)

    def get_tasks(self, status: str | None = None) -> list[TaskInfo]:
        """Every task that is known, or those of this status; what is registered counts before what is told."""
        registered = {task.task_id: task for task in get_coordinator().get_tasks(status=None)}
        known = dict(Heard.of(ambient.node()).tasks) | registered
        return [task for task in known.values() if status is None or task.status == TaskStatus(status)]

    def get_active_tasks(self) -> list[TaskInfo]:
        """Those that run."""
        return self.get_tasks(TaskStatus.RUNNING)

    def get_stats(self) -> dict[str, Any]:
        """How many tasks there are in each status, of which types, and where."""
        tasks = self.get_tasks()
        by_status = Counter(task.status.value for task in tasks)
        active = [task for task in tasks if task.status is TaskStatus.RUNNING]
        return {
            "total_tasks": len(tasks), "active_tasks": len(active),
            **{f"{status.value}_tasks": by_status[status.value] for status in TaskStatus},
            "by_status": dict(by_status), "by_type": dict(Counter(task.task_type.value for task in tasks)),
            "by_node": dict(Counter(task.node_id for task in active)),
            "subscribed": Heard.of(ambient.node()).wired,
        }  # fmt: skip

    get_status = get_stats

    def health_check(self) -> HealthCheckResult:
        """Healthy unless most of what ended did not end well."""
        stats = self.get_stats()
        bad = stats["failed_tasks"] + stats["orphaned_tasks"] + stats["timed_out_tasks"]
        over = bad + stats["completed_tasks"]
        healthy = not over or bad / over <= FAILED_SHARE_MAX
        status = CoordinatorStatus.RUNNING if healthy else CoordinatorStatus.DEGRADED
        message = "" if healthy else f"{bad} of {over} tasks failed or were orphaned"
        return HealthCheckResult(healthy=healthy, status=status, message=message, details=stats)


async def _listen(node: Embedded) -> bool:
    """Hear of tasks on the ambient loop, whichever loop asked for it: that one may close, and this one does not."""
    heard = Heard.of(node)
    if heard.wired:
        return True
    heard.wired = True

    async def note(event: RouterEvent) -> None:
        heard.note(event)

    for name in _STATUS:
        await Listeners.of(node).add((EventSource.ROUTER, name, note), None)
    return True


@cache
def get_task_lifecycle_coordinator() -> TaskLifecycleCoordinator:
    """The one of this program."""
    return TaskLifecycleCoordinator()


def wire_task_events() -> TaskLifecycleCoordinator:
    """Listen to what is said of tasks; who listens."""
    found = get_task_lifecycle_coordinator()
    found.subscribe_to_events()
    return found


def get_task_stats() -> dict[str, Any]:
    """How many tasks there are in each status, of which types, and where."""
    return get_task_lifecycle_coordinator().get_stats()
