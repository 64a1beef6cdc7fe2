"""MemoryBlobs: the blobs of a simulated node, whole or absent, and lost only with its disk."""

import hashlib
from collections.abc import AsyncIterator, Callable, Collection, Sequence

from ringrift.blobs.index import summarize
from ringrift.blobs.ports import CHUNK, BlobSummary, StoredBlob, StoredPart
from ringrift.blobs.small_files import SmallFiles, read_small
from ringrift.kernel.errors import Corrupt, NodeAway, NoRoute
from ringrift.kernel.ids import check_blob, check_id


class _MemoryPart:
    """:class:`ringrift.blobs.ports.Part` in the dictionary of its blobs."""

    path = None

    def __init__(self, blobs: "MemoryBlobs", blob: str, owner: str) -> None:
        self._blobs, self._key = blobs, (check_blob(blob), check_id("owner", owner))

    async def open(self) -> int:
        return len(self._blobs.partial.setdefault(self._key, b""))

    async def append(self, data: bytes) -> None:
        self._blobs._mounted()
        self._blobs.partial[self._key] += data

    async def read(self, offset: int, size: int) -> bytes:
        return self._blobs.partial.get(self._key, b"")[offset : offset + size]

    async def commit(self) -> int:
        data = self._blobs.partial.pop(self._key)
        if hashlib.sha256(data).hexdigest() != self._key[0]:
            raise Corrupt(self._key[0], "what was received")
        self._blobs.add(data)
        return len(data)

    async def close(self, *, keep: bool) -> None:
        if not keep:
            self._blobs.partial.pop(self._key, None)


class MemoryBlobs:
    """:class:`ringrift.blobs.ports.Blobs` in a dictionary."""

    def __init__(self, name: str = "memory", now: Callable[[], float] = float) -> None:
        self.name, self._now, self._times = name, now, dict[str, float]()
        self.files: dict[str, bytes] = {}
        self.partial: dict[tuple[str, str], bytes] = {}
        self.disk = (0, 0)  #: Free bytes of all; none: there is no disk that could be full.
        self.away = False  #: Whether its disk is unmounted: then every verb raises NodeAway, and nothing is lost.

    def _mounted(self) -> dict[str, bytes]:
        if self.away:
            raise NodeAway(self.name, "its disk is not there")
        return self.files

    async def put(self, datas: Sequence[bytes]) -> Sequence[str]:
        return [self.add(data) for data in datas]

    def add(self, data: bytes) -> str:
        blob = hashlib.sha256(data).hexdigest()
        self._mounted()[blob], self._times[blob] = data, self._now()
        return blob

    def open(self, blob: str) -> bytes:
        """The bytes of *blob*.  Raises NoRoute or Corrupt."""
        if check_blob(blob) not in self._mounted():
            raise NoRoute(blob, [self.name])
        data = self._mounted()[blob]
        if hashlib.sha256(data).hexdigest() != blob:
            del self._mounted()[blob]
            raise Corrupt(blob, self.name)
        return data

    async def read(self, blob: str) -> AsyncIterator[bytes]:
        data = self.open(blob)
        for start in range(0, len(data), CHUNK):
            yield data[start : start + CHUNK]

    async def read_piece(self, blob: str, offset: int, size: int) -> tuple[bytes, int]:
        return self._read_piece(blob, offset, size)

    def _read_piece(self, blob: str, offset: int, size: int) -> tuple[bytes, int]:
        data = self.open(blob)
        return data[offset : offset + size], len(data)

    async def read_small(self, blobs: Sequence[str], size_max: int, bytes_max: int) -> tuple[SmallFiles, int]:
        return read_small(self._read_piece, blobs, size_max, bytes_max)

    async def write(self, blob: str, chunks: AsyncIterator[bytes]) -> int:
        check_blob(blob)
        data = b"".join([chunk async for chunk in chunks])
        if hashlib.sha256(data).hexdigest() != blob:
            raise Corrupt(blob, "what was received")
        self.add(data)
        return len(data)

    def part(self, blob: str, owner: str) -> _MemoryPart:
        return _MemoryPart(self, blob, owner)

    async def parts(self) -> Sequence[StoredPart]:
        self._mounted()
        facts = [{"blob": blob, "owner": owner, "size": len(data)} for (blob, owner), data in self.partial.items()]
        return [StoredPart(time=self._now(), **row) for row in facts]  # type: ignore[arg-type]  # as declared

    async def write_pack(self, blobs: AsyncIterator[tuple[str, bytes]]) -> Sequence[str]:
        pairs = [(check_blob(blob), data) async for blob, data in blobs]
        return [self.add(data) for blob, data in pairs if hashlib.sha256(data).hexdigest() == blob]

    async def consolidate(self, blobs: Sequence[str], before: float, bytes_max: int) -> int:
        self._mounted()
        return 0  # there are no files

    async def have(self, blobs: Collection[str]) -> frozenset[str]:
        files = self._mounted()
        return frozenset(blob for blob in blobs if check_blob(blob) in files)

    async def renew(self, blobs: Collection[str]) -> frozenset[str]:
        here = await self.have(blobs)
        self._times.update(dict.fromkeys(here, self._now()))
        return here

    async def page(self, after: str, limit: int) -> Sequence[StoredBlob]:
        files = self._mounted()
        names = sorted(blob for blob in files if blob > after)[:limit]
        return [StoredBlob(blob=blob, size=len(files[blob]), time=self._times.get(blob, 0.0)) for blob in names]

    async def buckets(self) -> Sequence[BlobSummary]:
        sizes = {blob: len(data) for blob, data in self._mounted().items()}
        return [summarize({blob: sizes[blob] for blob in sizes if blob[:2] == f"{first:02x}"}) for first in range(256)]

    async def summary(self) -> BlobSummary:
        return summarize({blob: len(data) for blob, data in self._mounted().items()})

    async def verify(self, blobs: Collection[str]) -> Sequence[str]:
        files = self._mounted()
        corrupt = [blob for blob in blobs if blob in files and hashlib.sha256(files[blob]).hexdigest() != blob]
        for blob in corrupt:
            del files[blob]
        return corrupt

    async def delete(self, blobs: Collection[str], before: float) -> Sequence[str]:
        files, stay = self._mounted(), [blob for blob in blobs if self._times.get(blob, 0.0) >= before]
        for blob in set(blobs) - set(stay):
            files.pop(blob, None)
        return stay

    async def room(self) -> tuple[int, int]:
        self._mounted()
        return self.disk

    async def drop_parts(self, before: float) -> int:
        self._mounted()
        return 0  # a write is one step
