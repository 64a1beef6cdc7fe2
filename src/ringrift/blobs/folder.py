"""A folder of content-addressed files: ``ab/ab12…``, ``tmp/`` for the unfinished, ``bad/`` for the corrupt.

A file gets its name only when it is whole: written beside, flushed, read back and hashed, renamed, and the folder
flushed.  Until the last step a power cut leaves nothing under the name; after it, everything.

The file ``node`` carries the id of the folder's node.  Without it the disk is not there, whatever the path shows: an
empty mount point looks like an empty folder.  So every verb looks for it before and after, and raises NodeAway.
"""

import asyncio
import errno
import hashlib
import os
import weakref
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from ringrift.blobs.locks import ALONE, ALONE_OR_FAIL, SHARED, lock, locked, opened
from ringrift.blobs.ports import CHUNK, StoredBlob
from ringrift.kernel.errors import Busy, Corrupt, NodeAway, NoRoom, NoRoute
from ringrift.kernel.failpoint import failpoint
from ringrift.kernel.folders import make_folder
from ringrift.kernel.ids import check_blob
from ringrift.threads import Threads

T = TypeVar("T")
_MARKER, _MARKER_BYTES_MAX = "node", 1024
_AWAY = {errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ENODEV, errno.ENXIO, errno.ENOMEDIUM, errno.EREMOTEIO}
_AWAY |= {errno.ESHUTDOWN, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH}
_NO_ROOM: dict[int, tuple[str, ...]] = {errno.ENOSPC: (), errno.EDQUOT: ("the quota is used up",)}
_NO_ROOM[errno.EROFS] = ("the file system is read-only", "make it writable")
_THREADS_MAX = 4  # calls into one folder at a time; so many threads may hang in it
_HANG_SECONDS_MAX = 60.0  # how long a call into a folder may take before its disk counts as away.


