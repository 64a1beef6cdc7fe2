"""The documented task coordinator: slots are taken atomically, and every program of a home sees the same tasks."""

import asyncio
import importlib
import os
import subprocess

import pytest

from compat.subscribers import EventRecorder, async_test, home
from ringrift.kernel.errors import IdConflict, LimitReached, TooLarge
from ringrift.work.tasks import TASK_TYPES, Limit
from ringrift_compat.embedded_node import embedded
from ringrift_compat.events.event_router import get_router
from ringrift_compat.tasks.admission import program_tasks
from ringrift_compat.tasks.task_coordinator import TaskCoordinator, can_spawn
from ringrift_compat.tasks.task_lifecycle import get_task_stats, wire_task_events
from ringrift_compat.tasks.task_limits import _TRAINING_MAX, TaskLimits
from ringrift_compat.types import TaskType
from wait import wait_until

__all__ = ["home"]


def register(id: str, type: str = TaskType.TRAINING, node: str = "node-1", pid: int | None = None) -> str:
    """Take a slot for this process."""
    return TaskCoordinator.get_instance().register_task(id, type, node, os.getpid() if pid is None else pid)


def test_can_spawn_advises_and_register_takes() -> None:
    """After two positive answers on a node for one training, the second registration raises LimitReached: one task
    exists."""
    coordinator = TaskCoordinator.get_instance()

    assert coordinator is TaskCoordinator.get_instance()
    assert can_spawn(TaskType.TRAINING, "node-1") == (True, "OK")
    assert can_spawn(TaskType.TRAINING, "node-1") == (True, "OK")
    assert register("a") == "a"
    with pytest.raises(LimitReached, match="1 of 1"):
        register("b")

    assert [task.id for task in coordinator.get_tasks()] == ["a"]
    assert coordinator.get_stats()["by_node"] == {"node-1": 1}


def test_denied_checks_do_not_use_up_the_rate() -> None:
    """However often can_spawn and register_task refuse, the next task gets its slot."""
    register("a")
    for number in range(70):
        ok, reason = can_spawn("training", "node-1")
        assert (ok, reason) == (False, "task.training: waits — tasks of type training on node node-1: 1 of 1")
        with pytest.raises(LimitReached):
            register(f"b{number}")

    assert can_spawn("training", "node-2") == (True, "OK")
    assert register("c", node="node-2") == "c"


def test_evaluation_has_a_limit() -> None:
    """On one node the third evaluation is refused."""
    for number in range(2):
        register(f"e{number}", TaskType.EVALUATION)

    with pytest.raises(LimitReached, match="evaluation"):
        register("e2", TaskType.EVALUATION)


def test_concurrent_training_has_one_limit() -> None:
    """The limits in force are in the statistics; changing them changes them for all."""
    coordinator = TaskCoordinator.get_instance()
    assert coordinator.get_stats()["limits"]["training"] == {"node": 1, "cluster": _TRAINING_MAX}

    coordinator.set_limits(TaskLimits(table=TaskLimits().table | {"training": Limit(node_max=1, cluster_max=2)}))

    assert coordinator.get_stats()["limits"]["training"] == {"node": 1, "cluster": 2}
    for number in range(2):
        register(f"t{number}", node=f"node-{number}")
    with pytest.raises(LimitReached, match="in the cluster: 2 of 2"):
        register("t2", node="node-2")


def test_a_task_has_a_lifecycle() -> None:
    """It beats, it ends once, and its outcome is remembered; its id is free again."""
    coordinator = TaskCoordinator.get_instance()
    coordinator.register_task("a", "sync", "node-1", os.getpid(), {"files": 3})
    with pytest.raises(IdConflict):
        register("a", "sync")
    assert coordinator.heartbeat_task("a", {"done": 1})
    assert coordinator.complete_task("a")

    assert not coordinator.complete_task("a")
    assert not coordinator.heartbeat_task("a")
    [task] = coordinator.get_tasks(status="completed")
    assert (task.id, task.metadata, task.pid) == ("a", {"files": 3, "done": 1}, os.getpid())
    assert register("a", "sync") == "a"
    assert coordinator.fail_task("a", "it broke")
    register("b", "sync")
    assert coordinator.cancel_task("b")
    stats = coordinator.get_stats()
    assert [stats[word] for word in ("running", "registered", "completed", "failed", "cancelled")] == [0, 3, 1, 1, 1]
    assert [task.id for task in coordinator.get_tasks(status=None)] == ["a", "a", "b"]
    assert [task.reason for task in coordinator.get_tasks(status="failed")] == ["it broke"]


def test_the_death_of_a_foreign_process_orphans_its_task() -> None:
    """The registering process lives on, but the process of the task does not: its slot is free."""
    child = subprocess.Popen(["sleep", "60"])
    register("a", pid=child.pid)
    assert not can_spawn("training", "node-1")[0]
    child.kill()
    child.wait()

    assert can_spawn("training", "node-1")[0]
    assert register("b") == "b"
    assert [task.id for task in TaskCoordinator.get_instance().get_tasks(status="orphaned")] == ["a"]


