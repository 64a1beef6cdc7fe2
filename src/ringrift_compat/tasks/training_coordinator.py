"""Training slots: tasks of type training, one for each variant, under the limits of all tasks."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ringrift.kernel import variant as variants
from ringrift.kernel.errors import LimitReached
from ringrift.work.tasks import Task
from ringrift_compat.embedded_node import embedded
from ringrift_compat.tasks.admission import ProgramTasks, admit, program_tasks
from ringrift_compat.tasks.task_decorators import outcome
from ringrift_compat.types import BoardType, TaskType

_WAIT_SECONDS = 60.0


def _slot(tasks: ProgramTasks, board: str, players: int, node_id: str | None, metadata: Mapping[str, Any]) -> Task:
    """The task of a training of this variant."""
    name = BoardType(board).value
    variant = str(variants.parse(f"{name}_{players}p"))
    fields = {"board_type": name, "num_players": players, "config_key": variant, **metadata}
    id = f"train-{variant}-{tasks.node.ids.next()}"
    return tasks.task(id, TaskType.TRAINING, node_id, os.getpid(), fields, variant=variant)


async def async_request_training(
    board_type: str,
    num_players: int,
    model_version: str = "",
    metadata: Mapping[str, Any] | None = None,
    *,
    node_id: str | None = None,
    timeout: float = 0.0,
) -> str | None:
    """Take the training slot of a variant; its id, or None if there is none within *timeout* seconds.

    There is one for each variant, and as many at once on a node and in the cluster as the limits of tasks allow.
    """
    tasks = program_tasks()
    task = _slot(tasks, board_type, num_players, node_id, {"model_version": model_version, **(metadata or {})})
    try:
        return (await admit(tasks, task, timeout)).id
    except LimitReached:
        return None


async def async_can_train(board_type: str, num_players: int, *, node_id: str | None = None) -> bool:
    """Whether a training of this variant could begin now.  It takes nothing."""
    tasks = program_tasks()
    return (await embedded.post(tasks.tasks.check(_slot(tasks, board_type, num_players, node_id, {})))).allowed


async def async_release_training(job_id: str, status: str = "completed", **results: Any) -> bool:
    """Release a slot, with the *results* of the training; whether it was taken."""
    return await embedded.post(program_tasks().finish(job_id, status, metadata=results))


def request_training_slot(
    board_type: str,
    num_players: int,
    model_version: str = "",
    metadata: Mapping[str, Any] | None = None,
    **options: Any,
) -> str | None:
    """As :func:`async_request_training`, and waits for it."""
    return embedded.call(async_request_training(board_type, num_players, model_version, metadata, **options))


def release_training_slot(job_id: str, status: str = "completed", **results: Any) -> bool:
    """As :func:`async_release_training`, and waits for it."""
    return embedded.call(async_release_training(job_id, status, **results))


@contextmanager
def training_slot(
    board_type: str, num_players: int, model_version: str = "", timeout: float = _WAIT_SECONDS
) -> Iterator[str | None]:
    """The training slot of a variant while the body runs: its id, or None if there was none within *timeout* seconds.

    The training ends with what the body raises.
    """
    job = request_training_slot(board_type, num_players, model_version, timeout=timeout)
    status = "cancelled"
    try:
        yield job
        status = "completed"
    except BaseException as error:
        status = outcome(error)[0]
        raise
    finally:
        if job is not None:
            release_training_slot(job, status)
