"""The documented decorators: a function that has a place among the tasks while it runs, and tells what became of it."""

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar

from ringrift.work.tasks import Task
from ringrift_compat.admitting import Admitting, admitting, placed
from ringrift_compat.ambient import ambient
from ringrift_compat.levels import TaskType

F = TypeVar("F", bound=Callable[..., Any])
_CANCELLED = (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit)


def outcome(wrong: BaseException | None) -> tuple[str, str]:
    """How a task ended that raised *wrong*, or nothing, and why."""
    if wrong is None:
        return "completed", ""
    if isinstance(wrong, _CANCELLED):
        return "cancelled", type(wrong).__name__
    if isinstance(wrong, TimeoutError):
        return "timed_out", str(wrong) or type(wrong).__name__
    return "failed", f"{type(wrong).__name__}: {wrong}"


class task_context:
    """A place among the tasks while the body runs, as ``with``, ``async with`` or a decorator of either kind.

    Raises LimitReached where there is none; then the body does not run.  The process is its sign of life, and what it
    raises is what the task ended with.
    """

    def __init__(
        self, task_type: str = TaskType.UNKNOWN, node_id: str | None = None, task_id: str | None = None,
        metadata: Mapping[str, Any] | None = None, *, name: str = "", wait_seconds: float = 0.0,
    ) -> None:  # fmt: skip
        self.task_type, self.node_id, self.metadata = TaskType(task_type), node_id, dict(metadata or {})
        self.name, self._asked_id, self._wait_seconds = name, task_id, wait_seconds
        self.task_id = ""
        """Of the task that runs."""

    def __call__(self, func: F) -> F:
        """*func*, each call of which is a task of its own."""
        made: F = coordinate_task(
            self.task_type, node_id=self.node_id, task_id=self._asked_id, metadata=self.metadata,
            name=self.name, wait_seconds=self._wait_seconds,
        )(func)  # fmt: skip
        return made

    def _task(self, tasks: Admitting) -> Task:
        node = tasks.node
        id = self._asked_id or f"{self.name or self.task_type.value}-{node.ids.next()}"
        return tasks.task(id, self.task_type, self.node_id or node.settings.node.id, os.getpid(), self.metadata)

    def __enter__(self) -> str:
        tasks = admitting()
        self.task_id = ambient.call(tasks.admit(self._task(tasks), self._wait_seconds)).id
        return self.task_id

    def __exit__(
        self, kind: type[BaseException] | None, wrong: BaseException | None, trace: TracebackType | None
    ) -> None:
        ambient.call(admitting().finish(self.task_id, *outcome(wrong)))

    async def __aenter__(self) -> str:
        tasks = admitting()
        self.task_id = (await placed(tasks, self._task(tasks), self._wait_seconds)).id
        return self.task_id

    async def __aexit__(
        self, kind: type[BaseException] | None, wrong: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Who is cancelled while it says so has said it all the same: what was accepted is not taken back.
        await ambient.post(admitting().finish(self.task_id, *outcome(wrong)))

    def heartbeat(self, metadata: Mapping[str, Any] | None = None) -> bool:
        """Say how far the task is; whether it still has its place."""
        return bool(ambient.call(admitting().beat([self.task_id], metadata)))


def coordinate_task(
    task_type: Any = TaskType.UNKNOWN, node_id: str | None = None, task_id: str | None = None,
    metadata: Mapping[str, Any] | None = None, *, name: str = "", wait_seconds: float = 0.0,
) -> Any:  # fmt: skip
    """A function, plain or async, that is a task while it runs: registered, completed, or failed with what it raised.

    Also without brackets.  A parameter of the function called ``node_id`` or ``task_id`` speaks for the task too.
    Raises LimitReached where there is no place; then the function is not called.
    """
    if callable(task_type) and not isinstance(task_type, str):
        return coordinate_task()(task_type)

    def decorate(call: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(call)

        def context(args: tuple[Any, ...], given: dict[str, Any]) -> task_context:
            told = signature.bind_partial(*args, **given).arguments
            return task_context(
                task_type, _word(told, "node_id") or node_id, _word(told, "task_id") or task_id, metadata,
                name=name or call.__name__, wait_seconds=wait_seconds,
            )  # fmt: skip

        @wraps(call)
        def plain(*args: Any, **given: Any) -> Any:
            with context(args, given):
                return call(*args, **given)

        @wraps(call)
        async def awaited(*args: Any, **given: Any) -> Any:
            async with context(args, given):
                found: Awaitable[Any] = call(*args, **given)
                return await found

        return awaited if inspect.iscoroutinefunction(call) else plain

    return decorate


def _word(told: Mapping[str, Any], name: str) -> str | None:
    found = told.get(name)
    return found if isinstance(found, str) and found else None
