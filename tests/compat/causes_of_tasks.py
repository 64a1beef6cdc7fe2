"""What can happen to a task that a program registers."""

from compat.scene import Scene
from ringrift.kernel.value import changed
from ringrift.work import processes
from ringrift.work.tasks import HostTick, Task, end_tasks, running_tasks
from ringrift_compat.tasks.task_admission import Admission

_HOST = processes.this_host()


async def _admit(scene: Scene) -> Admission:
    world = scene.world
    admission = Admission(world.store, world.clock, _HOST, world.envelopes)
    await admission.admit(Task(id="t", type="training", node="n", beat_at=HostTick(host=_HOST, tick=0.0)))
    return admission


async def _end(scene: Scene, state: str) -> None:
    await _admit(scene)
    await scene.listen()
    async with scene.world.store.begin() as tx:
        tasks = [changed(task, state=state) for task in await running_tasks(tx)]
        await end_tasks(tx, scene.world.envelopes, tasks, scene.world.clock.now())


async def a_task_is_registered(scene: Scene) -> None:
    """A program gets a place for it."""
    await scene.listen()
    await _admit(scene)


async def a_task_is_completed(scene: Scene) -> None:
    """A program says that it is done."""
    await _end(scene, "completed")


async def a_task_fails(scene: Scene) -> None:
    """A program says that it failed."""
    await _end(scene, "failed")


async def a_task_is_cancelled(scene: Scene) -> None:
    """A program gives it up."""
    await _end(scene, "cancelled")


async def a_task_is_orphaned(scene: Scene) -> None:
    """Its process is gone, and its place is freed."""
    await _end(scene, "orphaned")
