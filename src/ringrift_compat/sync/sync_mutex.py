"""Sync locks: one program at a time moves the files of a host, across processes and machines."""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager

from ringrift_compat.cluster.distributed_lock import Locks, ProgramLock
from ringrift_compat.embedded_node import EmbeddedNode, embedded

_WAIT_SECONDS = 60.0


def _name(host: str, operation: str) -> str:
    """A name for people, and a digest because hosts that are spelled alike must not share it."""
    text = f"{host}/{operation}" if operation else host
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"sync.{re.sub('[^A-Za-z0-9_]', '_', text):.60}_{digest:.16}"


async def acquire(node: EmbeddedNode, host: str, operation: str, seconds: float) -> ProgramLock | None:
    """As :func:`acquire_sync_lock`, on the loop of the embedded node."""
    locks = node.extension(Locks)
    lock = locks.make(node, _name(host, operation))
    return ProgramLock(locks, lock) if await lock.take_within(seconds) else None


def acquire_sync_lock(host: str, operation: str = "", timeout: float = _WAIT_SECONDS) -> ProgramLock | None:
    """Take the lock of *host*, or of one *operation* with it; None if it is not free within *timeout* seconds.

    Raises Busy if the locks cannot be reached.
    """
    return embedded.call(acquire(embedded.node(), host, operation, timeout))


def release_sync_lock(lock: ProgramLock) -> bool:
    """Release *lock*; whether it was still ours."""
    return lock.release()


@contextmanager
def sync_lock(host: str, operation: str = "", timeout: float = _WAIT_SECONDS) -> Iterator[ProgramLock | None]:
    """The lock of *host* while the body runs, or None if it was not free within *timeout* seconds."""
    lock = acquire_sync_lock(host, operation, timeout)
    try:
        yield lock
    finally:
        if lock is not None:
            lock.release()
