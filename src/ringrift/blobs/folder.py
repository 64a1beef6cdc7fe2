"""A folder of content-addressed files: ``ab/ab12…``, ``tmp/`` for the unfinished, ``bad/`` for the corrupt.

A file gets its name only when it is whole: written beside, flushed, read back and hashed, renamed, and the folder
flushed.  Until the last step a power cut leaves nothing under the name; after it, everything.  Small ones may lie in
``packs/`` together (:mod:`ringrift.blobs.packs`): to those who read, list or delete blobs that makes no difference.

The file ``node`` carries the id of the folder's node.  Without it the disk is not there, whatever the path shows: an
empty mount point looks like an empty folder.  So every verb looks for it before and after, and raises NodeAway.
"""

import asyncio
import hashlib
import math
import os
import shutil
import weakref
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TypeVar

from ringrift.blobs.file_writer import Incoming, flush_folder, typed
from ringrift.blobs.index import Index, add_summaries
from ringrift.blobs.locks import ALONE, ALONE_OR_FAIL, SHARED, locked, opened
from ringrift.blobs.marker import claim_folder, read_marker, write_marker
from ringrift.blobs.pack_writer import consolidate, write_arrivals
from ringrift.blobs.packs import Packs, Place
from ringrift.blobs.parts import FolderPart, PartFile, drop_parts, list_parts
from ringrift.blobs.ports import BlobSummary, StoredBlob, StoredPart
from ringrift.blobs.small_files import SmallFiles, read_small
from ringrift.kernel.errors import Corrupt, NodeAway, NoRoute
from ringrift.kernel.ids import check_blob
from ringrift.threads import Threads

T = TypeVar("T")
_TRIES = 8  # a blob that is packed or unpacked between two steps is looked up again
_THREADS_MAX = 4  # calls into one folder at a time; so many threads may hang in it
_HANG_SECONDS_MAX = 60.0  # how long a call into a folder may take before its disk counts as away.


