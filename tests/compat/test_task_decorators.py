"""The documented decorators: a function holds a task slot while it runs, and the task ends as the function does."""

import asyncio
import threading

import pytest

from compat.subscribers import async_test, home
from ringrift.kernel.errors import LimitReached
from ringrift.work.tasks import Task
from ringrift_compat.tasks.task_coordinator import TaskCoordinator
from ringrift_compat.tasks.task_decorators import coordinate_task, task_context
from ringrift_compat.types import TaskType
from wait import wait_until

__all__ = ["home"]


def ended() -> list[tuple[str, str, str]]:
    """Type, status and error of every task so far, in order."""
    return [(task.type, task.state, task.reason) for task in TaskCoordinator().get_tasks(status=None)]


def running_tasks() -> list[Task]:
    """The running tasks."""
    return TaskCoordinator().get_tasks()


def test_a_plain_function_is_a_task_while_it_runs() -> None:
    """It is registered when it is called, with its name and node, and completed when it returns."""

    @coordinate_task(task_type=TaskType.EXPORT, node_id="node-1", metadata={"why": "test"})
    def export(number: int) -> int:
        [task] = running_tasks()
        assert task.id.startswith("export-")
        assert (task.node, task.type, task.metadata) == ("node-1", "export", {"why": "test"})
        return number + 1

    assert export(1) == 2
    assert export.__name__ == "export"
    assert ended() == [("export", "completed", "")]


@async_test
async def test_an_async_function_is_a_task_while_it_runs() -> None:
    """The task begins with the await, and two calls are two tasks."""

    @coordinate_task("sync")
    async def copy(number: int) -> int:
        await asyncio.sleep(0)
        assert len(await asyncio.to_thread(running_tasks)) >= 1
        return number

    assert await asyncio.gather(copy(1), copy(2)) == [1, 2]
    assert ended() == [("sync", "completed", "")] * 2


@async_test
async def test_the_error_of_a_function_is_the_end_of_its_task() -> None:
    """Failed, timed out or cancelled, with the reason, and the error reaches the caller."""
    inside = asyncio.Event()

    @coordinate_task("sync")
    def broken() -> None:
        raise ValueError("it broke")

    @coordinate_task("export")
    async def slow() -> None:
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()

    @coordinate_task("evaluation")
    async def endless() -> None:
        inside.set()
        await asyncio.Event().wait()

    with pytest.raises(ValueError, match="it broke"):
        broken()
    with pytest.raises(TimeoutError):
        await slow()
    running = asyncio.ensure_future(endless())
    await inside.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert ended() == [
        ("sync", "failed", "ValueError: it broke"),
        ("export", "timed_out", "TimeoutError"),
        ("evaluation", "cancelled", "CancelledError"),
    ]


def test_without_a_slot_the_function_is_not_called() -> None:
    """LimitReached is raised before the function is called; a freed slot lets it run."""
    called = []

    @coordinate_task(TaskType.TRAINING, node_id="node-1")
    def train() -> None:
        called.append(1)

    with task_context(TaskType.TRAINING, "node-1"), pytest.raises(LimitReached):
        train()
    assert called == []
    train()
    assert called == [1]


def test_a_parameter_may_name_the_node_and_the_task() -> None:
    """A function called with node_id or task_id is registered under them; without brackets the type is unknown."""

    @coordinate_task
    def work(node_id: str, task_id: str = "") -> None:
        [task] = running_tasks()
        assert (task.node, task.id, task.type) == (node_id, "mine", "unknown")

    work("node-7", task_id="mine")


def test_a_body_holds_a_slot_while_it_runs() -> None:
    """The context yields the id, and ends with the error of the body."""
    context = task_context("sync", task_id="mine")
    with context as task_id:
        assert task_id == context.task_id == running_tasks()[0].id == "mine"
    with pytest.raises(KeyError), task_context("sync"):
        raise KeyError("gone")

    assert ended() == [("sync", "completed", ""), ("sync", "failed", "KeyError: 'gone'")]


@async_test
async def test_a_context_is_async_and_a_decorator_too() -> None:
    """One name serves a body of either kind and a function of either kind."""

    @task_context("export")
    def plain() -> int:
        return len(running_tasks())

    @task_context("export")
    async def awaited() -> int:
        return len(running_tasks())

    async with task_context("sync") as task_id:
        assert task_id == running_tasks()[0].id
    assert (plain(), await awaited(), await awaited()) == (1, 1, 1)
    assert len(ended()) == 4


@async_test
async def test_a_cancelled_wait_takes_no_slot() -> None:
    """A call that is cancelled while it waits does not take the slot later."""

    @coordinate_task("training", node_id="node-1", wait_seconds=30.0)
    async def train() -> None:
        raise AssertionError("its caller has stopped waiting")

    async with task_context("training", "node-1"):
        waiting = asyncio.ensure_future(train())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    await wait_until(lambda: [end[1] for end in ended()] == ["completed", "cancelled"])


def test_a_waiting_call_gets_the_freed_slot() -> None:
    """With seconds to wait a call begins as soon as another one ends."""
    inside, go = threading.Event(), threading.Event()

    def first() -> None:
        with task_context("training", "node-1"):
            inside.set()
            go.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait(10)
    threading.Timer(0.05, go.set).start()
    with task_context("training", "node-1", wait_seconds=10.0):
        assert len(running_tasks()) == 1
    thread.join()
