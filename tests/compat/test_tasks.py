"""The documented task coordinator: places are taken in one step, and every program of a home sees the same tasks."""

import asyncio
import importlib
import os
import subprocess

import pytest

from compat.ears import Ears, home, on_a_loop
from ringrift.kernel.errors import IdConflict, LimitReached, TooLarge
from ringrift.work.tasks import TRAINING_MAX, Limit, TaskLimits
from ringrift_compat.admitting import admitting
from ringrift_compat.ambient import ambient
from ringrift_compat.events import get_router
from ringrift_compat.levels import TaskType
from ringrift_compat.task_lifecycle import get_task_lifecycle_coordinator, get_task_stats, wire_task_events
from ringrift_compat.tasks import CoordinatorRunState, TaskCoordinator, TaskStatus, can_spawn, get_coordinator
from ringrift_compat.training import get_training_coordinator
from waiting import wait_until

__all__ = ["home"]


def register(id: str, type: str = TaskType.TRAINING, node: str = "node-1", pid: int | None = None) -> str:
    """Take a place for this process."""
    return get_coordinator().register_task(id, type, node, os.getpid() if pid is None else pid)


def test_can_spawn_advises_and_register_takes() -> None:
    """Two who were both told yes on a node for one training: the second raises LimitReached, and there is one task."""
    coordinator = TaskCoordinator.get_instance()

    assert can_spawn(TaskType.TRAINING, "node-1") == (True, "OK")
    assert can_spawn(TaskType.TRAINING, "node-1") == (True, "OK")
    assert register("a") == "a"
    with pytest.raises(LimitReached, match="1 of 1"):
        register("b")

    assert [task.task_id for task in coordinator.get_tasks()] == ["a"]
    assert coordinator.count_tasks(TaskType.TRAINING, "node-1") == 1


def test_denied_checks_do_not_use_up_the_rate() -> None:
    """However often can_spawn and register_task say no, the next task gets its place."""
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


def test_there_is_one_number_for_concurrent_training() -> None:
    """Limits, statistics and the training slots read the same one; changing it changes it for all."""
    coordinator = get_coordinator()
    assert coordinator.limits.of("training").cluster_max == get_training_coordinator().max_concurrent == TRAINING_MAX
    assert coordinator.get_stats()["limits"]["training"] == {"node": 1, "cluster": TRAINING_MAX}

    coordinator.set_limits(TaskLimits(table=TaskLimits().table | {"training": Limit(node_max=1, cluster_max=2)}))

    assert get_training_coordinator().max_concurrent == 2
    for number in range(2):
        register(f"t{number}", node=f"node-{number}")
    with pytest.raises(LimitReached, match="in the cluster: 2 of 2"):
        register("t2", node="node-2")


def test_a_task_goes_through_its_life() -> None:
    """It beats, it ends once, and what became of it is remembered; its id is free again."""
    coordinator = get_coordinator()
    coordinator.register_task("a", "sync", "node-1", os.getpid(), {"files": 3})
    with pytest.raises(IdConflict):
        register("a", "sync")
    assert coordinator.heartbeat("a", {"done": 1})
    assert coordinator.complete("a")

    assert not coordinator.complete("a")
    assert not coordinator.heartbeat("a")
    found = coordinator.get_task("a")
    assert found is not None
    assert (found.status, found.metadata, found.pid) == (TaskStatus.COMPLETED, {"files": 3, "done": 1}, os.getpid())
    assert register("a", "sync") == "a"
    assert coordinator.fail_task("a", "it broke")
    register("b", "sync")
    assert coordinator.cancel_task("b")
    register("c", "sync")
    assert coordinator.unregister_task("c")
    stats = coordinator.get_stats()
    assert [stats[word] for word in ("running", "registered", "completed", "failed", "cancelled")] == [0, 4, 2, 1, 1]
    assert [task.task_id for task in coordinator.get_tasks(status=None)] == ["a", "a", "b", "c"]
    assert [task.error for task in coordinator.get_tasks(status="failed")] == ["it broke"]


def test_the_death_of_a_foreign_process_orphans_its_task() -> None:
    """The one who registers lives on, but the process that the task is of does not: its place is free."""
    child = subprocess.Popen(["sleep", "60"])
    register("a", pid=child.pid)
    assert not can_spawn("training", "node-1")[0]
    child.kill()
    child.wait()

    assert can_spawn("training", "node-1")[0]
    assert register("b") == "b"
    assert [task.task_id for task in get_coordinator().get_tasks(status="orphaned")] == ["a"]


def test_looking_after_tasks_sweeps_and_beats() -> None:
    """What the program does by itself now and then keeps its own tasks and ends those of the dead."""
    child = subprocess.Popen(["sleep", "60"])
    register("a", "sync")
    register("b", "sync", pid=child.pid)
    child.kill()
    child.wait()

    ambient.call(admitting().look_after())

    assert [task.task_id for task in get_coordinator().get_tasks()] == ["a"]
    mine = ambient.call(admitting().tasks.find("a"))
    assert mine is not None
    assert mine.beats == 1
    assert get_coordinator().cleanup_stale_tasks() == []


