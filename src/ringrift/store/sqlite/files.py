"""What must be true of the place where the database lies, and who may be its coordinator."""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ringrift.kernel.errors import NotLeader, UnsafeFilesystem

# Names as /proc/mounts has them.  SQLite's locks do not work, or not always, across these.
NETWORK_FILESYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "9p", "ceph", "lustre", "gpfs", "glusterfs", "fuse.sshfs",
     "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "beegfs", "davfs"}
)  # fmt: skip

HOLDER_BYTES_MAX = 200
_ESCAPED = re.compile(r"\\([0-7]{3})")


def filesystem(path: Path, mounts: str) -> str:
    """The kind of filesystem that *path* lies on, by *mounts* in the format of /proc/mounts; "" if it does not say."""
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), fields[1])
        inside = path == Path(point) or Path(point) in path.parents
        if inside and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def require_local(path: Path) -> None:
    """Raise UnsafeFilesystem if *path* lies on a network filesystem."""
    try:
        mounts = Path("/proc/mounts").read_text()
    except OSError:  # not Linux: nothing to ask
        return
    kind = filesystem(path.resolve(), mounts)
    if kind in NETWORK_FILESYSTEMS:
        raise UnsafeFilesystem(str(path), kind)


@contextmanager
def only_one(lock: Path, holder: str) -> Iterator[None]:
    """Be the only process with *lock* while the body runs; the kernel frees it at death.  Raises NotLeader."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as taken:
            raise NotLeader("coordinator", _holder(descriptor)) from taken
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{holder} (process {os.getpid()})\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def holder_of(lock: Path) -> str | None:
    """Who has *lock* now, as it called itself; None if nobody does.  Makes nothing."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(descriptor)
    finally:
        os.close(descriptor)
    return None


def _holder(descriptor: int) -> str:
    return os.pread(descriptor, HOLDER_BYTES_MAX, 0).decode(errors="replace").strip() or "another process"
