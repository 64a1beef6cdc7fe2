"""The documented decorators: a function has a place while it runs, and the task ends as the function does."""

import asyncio
import threading

import pytest

from compat.ears import home, on_a_loop
from ringrift.kernel.errors import LimitReached
from ringrift_compat.levels import TaskType
from ringrift_compat.task_decorators import coordinate_task, task_context
from ringrift_compat.tasks import TaskInfo, get_coordinator
from waiting import wait_until

__all__ = ["home"]


def ended() -> list[tuple[str, str, str]]:
    """Type, status and error of every task there was, in order."""
    return [(task.task_type.value, task.status.value, task.error) for task in get_coordinator().get_tasks(status=None)]


def there() -> list[TaskInfo]:
    """What runs."""
    return get_coordinator().get_tasks()


def test_a_plain_function_is_a_task_while_it_runs() -> None:
    """It is registered when it is called, with its name and node, and completed when it returns."""

    @coordinate_task(task_type=TaskType.EXPORT, node_id="node-1", metadata={"why": "test"})
    def export(number: int) -> int:
        [task] = there()
        assert task.task_id.startswith("export-")
        assert (task.node_id, task.task_type, task.metadata) == ("node-1", TaskType.EXPORT, {"why": "test"})
        return number + 1

    assert export(1) == 2
    assert export.__name__ == "export"
    assert ended() == [("export", "completed", "")]


@on_a_loop
async def test_an_async_function_is_a_task_while_it_runs() -> None:
    """So it is when it is awaited, and two calls are two tasks."""

    @coordinate_task("sync")
    async def copy(number: int) -> int:
        await asyncio.sleep(0)
        assert len(await asyncio.to_thread(there)) >= 1
        return number

    assert await asyncio.gather(copy(1), copy(2)) == [1, 2]
    assert ended() == [("sync", "completed", "")] * 2


@on_a_loop
async def test_what_a_function_raises_is_how_its_task_ended() -> None:
    """Failed, timed out or cancelled, with the reason, and the error goes on to the caller."""

    @coordinate_task("sync")
    def broken() -> None:
        raise ValueError("it broke")

    @coordinate_task("export")
    async def slow() -> None:
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()

    @coordinate_task("evaluation")
    async def endless() -> None:
        await asyncio.Event().wait()

    with pytest.raises(ValueError, match="it broke"):
        broken()
    with pytest.raises(TimeoutError):
        await slow()
    running = asyncio.ensure_future(endless())
    await wait_until(lambda: len(there()) == 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert ended() == [
        ("sync", "failed", "ValueError: it broke"),
        ("export", "timed_out", "TimeoutError"),
        ("evaluation", "cancelled", "CancelledError"),
    ]


def test_without_a_place_the_function_is_not_called() -> None:
    """LimitReached comes before anything that the function does; a place that is free again lets it run."""
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
    """A function that is told node_id or task_id is registered so; without brackets the type is unknown."""

    @coordinate_task
    def work(node_id: str, task_id: str = "") -> None:
        [task] = there()
        assert (task.node_id, task.task_id, task.task_type) == (node_id, "mine", TaskType.UNKNOWN)

    work("node-7", task_id="mine")


def test_a_body_has_a_place_while_it_runs() -> None:
    """The context gives the id, takes heartbeats, and ends with what the body raises."""
    context = task_context("sync", task_id="mine")
    with context as task_id:
        assert task_id == context.task_id == there()[0].task_id == "mine"
        assert context.heartbeat({"done": 1})
    with pytest.raises(KeyError), task_context("sync"):
        raise KeyError("gone")

    assert ended() == [("sync", "completed", ""), ("sync", "failed", "KeyError: 'gone'")]


@on_a_loop
async def test_a_context_is_async_and_a_decorator_too() -> None:
    """One word for a body of either kind and a function of either kind."""

    @task_context("export")
    def plain() -> int:
        return len(there())

    @task_context("export")
    async def awaited() -> int:
        return len(there())

    async with task_context("sync") as task_id:
        assert task_id == there()[0].task_id
    assert (plain(), await awaited(), await awaited()) == (1, 1, 1)
    assert len(ended()) == 4


@on_a_loop
async def test_who_stops_waiting_for_a_place_leaves_none_behind() -> None:
    """A call that is cancelled while it waits does not take the place later."""

    @coordinate_task("training", node_id="node-1", wait_seconds=30.0)
    async def train() -> None:
        raise AssertionError("nobody waits for it")

    async with task_context("training", "node-1"):
        waiting = asyncio.ensure_future(train())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    await wait_until(lambda: [end[1] for end in ended()] == ["completed", "cancelled"])


def test_who_waits_gets_the_place_when_it_is_free() -> None:
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
        assert len(there()) == 1
    thread.join()
