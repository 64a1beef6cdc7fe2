"""MemoryBlobs: the blobs of a simulated node, whole or absent, and lost only with its disk."""

import hashlib
from collections.abc import AsyncIterator, Collection, Sequence

from ringrift.blobs.ports import CHUNK
from ringrift.kernel.errors import Corrupt, NoRoute
from ringrift.kernel.ids import check_blob


class MemoryBlobs:
    """:class:`ringrift.blobs.ports.Blobs` in a dictionary."""

    def __init__(self, name: str = "memory") -> None:
        self.name = name
        self.files: dict[str, bytes] = {}

    async def put(self, datas: Sequence[bytes]) -> Sequence[str]:
        return [self.add(data) for data in datas]

    def add(self, data: bytes) -> str:
        blob = hashlib.sha256(data).hexdigest()
        self.files[blob] = data
        return blob

    def open(self, blob: str) -> bytes:
        """The bytes of *blob*.  Raises NoRoute or Corrupt."""
        if check_blob(blob) not in self.files:
            raise NoRoute(blob, [self.name])
        data = self.files[blob]
        if hashlib.sha256(data).hexdigest() != blob:
            del self.files[blob]
            raise Corrupt(blob, self.name)
        return data

    async def read(self, blob: str) -> AsyncIterator[bytes]:
        data = self.open(blob)
        for start in range(0, len(data), CHUNK):
            yield data[start : start + CHUNK]

    async def write(self, blob: str, chunks: AsyncIterator[bytes]) -> int:
        check_blob(blob)
        data = b"".join([chunk async for chunk in chunks])
        if hashlib.sha256(data).hexdigest() != blob:
            raise Corrupt(blob, "what was received")
        self.files[blob] = data
        return len(data)

    async def have(self, blobs: Collection[str]) -> frozenset[str]:
        return frozenset(blob for blob in blobs if check_blob(blob) in self.files)

    async def names(self) -> Sequence[str]:
        return sorted(self.files)

    async def scrub(self, after: str, limit: int) -> tuple[Sequence[str], str]:
        due = sorted(blob for blob in self.files if blob > after)[:limit]
        corrupt = [blob for blob in due if hashlib.sha256(self.files[blob]).hexdigest() != blob]
        for blob in corrupt:
            del self.files[blob]
        return corrupt, due[-1] if len(due) == limit else ""
