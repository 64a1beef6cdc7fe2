"""Admitting: the tasks and roles of the ambient node's program, and what keeps them alive while the program lives."""

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ringrift.events import old_names
from ringrift.events.base import Envelope
from ringrift.kernel.errors import RingriftError
from ringrift.work import processes
from ringrift.work.admission import Admission, running
from ringrift.work.exclusive import Exclusive
from ringrift.work.processes import Process
from ringrift.work.tasks import Moment, Task
from ringrift_compat.ambient import Embedded, Pending, ambient

KEPT = "admitting"
KEEP_SECONDS = 20.0
"""Between two looks after what this program holds: often enough for roles, seldom enough to cost nothing."""
SERIALS_MAX = 10_000
SAID = {
    "running": "TASK_SPAWNED", "completed": "TASK_COMPLETED", "failed": "TASK_FAILED", "timed_out": "TASK_FAILED",
    "cancelled": "TASK_CANCELLED", "orphaned": "TASK_ORPHANED",
}  # fmt: skip
log = logging.getLogger(__name__)


class Admitting:
    """The verbs of one program, for as long as its node is open."""

    def __init__(self, node: Embedded) -> None:
        self.node = node
        me = processes.find(os.getpid())
        assert me is not None, "this process is alive"
        self.me: Process = me
        self.tasks = Admission(node.store, node.clock, me.host, says=self._says)
        self.roles = Exclusive(node.store, node.clock, me, node.settings.node.id)
        self.serials: dict[str, int] = {}
        """Which admission each of our tasks was."""
        self._keeper: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, node: Embedded) -> "Admitting":
        """That of *node*."""
        found: Admitting = node.kept.get(KEPT) or node.kept.setdefault(KEPT, cls(node))
        return found

    def task(
        self, id: str, type: str, node: str, pid: int, metadata: Mapping[str, Any] | None = None, *,
        key: str = "", variant: str = "",
    ) -> Task:  # fmt: skip
        """A task that is to be admitted.  A *pid* that no process here has is known by its beats alone."""
        return Task(
            id=id, type=str(type), node=node, pid=pid, process=processes.find(pid), key=key, variant=variant,
            beaten=Moment(host=self.me.host, tick=0.0), metadata=dict(metadata or {}),
        )  # fmt: skip

    async def admit(self, task: Task, seconds: float = 0.0) -> Task:
        """*task* in its place, waiting up to *seconds* for one.  Raises LimitReached, IdConflict."""
        self.keep()
        placed = await self.tasks.wait_admit(task, seconds) if seconds > 0 else await self.tasks.admit(task)
        self.serials[placed.id] = placed.serial
        while len(self.serials) > SERIALS_MAX:
            self.serials.pop(next(iter(self.serials)))
        return placed

    async def beat(self, ids: Sequence[str], metadata: Mapping[str, Any] | None = None) -> list[str]:
        """Say that these live; the ids of those that have a place."""
        return await self.tasks.beat(ids, metadata, serials=self.serials)

    async def finish(
        self, id: str, state: str, reason: str = "", metadata: Mapping[str, Any] | None = None
    ) -> Task | None:
        """End the task *id*; None if it has no place."""
        over = await self.tasks.finish(id, state, reason, metadata=metadata, serials=self.serials)
        self.serials.pop(id, None)
        return over

    async def running(self) -> list[Task]:
        """Every task of every program that has a place."""
        async with self.node.store.read() as view:
            return await running(view)

    def keep(self) -> None:
        """From now on, renew our roles and look after tasks.  To be called on the ambient loop."""
        if self._keeper is None:
            self._keeper = self.node.loop.create_task(self._keep(), name="admitting")
            self.node.stack.push_async_callback(self._close)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(KEEP_SECONDS)
            try:
                await self.look_after()
            except RingriftError as wrong:  # the store is away: what we hold ends by itself if that lasts
                log.warning("tasks and roles could not be renewed: %s", wrong)

    async def look_after(self) -> None:
        """Renew our roles, beat for the tasks of this process, and end those of any program that nobody does."""
        for role in await self.roles.renew() if self.roles.held() else ():
            log.warning("role %s belongs to another process now", role)
        mine = [task.id for task in await self.running() if task.process == self.me]
        if mine:
            await self.beat(mine)
        await self.tasks.sweep()

    async def _close(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait((self._keeper,))
        await self.roles.close()

    def _says(self, task: Task) -> list[Envelope]:
        """What is said of *task* under the names of the documents, in the transaction that it changed in."""
        payload = {
            "task_id": task.id, "task_type": task.type, "node_id": task.node, "status": task.state,
            "timestamp": task.ended or task.since, "duration": (task.ended or task.since) - task.since,
            "error": task.reason, "config_key": task.variant, "metadata": msgspec.to_builtins(task.metadata),
        }  # fmt: skip
        event = old_names.convert(SAID[task.state], payload, evidence=False)
        return [self.node.scribe.wrap(event, source="task_coordinator")] if event.SCOPE == "log" else []


def admitting() -> Admitting:
    """The tasks and roles of this program."""
    return Admitting.of(ambient.node())


async def placed(tasks: Admitting, task: Task, seconds: float = 0.0) -> Task:
    """*task* in its place, from any loop; who is cancelled while it waits leaves none behind."""
    pending = ambient.post(tasks.admit(task, seconds))
    try:
        return await pending
    except asyncio.CancelledError:
        ambient.post(_give_back(tasks, pending))
        raise


async def _give_back(tasks: Admitting, pending: Pending[Task]) -> None:
    """Nobody waits for the place any more: it is free again as soon as it is taken."""
    try:
        found = await pending
    except RingriftError:
        return
    await tasks.finish(found.id, "cancelled", "nobody waited for its place")
