"""MemoryBlobs: the blobs of a simulated node, whole or absent, and lost only with its disk."""

import hashlib
from collections.abc import AsyncIterator, Callable, Collection, Sequence

from ringrift.blobs.ports import CHUNK, StoredBlob
from ringrift.kernel.errors import Corrupt, NodeAway, NoRoute
from ringrift.kernel.ids import check_blob


class MemoryBlobs:
    """:class:`ringrift.blobs.ports.Blobs` in a dictionary."""

    def __init__(self, name: str = "memory", now: Callable[[], float] = float) -> None:
        self.name, self._now, self._times = name, now, dict[str, float]()
        self.files: dict[str, bytes] = {}
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
        data = self.open(blob)
        return data[offset : offset + size], len(data)

    async def write(self, blob: str, chunks: AsyncIterator[bytes]) -> int:
        check_blob(blob)
        data = b"".join([chunk async for chunk in chunks])
        if hashlib.sha256(data).hexdigest() != blob:
            raise Corrupt(blob, "what was received")
        self.add(data)
        return len(data)

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

    async def drop_parts(self) -> int:
        self._mounted()
        return 0  # a write is one step