@pytest.mark.parametrize(
    ("verb", "state"),
    [("pause", "paused"), ("drain", "draining"), ("emergency_stop", "emergency"), ("stop", "stopped")],
)
def test_nobody_gets_in_until_it_is_resumed(verb: str, state: str) -> None:
    """What runs goes on; whoever asks is told the state and its reason; health says it too."""
    coordinator = get_coordinator()
    register("a", "sync")
    getattr(coordinator, verb)("a test")

    assert coordinator.get_state() is CoordinatorRunState(state) is coordinator.state
    assert can_spawn("sync", "node-1")[1].startswith(f"task.sync: waits — admission is {state}: a test")
    with pytest.raises(LimitReached):
        register("b", "sync")
    assert coordinator.complete("a")
    assert not coordinator.health_check()
    coordinator.resume()
    assert coordinator.health_check()
    assert register("b", "sync") == "b"


def test_wrong_words_are_refused() -> None:
    """A type that nobody knows and metadata that is too large take no place."""
    with pytest.raises(ValueError, match="chess"):
        can_spawn("chess", "node-1")
    with pytest.raises(ValueError, match="chess"):
        register("a", "chess")
    with pytest.raises(TooLarge):
        get_coordinator().register_task("a", "sync", "node-1", metadata={"what": "x" * 100_000})

    assert get_coordinator().get_stats()["registered"] == 0


def test_when_nobody_can_tell_nothing_may_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """A home that cannot be used is no permission."""
    monkeypatch.setenv("RINGRIFT_COORDINATOR_DB", "/dev/null/store.db")

    ok, reason = can_spawn("sync", "node-1")

    assert not ok
    assert reason.startswith("nobody can tell")


@on_a_loop
async def test_tasks_work_inside_a_running_loop() -> None:
    """The plain functions may be called from a coroutine too, and from threads beside it."""
    assert can_spawn("training", "node-1")[0]
    register("a")
    assert not (await asyncio.to_thread(can_spawn, "training", "node-1"))[0]


@on_a_loop
async def test_what_becomes_of_tasks_is_said() -> None:
    """Listeners hear that a task began and how it ended, under the documented names and in the same step."""
    ears = Ears()
    for name in ("TASK_SPAWNED", "TASK_COMPLETED", "TASK_FAILED", "TASK_CANCELLED"):
        get_router().subscribe(name, ears.plain)
    for end in ("complete_task", "fail_task", "cancel_task"):
        register(end, "sync")
        getattr(get_coordinator(), end)(end)

    heard = await ears.until(6)
    assert sorted((event.payload["task_id"], event.event_type) for event in heard) == [
        ("cancel_task", "TASK_CANCELLED"), ("cancel_task", "TASK_SPAWNED"), ("complete_task", "TASK_COMPLETED"),
        ("complete_task", "TASK_SPAWNED"), ("fail_task", "TASK_FAILED"), ("fail_task", "TASK_SPAWNED"),
    ]  # fmt: skip


@on_a_loop
async def test_the_lifecycle_follows_registered_and_told_tasks() -> None:
    """What is registered and what only events tell of are counted together, once each; a late beat revives nobody."""
    lifecycle = wire_task_events()
    assert wire_task_events() is lifecycle is get_task_lifecycle_coordinator()
    register("a", "sync")
    told = {"task_id": "far", "task_type": "training", "node_id": "node-9"}
    await get_router().publish("TASK_SPAWNED", told)
    await wait_until(lambda: get_task_stats()["active_tasks"] == 2)
    await get_router().publish("TASK_FAILED", {"task_id": "far", "error": "it broke"})
    await wait_until(lambda: get_task_stats()["failed_tasks"] == 1)
    await get_router().publish("TASK_HEARTBEAT", told)
    await get_router().publish("TASK_SPAWNED", {"task_id": "further"})
    await wait_until(lambda: get_task_stats()["total_tasks"] == 3)

    stats = get_task_stats()
    assert stats["by_status"] == {"running": 2, "failed": 1}
    assert (stats["by_node"]["node-1"], stats["subscribed"]) == (1, True)
    far = lifecycle.get_task("far")
    assert far is not None
    assert (far.task_type, far.node_id, far.error) == (TaskType.TRAINING, "node-9", "it broke")
    assert [task.task_id for task in lifecycle.get_tasks("failed")] == ["far"]
    assert not lifecycle.health_check()
    get_coordinator().complete("a")
    assert lifecycle.health_check()
    assert len(lifecycle.get_active_tasks()) == 1


def test_the_documented_paths_are_served() -> None:
    """The package and its modules give the same objects."""
    package = importlib.import_module("app.coordination")
    module = importlib.import_module("app.coordination.task_coordinator")

    assert package.TaskCoordinator is module.TaskCoordinator is TaskCoordinator
    assert (package.can_spawn, package.TaskType) == (can_spawn, TaskType)
    assert module.LimitReached is LimitReached
