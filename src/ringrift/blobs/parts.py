"""Parts: files that arrive in pieces and stay over restarts, ``partial/<blob>.<owner>``, until they are whole.

Nothing is promised about a part: after a power cut its bytes may be wrong.  Only the whole is hashed, and a part that
turns out to be another file is deleted.  It is locked while it is open, so that no two processes add to it.
"""

import math
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ringrift.blobs.file_writer import digest, flush_folder
from ringrift.blobs.locks import ALONE_OR_FAIL, SHARED, lock, locked, opened
from ringrift.blobs.ports import StoredPart
from ringrift.kernel.errors import Busy, Corrupt, InvalidId
from ringrift.kernel.failpoint import failpoint
from ringrift.kernel.folders import make_folder
from ringrift.kernel.ids import check_blob, check_id

if TYPE_CHECKING:
    from ringrift.blobs.folder import Folder

_FOLDER, _UNFINISHED = "partial", "tmp"


class PartFile:
    """The blocking side: the part of *blob* that *owner* brings to *folder*."""

    def __init__(self, folder: "Folder", blob: str, owner: str) -> None:
        self._folder, self._blob = folder, check_blob(blob)
        self.path = folder.root / _FOLDER / f"{blob}.{check_id('owner', owner)}"
        self._descriptor = -1

    def open(self) -> int:
        """Open it, made if there is none; how many bytes it has.  Raises Busy while another process has it open."""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        with self._folder.answering():
            if not self._folder.node:
                make_folder(self._folder.root)
            self.path.parent.mkdir(mode=0o700, exist_ok=True)
            # One that nobody has open may be deleted, or get its name, just before it is locked: then it is made again.
            while self._descriptor < 0 or not self._is_here():
                self.close()
                self._descriptor = os.open(self.path, flags, 0o600)
                try:
                    lock(self._descriptor, ALONE_OR_FAIL)
                except BlockingIOError as error:
                    self.close()
                    raise Busy(f"upload of {self._blob:.12}", "another process of this folder receives it") from error
            return os.fstat(self._descriptor).st_size

    def _is_here(self) -> bool:
        """Whether the open file is the part, and not a blob by now: nobody writes to those."""
        with suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(self._descriptor), os.stat(self.path, follow_symlinks=False))
        return False

    def append(self, data: bytes) -> None:
        """Add *data*.  Raises NoRoom."""
        view = memoryview(data)
        with self._folder.answering():
            while view:
                view = view[os.write(self._descriptor, view) :]

    def read(self, offset: int, size: int) -> bytes:
        """Up to *size* bytes from *offset* on; none if it has got its name or was deleted meanwhile."""
        # By its own descriptor: the other one may be closed by now, and its number that of another file.
        flags = os.O_RDONLY | os.O_NOFOLLOW
        with self._folder.answering(), suppress(FileNotFoundError), opened(self.path, flags) as descriptor:
            return os.pread(descriptor, size, offset)
        return b""

    def commit(self) -> int:
        """Make it the blob, durably; its size.  Raises Corrupt, and then it is deleted."""
        failpoint("blobs.before_fsync")
        target = self._folder.path(self._blob)
        with self._folder.answering():
            os.fsync(self._descriptor)
            if digest(self.path) != self._blob:  # as it is read back
                self.path.unlink(missing_ok=True)
                raise Corrupt(self._blob, "the received data")
            if not target.parent.is_dir():
                target.parent.mkdir(mode=0o700, exist_ok=True)
                flush_folder(self._folder.root)
            failpoint("blobs.before_rename")
            with self._folder.locked(SHARED):
                os.utime(self._descriptor)  # it counts as stored now, whenever its first piece came
                os.replace(self.path, target)
                flush_folder(target.parent)
            return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        """Close it; what is there stays."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def delete(self) -> None:
        """Close and delete it."""
        with suppress(FileNotFoundError):
            self.path.unlink()
        self.close()


def list_parts(folder: "Folder") -> list[StoredPart]:
    """The parts that are there, whether open or not."""
    parts = list[StoredPart]()
    with folder.answering(), suppress(FileNotFoundError):
        for row in os.scandir(folder.root / _FOLDER):
            blob, _, owner = row.name.partition(".")
            with suppress(FileNotFoundError, InvalidId):
                status = row.stat(follow_symlinks=False)
                facts = {"blob": check_blob(blob), "owner": check_id("owner", owner)}
                parts.append(StoredPart(size=status.st_size, time=status.st_mtime, **facts))
    return parts


def drop_parts(folder: "Folder", before: float) -> int:
    """Delete files that no process is writing any more, and parts at rest since *before*; how many that were."""
    dropped = 0
    with folder.answering():
        limits = dict.fromkeys(folder.root.glob(f"{_UNFINISHED}/*"), math.inf)
        limits |= dict.fromkeys(folder.root.glob(f"{_FOLDER}/*"), before)
        for path, limit in limits.items():
            with suppress(FileNotFoundError, BlockingIOError), locked(path, ALONE_OR_FAIL):
                if path.stat().st_mtime < limit:
                    path.unlink()
                    dropped += 1
    return dropped


class FolderPart:
    """:class:`ringrift.blobs.ports.Part` over a file; *call* runs what blocks in a thread."""

    def __init__(self, file: PartFile, call: Callable[..., Awaitable[Any]]) -> None:
        self._file, self._call = file, call

    @property
    def path(self) -> Path:
        """Where it is, for a program that writes it itself while it is open here."""
        return self._file.path

    async def open(self) -> int:
        size: int = await self._call(self._file.open)
        return size

    async def append(self, data: bytes) -> None:
        await self._call(self._file.append, data)

    async def read(self, offset: int, size: int) -> bytes:
        data: bytes = await self._call(self._file.read, offset, size)
        return data

    async def commit(self) -> int:
        size: int = await self._call(self._file.commit)
        return size

    async def close(self, *, keep: bool) -> None:
        await self._call(self._file.close if keep else self._file.delete)
