"""The filesystem of a database, and locks between processes."""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ringrift.kernel.errors import NotLeader, UnsafeFilesystem

# Names as /proc/mounts has them.  SQLite's locks do not work, or not always, across these.
_NETWORK_FILESYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "9p", "ceph", "lustre", "gpfs", "glusterfs"}
_NETWORK_FILESYSTEMS |= {"fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "beegfs", "davfs"}
_HOLDER_BYTES_MAX = 200
_ESCAPED = re.compile(r"\\([0-7]{3})")


def _filesystem(path: Path, mounts: str) -> str:
    """The type of filesystem of *path*, by *mounts* in the format of /proc/mounts; "" if it is not listed."""
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), fields[1])
        inside = path == Path(point) or Path(point) in path.parents
        if inside and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def require_local(file: Path) -> None:
    """Raise UnsafeFilesystem if *file*, which need not exist yet, lies on a network filesystem."""
    path = next(parent for parent in file.absolute().parents if parent.exists())
    try:
        mounts = Path("/proc/mounts").read_text()
    except OSError:  # not Linux: it cannot be checked
        return
    kind = _filesystem(path.resolve(), mounts)
    if kind in _NETWORK_FILESYSTEMS:
        raise UnsafeFilesystem(str(path), kind)


@contextmanager
def only_one(lock: Path, holder: str) -> Iterator[None]:
    """Hold *lock* while the body runs; the kernel releases it when the process dies.  Raises NotLeader."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            name = os.pread(descriptor, _HOLDER_BYTES_MAX, 0).decode(errors="replace").strip()
            raise NotLeader("coordinator", name or "another process") from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{holder} (process {os.getpid()})\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
