"""Admission: the tasks and roles of this program, which are kept alive for as long as the program lives."""

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ringrift.kernel.errors import RingriftError
from ringrift.work import processes
from ringrift.work.processes import Process
from ringrift.work.tasks import HostTick, Task, running_tasks
from ringrift_compat.embedded_node import EmbeddedNode, Pending, embedded
from ringrift_compat.tasks.program_roles import ProgramRoles
from ringrift_compat.tasks.task_admission import Admission

_RENEW_SECONDS = 20.0
"""Between two renewals of what this program holds: often enough for roles, seldom enough to cost nothing."""
_FENCES_MAX = 10_000
log = logging.getLogger(__name__)


class ProgramTasks:
    """The tasks and roles of one program, for as long as its node is open."""

    def __init__(self, node: EmbeddedNode) -> None:
        self.node = node
        process = processes.find(os.getpid())
        assert process is not None, "this process is alive"
        self._process: Process = process
        self.tasks = Admission(node.store, node.clock, process.host, node.envelopes)
        self.roles = ProgramRoles(node.store, node.clock, process, node.settings.node.id)
        self._fences: dict[str, int] = {}
        """The admission of each of our tasks."""
        self._renewing: asyncio.Task[None] | None = None

    def task(
        self,
        id: str,
        type: str,
        node: str | None,
        pid: int,
        metadata: Mapping[str, Any] | None = None,
        *,
        variant: str = "",
    ) -> Task:
        """A task to be admitted.  A *pid* that no process here has lives by its heartbeats alone.

        One with a *variant* is the only one of its type and variant.
        """
        return Task(
            id=id,
            type=str(type),
            node=node or self.node.settings.node.id,
            pid=pid,
            process=processes.find(pid),
            variant=variant,
            beat_at=HostTick(host=self._process.host, tick=0.0),
            metadata=dict(metadata or {}),
        )

    async def admit(self, task: Task, seconds: float = 0.0) -> Task:
        """Admit *task*, waiting up to *seconds* for a place.  Raises LimitReached, IdConflict."""
        self.renew_regularly()
        admitted = await self.tasks.wait_admit(task, seconds) if seconds > 0 else await self.tasks.admit(task)
        self._fences[admitted.id] = admitted.fence
        while len(self._fences) > _FENCES_MAX:
            self._fences.pop(next(iter(self._fences)))
        return admitted

    async def beat(self, ids: Sequence[str], metadata: Mapping[str, Any] | None = None) -> list[str]:
        """Report that these tasks live; the ids of those that have a place."""
        return await self.tasks.beat(ids, metadata, fences=self._fences)

    async def finish(self, id: str, state: str, reason: str = "", metadata: Mapping[str, Any] | None = None) -> bool:
        """End the task *id*; whether it had a place."""
        task = await self.tasks.finish(id, state, reason, metadata=metadata, fences=self._fences)
        self._fences.pop(id, None)
        return task is not None

    def renew_regularly(self) -> None:
        """From now on, renew our roles and tasks.  Call it on the loop of the node."""
        if self._renewing is None:
            self._renewing = self.node.loop.create_task(self._renew_regularly(), name="program tasks")
            self.node.stack.push_async_callback(self._close)

    async def _renew_regularly(self) -> None:
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            try:
                await self.renew()
            except RingriftError as error:  # what we hold ends by itself if this lasts
                log.warning("tasks and roles could not be renewed: %s", error)

    async def renew(self) -> None:
        """Renew our roles, beat for the tasks of this process, and end the tasks of dead processes."""
        for role in await self.roles.renew() if self.roles.current() else ():
            log.warning("role %s belongs to another process now", role)
        async with self.node.store.read() as view:
            own = [task.id for task in await running_tasks(view) if task.process == self._process]
        if own:
            await self.beat(own)
        await self.tasks.sweep()

    async def _close(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait((self._renewing,))
        await self.roles.close()


def program_tasks() -> ProgramTasks:
    """The tasks and roles of this program."""
    return embedded.node().extension(ProgramTasks)


async def admit(tasks: ProgramTasks, task: Task, seconds: float = 0.0) -> Task:
    """Admit *task*, from any loop; a caller that is cancelled while it waits leaves no place taken."""
    pending = embedded.post(tasks.admit(task, seconds))
    try:
        return await pending
    except asyncio.CancelledError:
        embedded.post(_release(tasks, pending))
        raise


async def _release(tasks: ProgramTasks, pending: Pending[Task]) -> None:
    try:
        task = await pending
    except RingriftError:
        return
    await tasks.finish(task.id, "cancelled", "its caller stopped waiting for a place")
