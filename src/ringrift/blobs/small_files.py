"""Many small files with one question: as many of the first ones as fit."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from ringrift.kernel.errors import Corrupt, NoRoute

SmallFiles = list[tuple[str, bytes]]  #: Names and bytes.
_ReadPiece = Callable[[str, int, int], tuple[bytes, int]]


def read_small(read: _ReadPiece, blobs: Sequence[str], size_max: int, bytes_max: int) -> tuple[SmallFiles, int]:
    """What :meth:`ringrift.blobs.ports.Blobs.read_small` promises; *read* gets a piece of one file."""
    files, size, count = SmallFiles(), 0, 0
    while count < len(blobs) and size <= bytes_max - size_max:
        with suppress(NoRoute, Corrupt):
            data, total = read(blobs[count], 0, size_max)
            if total <= size_max:
                files.append((blobs[count], data))
                size += total
        count += 1
    return files, count
