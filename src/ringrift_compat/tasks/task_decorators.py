"""Task decorators: a function that has a place among the tasks while it runs, and ends its task as it ends."""

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from ringrift.work.tasks import Task
from ringrift_compat.embedded_node import embedded
from ringrift_compat.tasks.admission import ProgramTasks, admit, program_tasks
from ringrift_compat.types import TaskType

_F = TypeVar("_F", bound=Callable[..., Any])
_CANCELLED = (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit)


def outcome(error: BaseException | None) -> tuple[str, str]:
    """The state of a task that ended with *error*, or without, and the reason."""
    if error is None:
        return "completed", ""
    if isinstance(error, _CANCELLED):
        return "cancelled", type(error).__name__
    if isinstance(error, TimeoutError):
        return "timed_out", str(error) or type(error).__name__
    return "failed", f"{type(error).__name__}: {error}"


class task_context:
    """A place among the tasks while the body runs, as ``with``, ``async with`` or a decorator of either kind.

    Raises LimitReached where there is none; then the body does not run.  The task lives as long as this process, and
    ends with what the body raises.
    """

    def __init__(
        self,
        task_type: str = TaskType.UNKNOWN,
        node_id: str | None = None,
        task_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        name: str = "",
        wait_seconds: float = 0.0,
    ) -> None:
        self._type, self._node_id, self._metadata = TaskType(task_type), node_id, metadata
        self._name, self._id, self._wait_seconds = name, task_id, wait_seconds
        self.task_id = ""
        """The id of the task that runs."""

    def __call__(self, func: _F) -> _F:
        """*func*, each call of which is a task of its own."""
        options = {"node_id": self._node_id, "task_id": self._id, "metadata": self._metadata}
        wait = {"wait_seconds": self._wait_seconds} | ({"name": self._name} if self._name else {})
        decorated: _F = coordinate_task(self._type, **options, **wait)(func)
        return decorated

    def _task(self, tasks: ProgramTasks) -> Task:
        id = self._id or f"{self._name or self._type.value}-{tasks.node.ids.next()}"
        return tasks.task(id, self._type, self._node_id, os.getpid(), self._metadata)

    def __enter__(self) -> str:
        tasks = program_tasks()
        self.task_id = embedded.call(tasks.admit(self._task(tasks), self._wait_seconds)).id
        return self.task_id

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        embedded.call(program_tasks().finish(self.task_id, *outcome(error)))

    async def __aenter__(self) -> str:
        tasks = program_tasks()
        self.task_id = (await admit(tasks, self._task(tasks), self._wait_seconds)).id
        return self.task_id

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # A cancellation of this wait does not take the end of the task back.
        await embedded.post(program_tasks().finish(self.task_id, *outcome(error)))


def coordinate_task(task_type: Any = TaskType.UNKNOWN, **options: Any) -> Any:
    """A function, plain or async, that is a task while it runs: registered, then completed or failed.

    Also without brackets.  The *options* are those of :class:`task_context`; a parameter of the function called
    ``node_id`` or ``task_id`` is that of the task too.  Raises LimitReached where there is no place; then the function
    is not called.
    """
    if callable(task_type) and not isinstance(task_type, str):
        return coordinate_task()(task_type)

    def decorate(call: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(call)

        def context(args: tuple[Any, ...], arguments: dict[str, Any]) -> task_context:
            values = signature.bind_partial(*args, **arguments).arguments
            names = {key: values[key] for key in ("node_id", "task_id") if isinstance(values.get(key), str)}
            return task_context(task_type, **{"name": call.__name__, **options, **names})

        @wraps(call)
        def run(*args: Any, **arguments: Any) -> Any:
            with context(args, arguments):
                return call(*args, **arguments)

        @wraps(call)
        async def run_async(*args: Any, **arguments: Any) -> Any:
            async with context(args, arguments):
                result: Awaitable[Any] = call(*args, **arguments)
                return await result

        return run_async if inspect.iscoroutinefunction(call) else run

    return decorate
