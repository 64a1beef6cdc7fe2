"""The interface of every blob engine."""

from collections.abc import AsyncIterator, Collection, Sequence
from pathlib import Path
from typing import Protocol

from ringrift.blobs.small_files import SmallFiles
from ringrift.kernel.value import Value

CHUNK = 1024 * 1024


class StoredBlob(Value):
    """A blob as it lies on a node."""

    blob: str
    size: int
    time: float  #: When it was last stored, by the wall clock of its node.
    is_packed: bool = False  #: Whether it lies in one file with others.


class BlobSummary(Value):
    """What is stored, in short: equal digests mean the same blobs."""

    count: int = 0
    bytes: int = 0
    digest: str = f"{0:064x}"  #: The sum of all names, as 64 hexadecimal digits.


class StoredPart(Value):
    """What has arrived of a blob."""

    blob: str
    owner: str
    size: int
    time: float  #: When the last piece came, by the wall clock of its node.


class Part(Protocol):
    """A blob that arrives in pieces, over restarts of its process.  Only the whole is verified."""

    @property
    def path(self) -> Path | None:
        """The file, for a program that writes it itself while it is open here; None if there is none."""

    async def open(self) -> int:
        """Open it, or make it; how many bytes are there.  Raises Busy while another process has it open."""

    async def append(self, data: bytes) -> None:
        """Add *data* at its end.  Raises NoRoom."""

    async def read(self, offset: int, size: int) -> bytes:
        """Up to *size* bytes from *offset* on of what has come; not verified."""

    async def commit(self) -> int:
        """Verify it and store it durably as the blob; its size.  Raises Corrupt, and then nothing is left of it."""

    async def close(self, *, keep: bool) -> None:
        """Close it; with *keep* it goes on from here later, otherwise it is deleted."""


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

    async def read_small(self, blobs: Sequence[str], size_max: int, bytes_max: int) -> tuple[SmallFiles, int]:
        """The first ones of *blobs* that have at most *bytes_max* together, and how many of *blobs* were looked at.

        One that is not here, is damaged or has more than *size_max* is left out.
        """

    async def write(self, blob: str, chunks: AsyncIterator[bytes]) -> int:
        """Store *blob* and return its size.  Raises Corrupt and stores nothing if the hash does not match."""

    def part(self, blob: str, owner: str) -> Part:
        """What *owner* has brought of *blob*, to go on with.  Raises InvalidId."""

    async def parts(self) -> Sequence[StoredPart]:
        """Every part that is here, open or at rest."""

    async def write_pack(self, blobs: AsyncIterator[tuple[str, bytes]]) -> Sequence[str]:
        """Store many small blobs together and return their names; one whose hash does not match is left out."""

    async def consolidate(self, blobs: Sequence[str], before: float, bytes_max: int) -> int:
        """Bring *blobs* together in one file of at most *bytes_max*; how many files of their own are gone.

        Those stored or opened at *before* or later stay as they are.  Nothing changes for those who read blobs.
        """

    async def have(self, blobs: Collection[str]) -> frozenset[str]:
        """Those of *blobs* that are stored."""

    async def renew(self, blobs: Collection[str]) -> frozenset[str]:
        """Those of *blobs* that are stored whole; they count as stored now, so that none is deleted as an old one."""

    async def page(self, after: str, limit: int) -> Sequence[StoredBlob]:
        """Up to *limit* stored blobs whose names come after *after*, in the order of their names."""

    async def buckets(self) -> Sequence[BlobSummary]:
        """What is stored, for each of the 256 first bytes of names.  Reads nothing where nothing has changed."""

    async def summary(self) -> BlobSummary:
        """What is stored in all."""

    async def verify(self, blobs: Collection[str]) -> Sequence[str]:
        """Hash *blobs*; returns those that do not match their names, now set aside."""

    async def delete(self, blobs: Collection[str], before: float) -> Sequence[str]:
        """Delete *blobs*, except those that were stored again at *before* or later; returns the ones that stay.

        Only the retention rule (:mod:`ringrift.pipeline.retention`) says what may go.
        """

    async def room(self) -> tuple[int, int]:
        """The bytes that are free on its disk, and how many it has; 0 if there is no disk."""

    async def drop_parts(self, before: float) -> int:
        """Delete what writers that ended in the middle have left, and parts to which nothing came since *before*.

        How many files that were.
        """
