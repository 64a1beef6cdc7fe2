"""The interface of every blob engine."""

from collections.abc import AsyncIterator, Collection, Sequence
from typing import Protocol

from ringrift.kernel.value import Value

CHUNK = 1024 * 1024


class StoredBlob(Value):
    """A blob as it lies on a node."""

    blob: str
    size: int
    time: float  #: When it was last stored, by the wall clock of its node.


class Blobs(Protocol):
    """Files named by the SHA-256 of their bytes.  Names are not chosen, so nothing is ever overwritten."""

    async def put(self, datas: Sequence[bytes]) -> Sequence[str]:
        """Store each of *datas* durably and return their names.  Raises NoRoom."""

    def read(self, blob: str) -> AsyncIterator[bytes]:
        """The bytes of *blob* in chunks.  Raises NoRoute if it is not stored, Corrupt if its hash does not match."""

    async def read_piece(self, blob: str, offset: int, size: int) -> tuple[bytes, int]:
        """Up to *size* bytes of *blob* from *offset* on, and the size of the whole.  Raises NoRoute or Corrupt.

        The hash is compared where it begins, at offset 0; whoever puts the pieces together compares it again.
        """

    async def write(self, blob: str, chunks: AsyncIterator[bytes]) -> int:
        """Store *blob* and return its size.  Raises Corrupt and stores nothing if the hash does not match."""

    async def have(self, blobs: Collection[str]) -> frozenset[str]:
        """Those of *blobs* that are stored."""

    async def renew(self, blobs: Collection[str]) -> frozenset[str]:
        """Those of *blobs* that are stored whole; they count as stored now, so that none is deleted as an old one."""

    async def page(self, after: str, limit: int) -> Sequence[StoredBlob]:
        """Up to *limit* stored blobs whose names come after *after*, in the order of their names."""

    async def verify(self, blobs: Collection[str]) -> Sequence[str]:
        """Hash *blobs*; returns those that do not match their names, now set aside."""

    async def delete(self, blobs: Collection[str], before: float) -> Sequence[str]:
        """Delete *blobs*, except those that were stored again at *before* or later; returns the ones that stay.

        Only the retention rule (:mod:`ringrift.pipeline.retention`) says what may go.
        """

    async def drop_parts(self) -> int:
        """Delete what writers that ended in the middle have left; how many files that were."""