def test_maintenance_sweeps_and_renews_tasks() -> None:
    """The periodic maintenance renews the program's own tasks and ends those of dead processes."""
    child = subprocess.Popen(["sleep", "60"])
    register("a", "sync")
    register("b", "sync", pid=child.pid)
    child.kill()
    child.wait()

    embedded.call(program_tasks().renew())

    assert [(task.id, task.beats) for task in TaskCoordinator.get_instance().get_tasks()] == [("a", 1)]


@pytest.mark.parametrize(
    ("verb", "state"),
    [("pause", "paused"), ("drain", "draining"), ("emergency_stop", "emergency")],
)
def test_nothing_is_admitted_until_it_is_resumed(verb: str, state: str) -> None:
    """Running tasks go on; a check returns the state and its reason; health shows it too."""
    coordinator = TaskCoordinator.get_instance()
    register("a", "sync")
    getattr(coordinator, verb)("a test")

    assert coordinator.get_stats()["state"] == state
    word = {"emergency": "in emergency"}.get(state, state)
    assert can_spawn("sync", "node-1")[1].startswith(f"task.sync: waits — cluster is {word}: a test")
    with pytest.raises(LimitReached):
        register("b", "sync")
    assert coordinator.complete_task("a")
    assert not coordinator.health_check()
    coordinator.resume()
    assert coordinator.health_check()
    assert register("b", "sync") == "b"


def test_invalid_arguments_are_refused() -> None:
    """An unknown type and metadata that is too large take no slot."""
    with pytest.raises(ValueError, match="chess"):
        can_spawn("chess", "node-1")
    with pytest.raises(ValueError, match="chess"):
        register("a", "chess")
    with pytest.raises(TooLarge):
        TaskCoordinator.get_instance().register_task("a", "sync", "node-1", metadata={"what": "x" * 100_000})

    assert TaskCoordinator.get_instance().get_stats()["registered"] == 0


def test_an_unusable_home_admits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A home that cannot be used is no permission."""
    monkeypatch.setenv("RINGRIFT_COORDINATOR_DB", "/dev/null/store.db")

    ok, reason = can_spawn("sync", "node-1")

    assert not ok
    assert reason.startswith("the limits cannot be read")


@async_test
async def test_tasks_work_inside_a_running_loop() -> None:
    """The plain functions may be called from a coroutine too, and from threads beside it."""
    assert can_spawn("training", "node-1")[0]
    register("a")
    assert not (await asyncio.to_thread(can_spawn, "training", "node-1"))[0]


@async_test
async def test_the_lifecycle_of_tasks_is_published() -> None:
    """Subscribers receive that a task began and how it ended, under the documented names and in the same step."""
    recorder = EventRecorder()
    for name in ("TASK_SPAWNED", "TASK_COMPLETED", "TASK_FAILED", "TASK_CANCELLED"):
        get_router().subscribe(name, recorder.plain)
    for end in ("complete_task", "fail_task", "cancel_task"):
        register(end, "sync")
        getattr(TaskCoordinator.get_instance(), end)(end)

    events = await recorder.until(6)
    assert sorted((event.payload["task_id"], event.event_type) for event in events) == [
        ("cancel_task", "TASK_CANCELLED"),
        ("cancel_task", "TASK_SPAWNED"),
        ("complete_task", "TASK_COMPLETED"),
        ("complete_task", "TASK_SPAWNED"),
        ("fail_task", "TASK_FAILED"),
        ("fail_task", "TASK_SPAWNED"),
    ]


@async_test
async def test_the_lifecycle_counts_registered_and_published_tasks() -> None:
    """Tasks that are registered and tasks of events are counted together, once each; a late heartbeat revives none."""
    assert not get_task_stats()["subscribed"]
    wire_task_events()
    wire_task_events()
    register("a", "sync")
    payload = {"task_id": "far", "task_type": "training", "node_id": "node-9"}
    await get_router().publish("TASK_SPAWNED", payload)
    await wait_until(lambda: get_task_stats()["active_tasks"] == 2)
    assert get_task_stats()["by_node"] == {"node-1": 1, "node-9": 1}
    await get_router().publish("TASK_FAILED", {"task_id": "far", "error": "it broke"})
    await wait_until(lambda: get_task_stats()["failed_tasks"] == 1)
    await get_router().publish("TASK_HEARTBEAT", payload)
    await get_router().publish("TASK_SPAWNED", {"task_id": "further"})
    await wait_until(lambda: get_task_stats()["total_tasks"] == 3)

    stats = get_task_stats()
    assert stats["by_status"] == {"running": 2, "failed": 1}
    assert stats["by_type"] == {"sync": 1, "training": 1, "unknown": 1}
    assert stats["subscribed"]
    TaskCoordinator.get_instance().complete_task("a")
    assert get_task_stats()["active_tasks"] == 1


def test_types_are_those_of_the_core() -> None:
    """The core admits the fourteen types that the documents name."""
    assert tuple(TaskType) == TASK_TYPES


def test_the_documented_paths_are_served() -> None:
    """The package and its modules give the same objects."""
    package = importlib.import_module("app.coordination")
    module = importlib.import_module("app.coordination.task_coordinator")

    assert package.TaskCoordinator is module.TaskCoordinator is TaskCoordinator
    assert (package.can_spawn, package.TaskType) == (can_spawn, TaskType)