class Folder:
    """The blocking side: used directly in worker processes, and in threads in a node.

    Every verb raises NodeAway unless the folder is that of *node*; without one nothing is checked.
    """

    def __init__(self, root: str | Path, node: str = "") -> None:
        self.root, self.node = Path(root), node
        self.packs = Packs(self)
        self._index = Index(self.root, self.packs)

    def path(self, blob: str) -> Path:
        """The path of *blob*, whether or not it exists."""
        return self.root / check_blob(blob)[:2] / blob

    def read_marker(self) -> str | None:
        """The id of the node that this folder belongs to; None without a marker.  Raises NodeAway."""
        return read_marker(self)

    def mark(self) -> None:
        """Write the marker, durably.  Raises NoRoom."""
        write_marker(self)

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
        with typed(self):
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
            self.write_file(self.path(blob), data)
        return blob

    def write_file(self, path: Path, data: bytes) -> None:
        """Write *data* to *path*, a file beside the blobs, durably, whole or not at all.  Raises NoRoom."""
        with Incoming(self, hashlib.sha256(data).hexdigest(), path) as part:
            part.write(data)
            part.commit()

    def renew(self, blob: str) -> bool:
        """Whether *blob* is here, whole and durable; then it counts as stored now."""
        path = self.path(blob)
        with suppress(FileNotFoundError), self.locked(SHARED), path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != blob:
                return False  # it was damaged since it was written
            # Another writer may have given it its name a moment ago, and a power cut would still take that back.
            os.utime(file.fileno())
            os.fsync(file.fileno())
            flush_folder(path.parent)
            return True
        return self._unpack(blob, is_new=True)

    def _unpack(self, blob: str, *, is_new: bool) -> bool:
        """Store *blob* as a file of its own if a pack has it whole; it counts as stored when it was, or now."""
        for _ in range(_TRIES):
            place = self.packs.find(blob)
            if place is None:
                return self.path(blob).exists()
            with suppress(FileNotFoundError), opened(place.path, os.O_RDONLY) as descriptor:
                with suppress(Corrupt), Incoming(self, blob) as part:
                    for chunk in place.chunks(descriptor):
                        part.write(chunk)
                    part.commit(None if is_new else place.time)
                    return True
                return False
        return False

    def locked(self, kind: int) -> AbstractContextManager[None]:
        """Lock the folder: writers share it while they give a file its name, deletion has it alone."""
        return locked(self.root / "lock", kind, os.O_CREAT)

    def locate(self, blob: str) -> Place:
        """Where the bytes of *blob* are, in a file of its own or in a pack.  Not verified.  Raises NoRoute."""
        path = self.path(blob)
        try:
            status = path.stat()
        except FileNotFoundError as absent:
            if place := self.packs.find(blob):
                return place
            raise NoRoute(blob, [str(self.root)]) from absent
        return Place(path, 0, status.st_size, status.st_mtime)

    def read_piece(self, blob: str, offset: int, size: int) -> tuple[bytes, int]:
        """A piece of *blob*, and the size of the whole.  Raises NoRoute or Corrupt."""
        descriptor, place = self.open_file(blob, is_verified=not offset)
        try:
            return os.pread(descriptor, max(min(size, place.size - offset), 0), place.offset + offset), place.size
        finally:
            os.close(descriptor)

    def open_file(self, blob: str, *, is_verified: bool = True) -> tuple[int, Place]:
        """An open file and where in it the bytes of *blob* are.

        Raises NoRoute or Corrupt (and sets corrupt bytes aside).
        """
        for _ in range(_TRIES):
            place = self.locate(blob)
            with suppress(FileNotFoundError):  # packed or unpacked since then
                descriptor = os.open(place.path, os.O_RDONLY | os.O_CLOEXEC)
                break
        else:
            raise NoRoute(blob, [str(self.root)])
        try:
            if not is_verified or place.digest(descriptor) == blob:
                return descriptor, place
            self._set_aside(blob, place, descriptor)
            raise Corrupt(blob, str(self.root))
        except BaseException:
            os.close(descriptor)
            raise

    def _set_aside(self, blob: str, place: Place, descriptor: int) -> None:
        """Take *blob* out of service, but destroy nothing."""
        bad = self.root / "bad"
        bad.mkdir(mode=0o700, exist_ok=True)
        if not place.offset:
            with suppress(FileNotFoundError):
                os.replace(place.path, bad / blob)
            return
        with opened(bad / blob, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as copy:
            for chunk in place.chunks(descriptor):
                os.write(copy, chunk)
        with self.packs.locked(ALONE):
            self.packs.drop([blob], math.inf)

    def open(self, blob: str) -> Path:
        """The path of a file with the bytes of *blob*, verified.  Raises NoRoute or Corrupt, as above."""
        path = self.path(blob)
        with self.answering():
            # Whoever has its path may open it later.  To set its times changes the time of its inode, as no reading
            # does: consolidation leaves what was opened lately where it is.
            with suppress(OSError), self.locked(SHARED):
                status = path.stat()
                os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
            descriptor, place = self.open_file(blob)
            os.close(descriptor)
            if place.path != path and not self._unpack(blob, is_new=False):
                raise NoRoute(blob, [str(self.root)])
        return path

    def have(self, blobs: Collection[str]) -> frozenset[str]:
        """Those of *blobs* that are here."""
        with self.answering():
            return self._index.have(blobs)

    def page(self, after: str, limit: int) -> list[StoredBlob]:
        """Up to *limit* blobs after *after*, in order."""
        with self.answering():
            return list(islice(self._index.walk(after), limit))

    def summarize(self) -> list[BlobSummary]:
        """How many blobs there are, of how many bytes, for each of the 256 first bytes of their names."""
        with self.answering():
            return self._index.summarize()

    def is_corrupt(self, blob: str) -> bool:
        """Whether *blob* is here and does not match its name; then it is set aside."""
        try:
            with self.answering():
                os.close(self.open_file(blob)[0])
        except (Corrupt, NoRoute) as error:
            return isinstance(error, Corrupt)
        return False

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
            if self.packs.load():
                stay += self._delete_packed(set(blobs).difference(stay), before)
        return stay

    def _delete_packed(self, blobs: Collection[str], before: float) -> list[str]:
        try:
            with self.packs.locked(ALONE_OR_FAIL):
                stay = self.packs.drop(blobs, before)
        except BlockingIOError:  # they are being consolidated
            stay = [blob for blob in blobs if self.packs.find(blob)]
        return sorted({*stay, *(blob for blob in blobs if self.path(blob).exists())})  # stored again meanwhile


class FolderBlobs:
    """:class:`ringrift.blobs.ports.Blobs` over a :class:`Folder`, with the blocking parts in threads of its own.

    A call that hangs is left behind, and until it ends the folder is away: no more than a few threads ever hang.
    """

    def __init__(self, root: str | Path, node: str = "", hang_seconds_max: float = _HANG_SECONDS_MAX) -> None:
        self.folder, self._seconds_max, self._hanging = Folder(root, node), hang_seconds_max, 0
        self._threads = Threads(_THREADS_MAX, "blobs")
        weakref.finalize(self, self._threads.close)

    async def call(self, call: Callable[..., T], *args: object) -> T:
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
        await self.call(claim_folder, self.folder, is_new, listed)

    async def put(self, datas: Sequence[bytes]) -> Sequence[str]:
        return [await self.call(self.folder.put, data) for data in datas]

    async def read(self, blob: str) -> AsyncIterator[bytes]:
        def open_file() -> tuple[int, Iterator[bytes]]:
            with self.folder.answering():
                descriptor, place = self.folder.open_file(blob)
                return descriptor, place.chunks(descriptor)

        def read_chunk() -> bytes:
            with typed(self.folder):
                return next(chunks, b"")

        descriptor, chunks = await self.call(open_file)
        try:
            while chunk := await self.call(read_chunk):
                yield chunk
        finally:
            await self._close(os.close, descriptor)

    async def read_piece(self, blob: str, offset: int, size: int) -> tuple[bytes, int]:
        def read() -> tuple[bytes, int]:
            with self.folder.answering():
                return self.folder.read_piece(blob, offset, size)

        return await self.call(read)

    async def read_small(self, blobs: Sequence[str], size_max: int, bytes_max: int) -> tuple[SmallFiles, int]:
        def read() -> tuple[SmallFiles, int]:
            with self.folder.answering():
                return read_small(self.folder.read_piece, blobs, size_max, bytes_max)

        return await self.call(read)

    async def _close(self, call: Callable[..., object], *args: object) -> None:
        with suppress(NodeAway):  # what hangs is closed by the end of the process
            await self.call(call, *args)

    async def write(self, blob: str, chunks: AsyncIterator[bytes]) -> int:
        part = Incoming(self.folder, blob)
        try:
            await self.call(part.__enter__)
            async for chunk in chunks:
                await self.call(part.write, chunk)
            await self.call(part.commit)
            return part.size
        finally:
            await self._close(part.__exit__)

    def part(self, blob: str, owner: str) -> FolderPart:
        return FolderPart(PartFile(self.folder, blob, owner), self.call)

    async def parts(self) -> Sequence[StoredPart]:
        return await self.call(list_parts, self.folder)

    async def write_pack(self, blobs: AsyncIterator[tuple[str, bytes]]) -> Sequence[str]:
        return await write_arrivals(self.folder, blobs, self.call)

    async def consolidate(self, blobs: Sequence[str], before: float, bytes_max: int) -> int:
        return await self.call(consolidate, self.folder, blobs, before, bytes_max)

    async def have(self, blobs: Collection[str]) -> frozenset[str]:
        return await self.call(self.folder.have, blobs)

    async def renew(self, blobs: Collection[str]) -> frozenset[str]:
        def renew() -> frozenset[str]:
            with self.folder.answering():
                return frozenset(blob for blob in blobs if self.folder.renew(blob))

        return await self.call(renew)

    async def page(self, after: str, limit: int) -> Sequence[StoredBlob]:
        return await self.call(self.folder.page, after, limit)

    async def summary(self) -> BlobSummary:
        return add_summaries(await self.buckets())

    async def buckets(self) -> Sequence[BlobSummary]:
        return await self.call(self.folder.summarize)

    async def verify(self, blobs: Collection[str]) -> Sequence[str]:
        return [blob for blob in blobs if await self.call(self.folder.is_corrupt, blob)]

    async def delete(self, blobs: Collection[str], before: float) -> Sequence[str]:
        return await self.call(self.folder.delete, blobs, before)

    async def room(self) -> tuple[int, int]:
        def measure() -> tuple[int, int]:
            with self.folder.answering():
                usage = shutil.disk_usage(self.folder.root)
                return usage.free, usage.total

        return await self.call(measure)

    async def drop_parts(self, before: float) -> int:
        return await self.call(drop_parts, self.folder, before)
