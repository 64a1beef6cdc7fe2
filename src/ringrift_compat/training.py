"""The documented training slots: tasks of type training, one for each variant, under the limits of all tasks."""

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from typing import Any

from ringrift.kernel import variant as variants
from ringrift.kernel.errors import LimitReached
from ringrift.work import admission
from ringrift.work.tasks import Task
from ringrift_compat.admitting import Admitting, admitting, placed
from ringrift_compat.ambient import ambient
from ringrift_compat.levels import BoardType, TaskType
from ringrift_compat.task_decorators import outcome
from ringrift_compat.tasks import TaskInfo, advice, shown

WAIT_SECONDS = 60.0


def _slot(tasks: Admitting, board: str, players: int, told: Mapping[str, Any], node_id: str | None) -> Task:
    """The task that a training of this variant is."""
    short = BoardType(board).value
    variant = f"{short}_{players}p"
    variants.parse(variant)
    id = f"train-{variant}-{tasks.node.ids.next()}"
    notes = {"board_type": short, "num_players": players, "config_key": variant, **told}
    node = node_id or tasks.node.settings.node.id
    return tasks.task(id, TaskType.TRAINING, node, os.getpid(), notes, key=f"training {variant}", variant=variant)


async def async_request_training(
    board_type: str, num_players: int, model_version: str = "", metadata: Mapping[str, Any] | None = None, *,
    node_id: str | None = None, timeout: float = 0.0,
) -> str | None:  # fmt: skip
    """Take the training slot of a variant; its id, or None if there is none within *timeout* seconds.

    There is one for each variant, and as many at once on a node and in the cluster as the limits of tasks say.
    """
    tasks = admitting()
    task = _slot(tasks, board_type, num_players, {"model_version": model_version, **(metadata or {})}, node_id)
    try:
        return (await placed(tasks, task, timeout)).id
    except LimitReached:
        return None


async def async_can_train(board_type: str, num_players: int, *, node_id: str | None = None) -> bool:
    """Whether a training of this variant could begin now.  It takes nothing."""
    tasks = admitting()
    return (await ambient.post(tasks.tasks.check(_slot(tasks, board_type, num_players, {}, node_id)))).allowed


async def async_release_training(
    job_id: str, status: str = "completed", final_val_loss: float | None = None, final_elo: float | None = None
) -> bool:
    """Give a slot back, with what came of the training; whether it was held."""
    told = {"final_val_loss": final_val_loss, "final_elo": final_elo}
    return await ambient.post(admitting().finish(job_id, status, metadata=told)) is not None


async def async_update_progress(job_id: str, **progress: Any) -> bool:
    """Say how far a training is, by whatever names; whether it still has its slot."""
    return bool(await ambient.post(admitting().beat([job_id], progress)))


@asynccontextmanager
async def async_training_slot(
    board_type: str, num_players: int, model_version: str = "", timeout: float = WAIT_SECONDS
) -> AsyncIterator[str | None]:
    """As :func:`training_slot`, without keeping the loop."""
    job = await async_request_training(board_type, num_players, model_version, timeout=timeout)
    status = "cancelled"
    try:
        yield job
        status = "completed"
    except BaseException as wrong:
        status = outcome(wrong)[0]
        raise
    finally:
        if job is not None:
            await async_release_training(job, status)


def request_training_slot(
    board_type: str, num_players: int, model_version: str = "", metadata: Mapping[str, Any] | None = None, *,
    node_id: str | None = None, timeout: float = 0.0,
) -> str | None:  # fmt: skip
    """As :func:`async_request_training`, and waits for it."""
    asked = async_request_training(board_type, num_players, model_version, metadata, node_id=node_id, timeout=timeout)
    return ambient.call(asked)


def can_train(board_type: str, num_players: int, *, node_id: str | None = None) -> bool:
    """Whether a training of this variant could begin now.  It takes nothing."""
    return ambient.call(async_can_train(board_type, num_players, node_id=node_id))


def release_training_slot(
    job_id: str, status: str = "completed", final_val_loss: float | None = None, final_elo: float | None = None
) -> bool:
    """Give a slot back, with what came of the training; whether it was held."""
    return ambient.call(async_release_training(job_id, status, final_val_loss, final_elo))


def update_training_progress(job_id: str, **progress: Any) -> bool:
    """Say how far a training is, by whatever names; whether it still has its slot."""
    return ambient.call(async_update_progress(job_id, **progress))


@contextmanager
def training_slot(
    board_type: str, num_players: int, model_version: str = "", timeout: float = WAIT_SECONDS
) -> Iterator[str | None]:
    """The training slot of a variant while the body runs: its id, or None if there was none within *timeout* seconds.

    What the body raises is what the training ended with.
    """
    job = request_training_slot(board_type, num_players, model_version, timeout=timeout)
    status = "cancelled"
    try:
        yield job
        status = "completed"
    except BaseException as wrong:
        status = outcome(wrong)[0]
        raise
    finally:
        if job is not None:
            release_training_slot(job, status)


class TrainingCoordinator:
    """The training slots of this home, as one thing to call."""

    @classmethod
    def get_instance(cls) -> "TrainingCoordinator":
        """The coordinator."""
        return get_training_coordinator()

    request_training_slot = start_training = staticmethod(request_training_slot)
    release_training_slot = complete_training = staticmethod(release_training_slot)
    update_training_progress = update_progress = staticmethod(update_training_progress)
    can_train = can_start_training = staticmethod(can_train)
    training_slot = staticmethod(training_slot)

    def why_not(self, board_type: str, num_players: int) -> str:
        """What keeps a training of this variant from beginning; OK if nothing does."""
        tasks = admitting()
        return advice(ambient.call(tasks.tasks.check(_slot(tasks, board_type, num_players, {}, None))))[1]

    def get_active_jobs(self) -> list[TaskInfo]:
        """Every training that runs, in whatever program."""
        return [shown(task) for task in ambient.call(admitting().running()) if task.type == TaskType.TRAINING.value]

    def get_job(self, job_id: str) -> TaskInfo | None:
        """The training of this id, running or ended."""
        found = ambient.call(admitting().tasks.find(job_id))
        return None if found is None else shown(found)

    @property
    def max_concurrent(self) -> int:
        """Trainings at once in the cluster: the number of the limits of all tasks."""
        return ambient.call(_limit(admitting()))

    def get_status(self) -> dict[str, Any]:
        """How many trainings run, of which variants, and how many may."""
        active = self.get_active_jobs()
        return {
            "active_jobs": len(active), "max_concurrent": self.max_concurrent,
            "jobs": {task.task_id: task.metadata for task in active},
            "configs": sorted(str(task.metadata.get("config_key", "")) for task in active),
        }  # fmt: skip


async def _limit(tasks: Admitting) -> int:
    async with tasks.node.store.read() as view:
        return (await admission.limits_of(view)).of(TaskType.TRAINING.value).cluster_max


@cache
def get_training_coordinator() -> TrainingCoordinator:
    """The training slots of this program's home."""
    return TrainingCoordinator()


class AsyncTrainingBridge:
    """The training slots as awaitables."""

    request_training = request_training_slot = staticmethod(async_request_training)
    can_train = staticmethod(async_can_train)
    release_training = release_training_slot = staticmethod(async_release_training)
    update_progress = staticmethod(async_update_progress)
    training_slot = staticmethod(async_training_slot)


@cache
def get_training_bridge() -> AsyncTrainingBridge:
    """The bridge of this program."""
    return AsyncTrainingBridge()
