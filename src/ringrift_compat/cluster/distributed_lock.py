"""The training lock of a variant: one program trains it at a time, and the loop does not train it meanwhile.

The lock is in the store, in files or in a Redis, as the setting ``cluster.locks`` says.  Besides it the holder has the
training slot of the variant, which every claim of a training job respects, so that the lock is no opinion of programs
alone.
"""

import asyncio
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ringrift.events.training import Locked, LockTimedOut
from ringrift.kernel import variant as variants
from ringrift.kernel.errors import LimitReached, RingriftError
from ringrift.work import processes
from ringrift.work.processes import Process, is_gone
from ringrift_compat.cluster.locks import Lock, LockEngine, open_locks
from ringrift_compat.embedded_node import EmbeddedNode, embedded
from ringrift_compat.tasks.admission import ProgramTasks
from ringrift_compat.types import TaskType

_WAIT_SECONDS = 60.0
_LOCK_SECONDS, _RENEW_SECONDS = 45.0, 15.0
_SEPARATOR = "/"
log = logging.getLogger(__name__)


class ProgramLock:
    """A lock that this program has acquired; it is renewed until it is released or this process ends."""

    def __init__(self, locks: "Locks", lock: Lock) -> None:
        self.fence = lock.fence
        """Higher than that of every earlier holder."""
        self._locks, self._lock = locks, lock
        locks.acquired.add(self)
        self._renewing = locks.loop.create_task(self._renew(), name=f"lock {lock.name}")

    @property
    def is_held(self) -> bool:
        """Whether this process may rely on it now."""
        return self._lock.is_held

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            try:
                if not await self._lock.renew():
                    log.warning("another process holds the lock %s now", self._lock.name)
                    return
            except RingriftError as error:  # it ends by itself if this lasts
                log.warning("the lock %s could not be renewed: %s", self._lock.name, error)

    def release(self) -> bool:
        """Release it; whether it was still ours."""
        return embedded.call(self.end())

    async def end(self) -> bool:
        """As :meth:`release`, on the loop of the embedded node."""
        if self not in self._locks.acquired:
            return False
        self._locks.acquired.discard(self)
        self._renewing.cancel()
        return await self._lock.release()


class TrainingLock(ProgramLock):
    """A training lock that was acquired, with the training slot of its variant."""

    def __init__(self, locks: "Locks", variant: str, lock: Lock, slot: str) -> None:
        super().__init__(locks, lock)
        self.config_key, self._slot = variant, slot

    async def end(self) -> bool:
        """Release the lock and the slot."""
        if self not in self._locks.acquired:
            return False
        await self._locks.tasks.finish(self._slot, "completed")
        return await super().end()


class Locks:
    """The locks of one program, which are released when it ends."""

    def __init__(self, node: EmbeddedNode) -> None:
        folder = Path(node.settings.store.path).parent / "locks"
        self.engine: LockEngine = open_locks(node.settings.cluster.locks, node.store, folder)
        self.tasks, self.loop = node.extension(ProgramTasks), node.loop
        self.acquired: set[ProgramLock] = set()
        node.stack.push_async_callback(self._close)

    def make(self, node: EmbeddedNode, name: str) -> Lock:
        """The lock *name*, not taken yet."""
        return Lock(self.engine, name, own_name(node), node.clock, seconds=_LOCK_SECONDS, has_died=has_died)

    async def _close(self) -> None:
        for lock in tuple(self.acquired):
            await lock.end()
        await self.engine.close()


def own_name(node: EmbeddedNode) -> str:
    """A name of this process that no other has, nor has it twice."""
    process = processes.find(os.getpid())
    assert process is not None, "this process is alive"
    return _SEPARATOR.join((process.host, str(process.pid), process.mark, node.ids.next()))


def has_died(owner: str) -> bool:
    """Whether the process of *owner* has certainly ended."""
    host, pid, mark, _ = owner.split(_SEPARATOR)
    return is_gone(Process(host=host, pid=int(pid), mark=mark), processes.this_host())


async def _acquire(node: EmbeddedNode, config_key: str, seconds: float) -> TrainingLock | None:
    variant, locks, me = str(variants.parse(config_key)), node.extension(Locks), node.settings.node.id
    deadline = node.clock.tick() + seconds
    lock = locks.make(node, f"training.{variant}")
    reason = "another process holds it"
    if await lock.take_within(seconds):
        slot = f"train-{variant}-{node.ids.next()}"
        task = locks.tasks.task(slot, TaskType.TRAINING, None, os.getpid(), {"config_key": variant}, variant=variant)
        try:
            await locks.tasks.admit(task, max(0.0, deadline - node.clock.tick()))
        except LimitReached as full:
            reason = str(full)
            await lock.release()
        else:
            acquired = TrainingLock(locks, variant, lock, slot)
            await node.router.publish(Locked(variant=variant, node=me, owner=lock.owner, fence=lock.fence))
            return acquired
    holder = "" if lock.holder == lock.owner else lock.holder
    await node.router.publish(LockTimedOut(variant=variant, node=me, seconds=seconds, owner=holder, reason=reason))
    return None


def acquire_training_lock(config_key: str, timeout: float = _WAIT_SECONDS) -> TrainingLock | None:
    """Take the training lock of a variant; None if it is not free within *timeout* seconds.

    Raises InvalidId for what is no variant, Busy if the locks cannot be reached.
    """
    return embedded.call(_acquire(embedded.node(), config_key, timeout))


@contextmanager
def training_lock(config_key: str, timeout: float = _WAIT_SECONDS) -> Iterator[TrainingLock | None]:
    """The training lock of a variant while the body runs, or None if it was not free within *timeout* seconds."""
    lock = acquire_training_lock(config_key, timeout)
    try:
        yield lock
    finally:
        if lock is not None:
            lock.release()
