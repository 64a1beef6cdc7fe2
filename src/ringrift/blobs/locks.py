"""Locks on files: whoever writes holds one, and what nobody has locked is left over from a process that ended.

The kernel frees a lock when its process dies, so no number of a process is asked for, which another may have by now.
"""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SHARED, ALONE, ALONE_OR_FAIL = fcntl.LOCK_SH, fcntl.LOCK_EX, fcntl.LOCK_EX | fcntl.LOCK_NB
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


def lock(descriptor: int, kind: int) -> None:
    """Lock an open file until it is closed.  Raises BlockingIOError for ALONE_OR_FAIL.

    On a network file system without locks files are written without one; and nothing is ever had alone there.
    """
    try:
        fcntl.flock(descriptor, kind)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        if kind == ALONE_OR_FAIL:
            raise BlockingIOError(error.errno, "this file system has no locks") from error


@contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """A descriptor of *path*, open while the body runs.  Raises FileNotFoundError, unless *flags* create it."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path, kind: int, flags: int = 0) -> Iterator[None]:
    """Lock the file *path* while the body runs.  Raises FileNotFoundError, unless *flags* create it."""
    with opened(path, os.O_RDWR | flags) as descriptor:
        lock(descriptor, kind)
        yield
