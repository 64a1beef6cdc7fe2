"""The filesystem of a database, and locks between processes."""

import fcntl
import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ringrift.kernel.errors import NotLeader, UnsafeFilesystem
from ringrift.kernel.folders import make_folder

# Names as /proc/mounts has them.  SQLite's locks do not work, or not always, across these.
_NETWORK_FILESYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "9p", "ceph", "lustre", "gpfs", "glusterfs"}
_NETWORK_FILESYSTEMS |= {"fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "beegfs", "davfs"}
_HOLDER_BYTES_MAX = 200
_ESCAPED = re.compile(r"\\([0-7]{3})")
_WRITE_LOCK = "120"  # the byte of the -shm file that SQLite locks to write


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


def write_lock_holder(file: Path) -> int | None:
    """The process that is writing to the database *file* just now, if it is another one of this machine.

    It is read from /proc/locks: to open a file of the database and close it again would release this process's locks.
    """
    try:
        inode, locks = str(file.with_name(f"{file.name}-shm").stat().st_ino), Path("/proc/locks").read_text()
    except OSError:  # no other process has it open, or this is not Linux
        return None
    for fields in map(str.split, locks.splitlines()):
        if fields[-5:-4] == ["WRITE"] and fields[-3].endswith(f":{inode}") and fields[-2] == _WRITE_LOCK:
            return int(fields[-4]) if int(fields[-4]) not in (0, os.getpid()) else None
    return None


def lock_holder(lock: Path) -> tuple[str, int] | None:
    """Who holds *lock*: its name, and its process, which is 0 where it cannot be seen from here; None if it is free."""
    try:
        name, inode = lock.read_bytes()[:_HOLDER_BYTES_MAX].decode(errors="replace").strip(), str(lock.stat().st_ino)
        locks = Path("/proc/locks").read_text()
    except OSError:
        return None
    for fields in map(str.split, locks.splitlines()):
        if "FLOCK" in fields and fields[-5:-4] == ["WRITE"] and fields[-3].endswith(f":{inode}"):
            pid = max(int(fields[-4]), 0)
            if _has_open(pid, lock):
                return name, pid
    return None


def _has_open(pid: int, file: Path) -> bool:
    """Whether process *pid* has *file* open, or cannot be looked into: a file of another disk may have its number."""
    try:
        own = file.stat()
        links = list(Path(f"/proc/{pid}/fd").iterdir()) if pid else []
    except OSError:
        return True
    for link in links:
        with suppress(OSError):  # closed meanwhile
            if os.path.samestat(link.stat(), own):
                return True
    return not links


def file_place(file: Path) -> str:
    """Where *file* lies: its machine and its number there.  A copy of it lies elsewhere, a renamed file does not."""
    try:
        machine = Path("/etc/machine-id").read_text().strip()
    except OSError:
        machine = ""
    return f"{machine or platform.node()}:{file.stat().st_ino}"


@contextmanager
def only_one(lock: Path, holder: str) -> Iterator[None]:
    """Hold *lock* while the body runs; the kernel releases it when the process dies.  Raises NotLeader."""
    make_folder(lock.parent)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    _locks.add(descriptor)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            name = os.pread(descriptor, _HOLDER_BYTES_MAX, 0).decode(errors="replace").strip()
            raise NotLeader(lock.stem, name or "another process") from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{holder} (process {os.getpid()})\n".encode(), 0)
        yield
    finally:
        if descriptor in _locks:  # in a forked child the number may belong to another file by now
            _locks.discard(descriptor)
            os.close(descriptor)


def _close_locks() -> None:
    """In a forked child: a lock lasts until every process has closed it, and the child may outlive its holder."""
    while _locks:
        os.close(_locks.pop())


_locks: set[int] = set()
os.register_at_fork(after_in_child=_close_locks)
