"""The interface of every blob engine."""

from collections.abc import AsyncIterator, Collection, Sequence
from typing import Protocol

CHUNK = 1024 * 1024


class Blobs(Protocol):
    """Files named by the SHA-256 of their bytes.  Names are not chosen, so nothing is ever overwritten."""

    async def put(self, datas: Sequence[bytes]) -> Sequence[str]:
        """Store each of *datas* durably and return their names.  Raises NoRoom."""

    def read(self, blob: str) -> AsyncIterator[bytes]:
        """The bytes of *blob* in chunks.  Raises NoRoute if it is not stored, Corrupt if its hash does not match."""

    async def write(self, blob: str, chunks: AsyncIterator[bytes]) -> int:
        """Store *blob* and return its size.  Raises Corrupt and stores nothing if the hash does not match."""

    async def have(self, blobs: Collection[str]) -> frozenset[str]:
        """Those of *blobs* that are stored."""

    async def names(self) -> Sequence[str]:
        """The names of all blobs."""

    async def scrub(self, after: str, limit: int) -> tuple[Sequence[str], str]:
        """Verify up to *limit* blobs after *after*; returns the corrupt ones, now set aside, and where to continue."""
