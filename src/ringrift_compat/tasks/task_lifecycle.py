"""The task lifecycle: counts of all tasks, registered in this home or only published in events."""

from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import Any

from ringrift.work.tasks import ENDS
from ringrift_compat.embedded_node import EmbeddedNode, embedded
from ringrift_compat.events.router_event import EventSource, RouterEvent
from ringrift_compat.events.subscriptions import Subscriptions
from ringrift_compat.tasks.task_coordinator import all_tasks
from ringrift_compat.types import TaskType

_TASKS_MAX = 1000
"""Tasks that are known from events alone."""
_STATES = {
    "TASK_SPAWNED": "running",
    "TASK_HEARTBEAT": "running",
    "TASK_COMPLETED": "completed",
    "TASK_FAILED": "failed",
    "TASK_ABANDONED": "failed",
    "TASK_CANCELLED": "cancelled",
    "TASK_ORPHANED": "orphaned",
}


@dataclass
class _EventTask:
    """A task as events describe it."""

    type: str
    node: str
    state: str


class _EventTasks:
    """The tasks of events, for as long as the node is open."""

    def __init__(self, node: EmbeddedNode) -> None:
        self.tasks: OrderedDict[str, _EventTask] = OrderedDict()
        self._node = node

    @property
    def keys(self) -> list[tuple[EventSource, str, Any]]:
        """Its subscriptions, one for each event of a task."""
        return [(EventSource.ROUTER, name, self.record) for name in _STATES]

    def is_subscribed(self) -> bool:
        """Whether it gets every event of a task now."""
        return set(self.keys) <= set(self._node.extension(Subscriptions).entries())

    async def record(self, event: RouterEvent) -> None:
        """Record one event; one without the id of a task is ignored."""
        payload = event.payload
        id = payload.get("task_id") or payload.get("job")
        for task_id in map(str, [id] if id else payload.get("jobs") or ()):
            task = self.tasks.pop(task_id, None) or _new_task(event)
            if event.event_type != "TASK_HEARTBEAT" or task.state not in ENDS:  # a late heartbeat revives no task
                task.state = _STATES[event.event_type]
            self.tasks[task_id] = task
        while len(self.tasks) > _TASKS_MAX:
            self.tasks.popitem(last=False)


def _new_task(event: RouterEvent) -> _EventTask:
    payload = event.payload
    word = str(payload.get("task_type") or payload.get("kind") or "")
    node = str(payload.get("node_id") or payload.get("node") or event.source)
    return _EventTask(word if word in set(TaskType) else TaskType.UNKNOWN.value, node, "running")


async def _subscribe(node: EmbeddedNode) -> None:
    """Subscribe on the loop of the node: the loop of the caller may close, and this one does not."""
    for key in node.extension(_EventTasks).keys:
        await node.extension(Subscriptions).add(key, None)


def wire_task_events() -> None:
    """Count the tasks that are only published in events too, from now on; once, however often it is called."""
    embedded.call(_subscribe(embedded.node()))


def get_task_stats() -> dict[str, Any]:
    """How many tasks there are in each state, of which types, and where those run that are active."""
    seen = embedded.node().extension(_EventTasks)
    states = {id: (task.state, task.type, task.node) for id, task in seen.tasks.items()}
    states |= {task.id: (task.state, task.type, task.node) for task in embedded.query(all_tasks)}
    by_status = Counter(state for state, _, _ in states.values())
    return {
        "total_tasks": len(states),
        "active_tasks": by_status["running"],
        **{f"{state}_tasks": by_status[state] for state in ENDS},
        "by_status": dict(by_status),
        "by_type": dict(Counter(type for _, type, _ in states.values())),
        "by_node": dict(Counter(node for state, _, node in states.values() if state == "running")),
        "subscribed": seen.is_subscribed(),
    }
