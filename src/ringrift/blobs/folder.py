"""A folder of content-addressed files: ``ab/ab12…``, ``tmp/`` for the unfinished, ``bad/`` for the corrupt.

A file gets its name only when it is whole: written beside, flushed, read back and hashed, renamed, and the folder
flushed.  Until the last step a power cut leaves nothing under the name; after it, everything.
"""

import errno
import hashlib
import os
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from ringrift.blobs.ports import CHUNK
from ringrift.kernel.errors import Corrupt, NoRoom, NoRoute
from ringrift.kernel.failpoint import failpoint
from ringrift.kernel.ids import check_blob
from ringrift.threads import to_its_end

T = TypeVar("T")


class Folder:
    """The blocking side: used directly in worker processes, and in threads in a node."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    def path(self, blob: str) -> Path:
        """The path of *blob*, whether or not it exists."""
        return self.root / check_blob(blob)[:2] / blob

    def put(self, data: bytes) -> str:
        """Store *data* and return its name.  Raises NoRoom."""
        blob = hashlib.sha256(data).hexdigest()
        with suppress(FileNotFoundError):
            if _digest(self.path(blob)) == blob:  # otherwise it was damaged since it was written
                return blob
        with _Incoming(self, blob) as part:
            part.write(data)
            part.commit()
        return blob

    def open(self, blob: str) -> Path:
        """The path of *blob*, verified.  Raises NoRoute or Corrupt (and sets a corrupt file aside)."""
        path = self.path(blob)
        try:
            digest = _digest(path)
        except FileNotFoundError as absent:
            raise NoRoute(blob, [str(self.root)]) from absent
        if digest != blob:
            (self.root / "bad").mkdir(parents=True, exist_ok=True)  # out of service, but not destroyed
            with suppress(FileNotFoundError):
                os.replace(path, self.root / "bad" / blob)
            raise Corrupt(blob, str(self.root))
        return path

    def names(self) -> list[str]:
        if not self.root.is_dir():
            return []
        shelves = [shelf for shelf in os.scandir(self.root) if shelf.is_dir() and len(shelf.name) == 2]
        return sorted(entry.name for shelf in shelves for entry in os.scandir(shelf) if len(entry.name) == 64)


class _Incoming:
    """A file that is being written.  Leaving the body without ``commit()`` leaves nothing behind."""

    def __init__(self, folder: Folder, blob: str) -> None:
        self._folder, self._blob, self._target = folder, blob, folder.path(blob)
        self._part = folder.root / "tmp" / f"{blob[:16]}.{os.getpid()}.{id(self):x}"
        self._descriptor = -1
        self.size = 0

    def __enter__(self) -> "_Incoming":
        failpoint("blobs.before_write")
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with _room(self._folder.root):
            for folder in (self._part.parent, self._target.parent):
                if not folder.is_dir():
                    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                    _flush_folder(folder.parent)
            self._descriptor = os.open(self._part, flags, 0o600)
        return self

    def write(self, data: bytes) -> None:
        """Add *data*.  Raises NoRoom."""
        view = memoryview(data)
        with _room(self._folder.root):
            while view:
                view = view[os.write(self._descriptor, view) :]
        self.size += len(data)

    def commit(self) -> None:
        """Give the file its name, durably.  Raises Corrupt if it is not what it should be."""
        failpoint("blobs.before_fsync")
        with _room(self._folder.root):
            os.fsync(self._descriptor)
        # Read back from the disk, not from memory.
        if _digest(self._part) != self._blob:
            raise Corrupt(self._blob, "the received data")
        failpoint("blobs.before_rename")
        os.replace(self._part, self._target)
        failpoint("blobs.before_folder_fsync")
        _flush_folder(self._target.parent)
        failpoint("blobs.after_write")

    def __exit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            with suppress(FileNotFoundError):
                os.unlink(self._part)


class FolderBlobs:
    """:class:`ringrift.blobs.ports.Blobs` over a :class:`Folder`, with the blocking parts in threads."""

    def __init__(self, root: str | Path) -> None:
        self.folder = Folder(root)

    async def put(self, datas: Sequence[bytes]) -> Sequence[str]:
        return await to_its_end(None, lambda: [self.folder.put(data) for data in datas])

    async def read(self, blob: str) -> AsyncIterator[bytes]:
        path = await to_its_end(None, self.folder.open, blob)
        descriptor = await to_its_end(None, os.open, path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while chunk := await to_its_end(None, os.read, descriptor, CHUNK):
                yield chunk
        finally:
            os.close(descriptor)

    async def write(self, blob: str, chunks: AsyncIterator[bytes]) -> int:
        part = _Incoming(self.folder, blob)
        try:
            await to_its_end(None, part.__enter__)
            async for chunk in chunks:
                await to_its_end(None, part.write, chunk)
            await to_its_end(None, part.commit)
            return part.size
        finally:
            part.__exit__()

    async def have(self, blobs: Collection[str]) -> frozenset[str]:
        return await to_its_end(None, lambda: frozenset(blob for blob in blobs if self.folder.path(blob).exists()))

    async def names(self) -> Sequence[str]:
        return await to_its_end(None, self.folder.names)

    async def scrub(self, after: str, limit: int) -> tuple[Sequence[str], str]:
        return await to_its_end(None, _scrub, self.folder, after, limit)


@contextmanager
def _room(root: Path) -> Iterator[None]:
    """Raise NoRoom if the disk is full."""
    try:
        yield
    except OSError as full:
        if full.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoRoom(str(root)) from full
        raise


def _scrub(folder: Folder, after: str, limit: int) -> tuple[Sequence[str], str]:
    due = [blob for blob in folder.names() if blob > after][:limit]
    corrupt = []
    for blob in due:
        try:
            folder.open(blob)
        except Corrupt:
            corrupt.append(blob)
        except NoRoute:
            continue  # it was deleted meanwhile
    return corrupt, due[-1] if len(due) == limit else ""


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
