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


class TrainingLock:
    """A training lock that was acquired; it is renewed until it is released or this process ends."""

    def __init__(self, locks: "_Locks", variant: str, lock: Lock, slot: str) -> None:
        self.config_key, self.fence = variant, lock.fence
        """The fence is higher than that of every earlier holder."""
        self._locks, self._lock, self._slot = locks, lock, slot
        locks.acquired.add(self)
        self._renewing = locks.loop.create_task(self._renew(), name=f"training lock of {variant}")

    @property
    def is_held(self) -> bool:
        """Whether this process may rely on it now."""
        return self._lock.is_held

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            try:
                if not await self._lock.renew():
                    log.warning("another process holds the training lock of %s now", self.config_key)
                    return
            except RingriftError as error:  # it ends by itself if this lasts
                log.warning("the training lock of %s could not be renewed: %s", self.config_key, error)

    def release(self) -> bool:
        """Release it; whether it was still ours."""
        return embedded.call(self.end())

    async def end(self) -> bool:
        """As :meth:`release`, on the loop of the embedded node."""
        if self not in self._locks.acquired:
            return False
        self._locks.acquired.discard(self)
        self._renewing.cancel()
        await self._locks.tasks.finish(self._slot, "completed")
        return await self._lock.release()


class _Locks:
    """The locks of one program, which are released when it ends."""

    def __init__(self, node: EmbeddedNode) -> None:
        folder = Path(node.settings.store.path).parent / "locks"
        self.engine: LockEngine = open_locks(node.settings.cluster.locks, node.store, folder)
        self.tasks, self.loop = node.extension(ProgramTasks), node.loop
        self.acquired: set[TrainingLock] = set()
        node.stack.push_async_callback(self._close)

    async def _close(self) -> None:
        for lock in tuple(self.acquired):
            await lock.end()
        await self.engine.close()


def _owner(node: EmbeddedNode) -> str:
    process = processes.find(os.getpid())
    assert process is not None, "this process is alive"
    return _SEPARATOR.join((process.host, str(process.pid), process.mark, node.ids.next()))


def _has_died(owner: str) -> bool:
    """Whether the process of *owner* has certainly ended."""
    host, pid, mark, _ = owner.split(_SEPARATOR)
    return is_gone(Process(host=host, pid=int(pid), mark=mark), processes.this_host())


async def _acquire(node: EmbeddedNode, config_key: str, seconds: float) -> TrainingLock | None:
    variant, locks, me = str(variants.parse(config_key)), node.extension(_Locks), node.settings.node.id
    deadline = node.clock.tick() + seconds
    owner = _owner(node)
    name = f"training.{variant}"
    lock = Lock(locks.engine, name, owner, node.clock, seconds=_LOCK_SECONDS, has_died=_has_died)
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
            await node.router.publish(Locked(variant=variant, node=me, owner=owner, fence=lock.fence))
            return acquired
    holder = "" if lock.holder == owner else lock.holder
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
