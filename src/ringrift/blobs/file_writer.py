"""A file on its way into a folder of blobs: written beside, flushed, read back and hashed, then renamed."""

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ringrift.blobs.locks import ALONE, SHARED, lock, opened
from ringrift.kernel.errors import Busy, Corrupt, NodeAway, NoRoom
from ringrift.kernel.failpoint import failpoint
from ringrift.kernel.folders import make_folder

if TYPE_CHECKING:
    from ringrift.blobs.folder import Folder

_AWAY = {errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ENODEV, errno.ENXIO, errno.ENOMEDIUM, errno.EREMOTEIO}
_AWAY |= {errno.ESHUTDOWN, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH}
_NO_ROOM: dict[int, tuple[str, ...]] = {errno.ENOSPC: (), errno.EDQUOT: ("the quota is used up",)}
_NO_ROOM[errno.EROFS] = ("the file system is read-only", "make it writable")


@contextmanager
def typed(folder: "Folder") -> Iterator[None]:
    """Raise NoRoom if the disk cannot be written, NodeAway if it does not answer, Busy without a descriptor."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise Busy(str(folder.root), "no file descriptor is left (`ulimit -n`)") from error
        if error.errno in _NO_ROOM:
            raise NoRoom(str(folder.root), *_NO_ROOM[error.errno]) from error
        if error.errno in _AWAY:
            raise NodeAway(folder.node, f"{folder.root}: {error.strerror}") from error
        raise


def digest(path: Path) -> str:
    """The name that the bytes of *path* have."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def flush_folder(folder: Path) -> None:
    """Make the names in *folder* durable."""
    with opened(folder, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)


class Incoming:
    """A file that is being written.  Leaving the body without ``commit()`` leaves nothing behind."""

    def __init__(self, folder: "Folder", blob: str, target: Path | None = None) -> None:
        """The file of *blob*, or with *target* another one of this folder whose content has that hash."""
        self._folder, self._blob, self._target = folder, blob, target or folder.path(blob)
        self._part = folder.root / "tmp" / f"{blob[:16]}.{os.getpid()}.{id(self):x}"
        self._descriptor = -1
        self.size = 0

    def __enter__(self) -> Self:
        failpoint("blobs.before_write")
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with self._folder.answering():
            for folder in (self._part.parent, self._target.parent):
                if not folder.is_dir():
                    if not self._folder.node:
                        make_folder(self._folder.root)
                    folder.mkdir(exist_ok=True, mode=0o700)
                    flush_folder(folder.parent)
            # A part that nobody has locked is deleted, perhaps just before we could lock ours: then it is made again.
            while self._descriptor < 0 or not os.fstat(self._descriptor).st_nlink:
                if self._descriptor >= 0:
                    os.close(self._descriptor)
                self._descriptor = os.open(self._part, flags, 0o600)
                lock(self._descriptor, ALONE)
        return self

    def write(self, data: bytes) -> None:
        """Add *data*.  Raises NoRoom."""
        view = memoryview(data)
        with typed(self._folder):
            while view:
                view = view[os.write(self._descriptor, view) :]
        self.size += len(data)

    def _is_whole(self) -> bool:
        return digest(self._part) == self._blob

    def commit(self, time: float | None = None) -> None:
        """Give the file its name, durably; it counts as stored at *time*, or now.

        Raises Corrupt if it is not what it should be.
        """
        failpoint("blobs.before_fsync")
        with self._folder.answering():
            if time is not None:
                os.utime(self._descriptor, (os.fstat(self._descriptor).st_atime, time))
            os.fsync(self._descriptor)
            # Read back from the disk, not from memory.
            if not self._is_whole():
                raise Corrupt(self._blob, "the received data")
            failpoint("blobs.before_rename")
            with self._folder.locked(SHARED):
                os.replace(self._part, self._target)
                failpoint("blobs.before_folder_fsync")
                flush_folder(self._target.parent)
        failpoint("blobs.after_write")

    def __exit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            with suppress(FileNotFoundError):
                os.unlink(self._part)
