"""A folder whose blobs are all in packs: everything is consolidated as soon as it is stored."""

import hashlib
import math
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from ringrift.blobs.folder import Folder, FolderBlobs

PACK_BYTES = 1 << 26


def pack_all(folder: FolderBlobs | Folder) -> int:
    """Bring every file of its own into a pack; how many that were."""
    from ringrift.blobs.pack_writer import consolidate

    folder = folder.folder if isinstance(folder, FolderBlobs) else folder
    loose = sorted(path.name for path in folder.root.glob("??/*") if len(path.name) == 64)
    return consolidate(folder, loose, math.inf, PACK_BYTES)


class PackedBlobs(FolderBlobs):
    """:class:`FolderBlobs` that packs what it stores."""

    async def put(self, datas: Sequence[bytes]) -> Sequence[str]:
        names = await super().put(datas)
        pack_all(self)
        return names

    async def write(self, blob: str, chunks: AsyncIterator[bytes]) -> int:
        size = await super().write(blob, chunks)
        pack_all(self)
        return size


def damage_packed(folder: Folder, blob: str, data: bytes) -> None:
    """Replace the bytes of *blob* in its pack by *data*, filled up to the same size."""
    place = folder.locate(blob)
    assert place.offset, "it is in no pack"
    with place.path.open("r+b") as file:
        file.seek(place.offset)
        file.write(data.ljust(place.size, b"\0")[: place.size])


def fill(folder: Folder, count: int) -> list[str]:
    """Store *count* small blobs, long ago; their names in order."""
    names = sorted(folder.put(f"game {number}".encode() * 9) for number in range(count))
    for name in names:
        os.utime(folder.path(name), (1000.0, 1000.0))
    return names


def files(folder: Folder) -> list[str]:
    """The files of their own that blobs have."""
    return sorted(path.name for path in folder.root.glob("??/*"))


def packs(folder: Folder) -> list[Path]:
    """The packs."""
    return sorted(folder.root.glob("packs/*.pack"))


def content(folder: Folder, blob: str) -> bytes:
    """The verified bytes of *blob*."""
    descriptor, place = folder.open_file(blob)
    try:
        return b"".join(place.chunks(descriptor))
    finally:
        os.close(descriptor)


def is_sound(folder: Folder, names: list[str]) -> bool:
    """Whether each of *names* can be read and has the bytes that its name says."""
    return [hashlib.sha256(content(folder, name)).hexdigest() for name in names] == names