class Folder:
    """The blocking side: used directly in worker processes, and in threads in a node.

    Every verb raises NodeAway unless the folder is that of *node*; without one nothing is checked.
    """

    def __init__(self, root: str | Path, node: str = "") -> None:
        self.root, self.node = Path(root), node
        self._marker = self.root / _MARKER

    def path(self, blob: str) -> Path:
        """The path of *blob*, whether or not it exists."""
        return self.root / check_blob(blob)[:2] / blob

    def read_marker(self) -> str | None:
        """The id of the node that this folder belongs to; None without a marker.  Raises NodeAway."""
        try:
            # Plain calls of the system: it is read twice for each verb.
            with _typed(self), opened(self._marker, os.O_RDONLY) as descriptor:
                return os.read(descriptor, _MARKER_BYTES_MAX).decode().strip()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise NodeAway(self.node, f"{self.root}: {error}") from error

    def mark(self) -> None:
        """Write the marker, durably.  Raises NoRoom."""
        beside = self.root / f".{_MARKER}.{os.getpid()}"
        with _typed(self):
            make_folder(self.root)
            with opened(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as descriptor:
                os.write(descriptor, f"{self.node}\n".encode())
                os.fsync(descriptor)
            os.replace(beside, self.root / _MARKER)
            for folder in (self.root, self.root.parent):
                _flush_folder(folder)

    def check(self) -> None:
        """Raise NodeAway unless the marker of the node is here."""
        if not self.node:
            return
        # Earlier versions recorded the path as it was set: relative to a directory that only their process knew.
        marker = self.read_marker() if self.root.is_absolute() else None
        if marker != self.node:
            reason = f"the folder belongs to node {marker}" if marker else "its disk is not there"
            raise NodeAway(self.node, f"{self.root}: {reason}")

    def find_away(self) -> NodeAway | None:
        """Why the folder is not here for this process; None if it is."""
        try:
            self.check()
        except NodeAway as away:
            return away
        return None

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Raise NodeAway if the folder goes away meanwhile, NoRoom if it cannot be written now."""
        with _typed(self):
            self.check()
            try:
                yield
            finally:
                self.check()

    def put(self, data: bytes) -> str:
        """Store *data* and return its name.  Raises NoRoom."""
        blob = hashlib.sha256(data).hexdigest()
        with self.answering():
            if self.renew(blob):
                return blob
            with _Incoming(self, blob) as part:
                part.write(data)
                part.commit()
        return blob

    def renew(self, blob: str) -> bool:
        """Whether *blob* is here, whole and durable; then it counts as stored now."""
        path = self.path(blob)
        with suppress(FileNotFoundError), self.locked(SHARED), path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != blob:
                return False  # it was damaged since it was written
            # Another writer may have given it its name a moment ago, and a power cut would still take that back.
            os.utime(file.fileno())
            os.fsync(file.fileno())
            _flush_folder(path.parent)
            return True
        return False

    def locked(self, kind: int) -> AbstractContextManager[None]:
        """Lock the folder: writers share it while they give a file its name, deletion has it alone."""
        return locked(self.root / "lock", kind, os.O_CREAT)

    def open(self, blob: str) -> Path:
        """The path of *blob*, verified.  Raises NoRoute or Corrupt (and sets a corrupt file aside)."""
        path = self.path(blob)
        with self.answering():
            try:
                digest = _digest(path)
            except FileNotFoundError as absent:
                raise NoRoute(blob, [str(self.root)]) from absent
            if digest != blob:
                (self.root / "bad").mkdir(mode=0o700, exist_ok=True)  # out of service, but not destroyed
                with suppress(FileNotFoundError):
                    os.replace(path, self.root / "bad" / blob)
                raise Corrupt(blob, str(self.root))
        return path

    def have(self, blobs: Collection[str]) -> frozenset[str]:
        """Those of *blobs* that are here."""
        with self.answering():
            return frozenset(blob for blob in blobs if self.path(blob).exists())

    def page(self, after: str, limit: int) -> list[StoredBlob]:
        """Up to *limit* blobs after *after*, in order.  Shelves before it are not read, nor those behind the page."""
        blobs = list[StoredBlob]()
        with self.answering():
            shelves = sorted(os.listdir(self.root)) if self.root.is_dir() else []
            for shelf in (name for name in shelves if len(name) == 2 and name >= after[:2] and len(blobs) < limit):
                rows = (row for row in os.scandir(self.root / shelf) if len(row.name) == 64 and row.name > after)
                for row in sorted(rows, key=lambda row: row.name):
                    with suppress(FileNotFoundError):  # it was deleted meanwhile
                        status = row.stat(follow_symlinks=False)
                        blobs.append(StoredBlob(blob=row.name, size=status.st_size, time=status.st_mtime))
        return blobs[:limit]

    def is_corrupt(self, blob: str) -> bool:
        """Whether *blob* is here and does not match its name; then it is set aside."""
        try:
            return not self.open(blob)
        except (Corrupt, NoRoute) as error:
            return isinstance(error, Corrupt)

    def delete(self, blobs: Collection[str], before: float) -> list[str]:
        """Delete *blobs*; those that stay were stored at *before* or later, or are being stored now."""
        stay = list[str]()
        with self.answering():
            for path in map(self.path, blobs):
                try:
                    with suppress(FileNotFoundError), self.locked(ALONE_OR_FAIL):
                        if path.stat().st_mtime < before:
                            path.unlink()
                        else:
                            stay.append(path.name)
                except BlockingIOError:
                    stay.append(path.name)
        return stay

    def drop_parts(self) -> int:
        """Delete the parts that no process is writing any more; how many that were."""
        dropped, folder = 0, self.root / "tmp"
        with self.answering():
            for part in list(folder.iterdir()) if folder.is_dir() else ():
                with suppress(FileNotFoundError, BlockingIOError), locked(part, ALONE_OR_FAIL):
                    part.unlink()
                    dropped += 1
        return dropped


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
        with self._folder.answering():
            for folder in (self._part.parent, self._target.parent):
                if not folder.is_dir():
                    if not self._folder.node:
                        make_folder(self._folder.root)
                    folder.mkdir(exist_ok=True, mode=0o700)
                    _flush_folder(folder.parent)
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
        with _typed(self._folder):
            while view:
                view = view[os.write(self._descriptor, view) :]
        self.size += len(data)

    def commit(self) -> None:
        """Give the file its name, durably.  Raises Corrupt if it is not what it should be."""
        failpoint("blobs.before_fsync")
        with self._folder.answering():
            os.fsync(self._descriptor)
            # Read back from the disk, not from memory.
            if _digest(self._part) != self._blob:
                raise Corrupt(self._blob, "the received data")
            failpoint("blobs.before_rename")
            with self._folder.locked(SHARED):
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
    """:class:`ringrift.blobs.ports.Blobs` over a :class:`Folder`, with the blocking parts in threads of its own.

    A call that hangs is left behind, and until it ends the folder is away: no more than a few threads ever hang.
    """

    def __init__(self, root: str | Path, node: str = "", hang_seconds_max: float = _HANG_SECONDS_MAX) -> None:
        self.folder, self._seconds_max, self._hanging = Folder(root, node), hang_seconds_max, 0
        self._threads = Threads(_THREADS_MAX, "blobs")
        weakref.finalize(self, self._threads.close)

    async def _call(self, call: Callable[..., T], *args: object) -> T:
        """Run *call* in a thread, to its end even if the caller is cancelled meanwhile.  Raises NodeAway if it hangs.

        A thread cannot be stopped: returning early would leave two users of one file.
        """
        away = NodeAway(self.folder.node, f"{self.folder.root}: no answer for {self._seconds_max:g} s")
        if self._hanging:
            raise away
        loop, error = asyncio.get_running_loop(), None
        work, end = self._threads.run(call, *args), loop.time() + self._seconds_max
        while not work.done() and loop.time() < end:
            try:
                await asyncio.wait((work,), timeout=end - loop.time())
            except asyncio.CancelledError as cancelled:
                error = cancelled
        if not work.done():
            self._hanging += 1
            work.add_done_callback(self._end_hang)
            raise error or away
        if error is None:
            return work.result()
        work.exception()  # retrieved, so that asyncio does not report it; the cancellation counts
        raise error

    def _end_hang(self, work: "asyncio.Future[T]") -> None:
        self._hanging -= 1
        work.exception()

    async def open(self, *, is_new: bool, listed: Collection[str] = ()) -> None:
        """Mark the folder if it *is_new* to its node.  Raises NodeAway if it has no marker, or that of another.

        Where the node should have *listed* and none of it is there, the disk is not: that is not marked.
        """

        def mark() -> None:
            with _typed(folder := self.folder):
                is_unmarked = is_new and folder.read_marker() is None
                if is_unmarked and (not listed or any(folder.path(blob).exists() for blob in listed)):
                    folder.mark()
                folder.check()

        await self._call(mark)

    async def put(self, datas: Sequence[bytes]) -> Sequence[str]:
        return [await self._call(self.folder.put, data) for data in datas]

    async def read(self, blob: str) -> AsyncIterator[bytes]:
        def open_file() -> int:
            with self.folder.answering():
                return os.open(self.folder.open(blob), os.O_RDONLY | os.O_CLOEXEC)

        def read_chunk() -> bytes:
            with _typed(self.folder):
                return os.read(descriptor, CHUNK)

        descriptor = await self._call(open_file)
        try:
            while chunk := await self._call(read_chunk):
                yield chunk
        finally:
            await self._close(os.close, descriptor)

    async def read_piece(self, blob: str, offset: int, size: int) -> tuple[bytes, int]:
        def read() -> tuple[bytes, int]:
            path = self.folder.path(blob) if offset else self.folder.open(blob)
            with self.folder.answering(), opened(path, os.O_RDONLY) as descriptor:
                return os.pread(descriptor, size, offset), os.fstat(descriptor).st_size

        try:
            return await self._call(read)
        except FileNotFoundError as absent:
            raise NoRoute(blob, [str(self.folder.root)]) from absent

    async def _close(self, call: Callable[..., object], *args: object) -> None:
        with suppress(NodeAway):  # what hangs is closed by the end of the process
            await self._call(call, *args)

    async def write(self, blob: str, chunks: AsyncIterator[bytes]) -> int:
        part = _Incoming(self.folder, blob)
        try:
            await self._call(part.__enter__)
            async for chunk in chunks:
                await self._call(part.write, chunk)
            await self._call(part.commit)
            return part.size
        finally:
            await self._close(part.__exit__)

    async def have(self, blobs: Collection[str]) -> frozenset[str]:
        return await self._call(self.folder.have, blobs)

    async def renew(self, blobs: Collection[str]) -> frozenset[str]:
        def renew() -> frozenset[str]:
            with self.folder.answering():
                return frozenset(blob for blob in blobs if self.folder.renew(blob))

        return await self._call(renew)

    async def page(self, after: str, limit: int) -> Sequence[StoredBlob]:
        return await self._call(self.folder.page, after, limit)

    async def verify(self, blobs: Collection[str]) -> Sequence[str]:
        return [blob for blob in blobs if await self._call(self.folder.is_corrupt, blob)]

    async def delete(self, blobs: Collection[str], before: float) -> Sequence[str]:
        return await self._call(self.folder.delete, blobs, before)

    async def drop_parts(self) -> int:
        return await self._call(self.folder.drop_parts)


@contextmanager
def _typed(folder: Folder) -> Iterator[None]:
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


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush_folder(folder: Path) -> None:
    with opened(folder, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        os.fsync(descriptor)
