"""The seam to every blob engine."""

from collections.abc import AsyncIterator, Collection, Sequence
from typing import Protocol

CHUNK = 1024 * 1024


class Blobs(Protocol):
    """Files named by the SHA-256 of their bytes.  Nobody chooses a name, so nothing is ever overwritten."""

    async def put(self, datas: Sequence[bytes]) -> Sequence[str]:
        """Store each of *datas*; their names.  What is named is on stable storage.  Raises NoRoom."""

    def read(self, blob: str) -> AsyncIterator[bytes]:
        """The bytes of *blob* in chunks.  Raises NoRoute if it is not here, Corrupt if they are not its own."""

    async def write(self, blob: str, chunks: AsyncIterator[bytes]) -> int:
        """Take *blob* in; its size.  Raises Corrupt and keeps nothing if the bytes do not hash to their name."""

    async def have(self, blobs: Collection[str]) -> frozenset[str]:
        """Those of *blobs* that are here."""

    async def names(self) -> Sequence[str]:
        """Everything that is here."""

    async def scrub(self, after: str, limit: int) -> tuple[Sequence[str], str]:
        """Hash up to *limit* blobs behind *after* again; the corrupt ones (now set aside), and where to go on."""
