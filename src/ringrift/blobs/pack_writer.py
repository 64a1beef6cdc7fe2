"""Fills packs: with small files that lie in the folder already, or with blobs as they arrive from another node.

A file of its own goes only after the pack that has its bytes is on the disk, was read back and has its name; a crash
at any step leaves the blob in the one, in the other or in both.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ringrift.blobs.file_writer import flush_folder
from ringrift.blobs.locks import ALONE_OR_FAIL, opened
from ringrift.blobs.packs import PACK_MEMBERS_MAX, PackPart, is_intact
from ringrift.kernel.errors import Corrupt
from ringrift.kernel.failpoint import failpoint
from ringrift.kernel.ids import check_blob

if TYPE_CHECKING:
    from ringrift.blobs.folder import Folder
    from ringrift.blobs.packs import Pack

_BATCH_BYTES = 32 * 1024 * 1024  # of what arrives: so much is in memory, then it becomes a pack


def consolidate(folder: "Folder", blobs: Sequence[str], before: float, bytes_max: int) -> int:
    """Move *blobs* into a pack of at most *bytes_max*, with what is left of sparse packs; how many files went.

    Those that were stored or opened at *before* or later stay: whoever opened one may still have its path.
    """
    with folder.answering():
        if not folder.packs.root.is_dir():
            folder.packs.root.mkdir(mode=0o700, exist_ok=True)
            flush_folder(folder.root)
        with suppress(BlockingIOError), folder.packs.locked(ALONE_OR_FAIL):
            return _consolidate(folder, blobs, before, bytes_max)
    return 0


def _consolidate(folder: "Folder", blobs: Sequence[str], before: float, bytes_max: int) -> int:
    packed = list[str]()
    with PackPart(folder) as part:
        for blob in blobs[:PACK_MEMBERS_MAX]:
            if part.size < bytes_max and _is_resting(folder, blob, before) and _copy_file(folder, blob, part):
                packed.append(blob)
        sparse = folder.packs.find_sparse(bytes_max - part.size)
        others = [pack for pack in folder.packs.load() if pack not in sparse]
        sparse = [pack for pack in sparse if _copy_pack(pack, part, others)]
        part.finish()
    failpoint("packs.before_unlink")
    gone = sum(_unlink_file(folder, blob, before) for blob in packed)
    folder.packs.replace(sparse)
    return gone


def _is_resting(folder: "Folder", blob: str, before: float) -> bool:
    """Whether the file of *blob* is there, and was neither stored nor opened lately."""
    with suppress(FileNotFoundError):
        status = folder.path(blob).stat()
        return max(status.st_mtime, status.st_ctime) < before
    return False


def _copy_file(folder: "Folder", blob: str, part: PackPart) -> bool:
    """Add the file of *blob* to *part*, unless a pack has it; whether it is in one.  A damaged file is left alone."""
    with suppress(FileNotFoundError, Corrupt), opened(folder.path(blob), os.O_RDONLY) as descriptor:
        time = os.fstat(descriptor).st_mtime
        place = folder.packs.find(blob)
        if place is not None and place.time >= time and is_intact(blob, place):
            return True
        with open(descriptor, "rb", closefd=False) as file:
            part.add(blob, file.read(), time)
        return True
    return False


def _copy_pack(pack: "Pack", part: PackPart, others: Sequence["Pack"]) -> bool:
    """Add what is left of *pack*, and is not in *others*, to *part*; whether all of it is in one of them.

    A pack with damaged bytes stays, until these were set aside.
    """
    rows = dict(pack.walk(""))
    if not all(is_intact(blob, place) for blob, place in rows.items()):
        return False
    with opened(pack.path, os.O_RDONLY) as descriptor:
        for blob, place in rows.items():
            copies = [copy for other in others if (copy := other.find(blob)) and copy.time >= place.time]
            if not any(is_intact(blob, copy) for copy in copies):
                part.add(blob, b"".join(place.chunks(descriptor)), place.time)
    return True


def _unlink_file(folder: "Folder", blob: str, before: float) -> bool:
    """Delete the file of *blob*, which is in a pack now, unless it was stored or opened again meanwhile."""
    with suppress(BlockingIOError), folder.locked(ALONE_OR_FAIL):
        if _is_resting(folder, blob, before):
            folder.path(blob).unlink()
            return True
    return False


async def write_arrivals(
    folder: "Folder", blobs: AsyncIterator[tuple[str, bytes]], call: Callable[..., Awaitable[list[str]]]
) -> list[str]:
    """Store *blobs* in packs as they arrive, durably, but for those whose bytes have another hash; the names.

    *call* runs what blocks in a thread.  Raises NoRoom.
    """
    names, batch, size = list[str](), dict[str, bytes](), 0
    async for blob, data in blobs:
        batch[check_blob(blob)] = data
        size += len(data)
        if size >= _BATCH_BYTES or len(batch) >= PACK_MEMBERS_MAX:
            names += await call(_write_pack, folder, batch)
            batch, size = {}, 0
    return [*names, *await call(_write_pack, folder, batch)]


def _write_pack(folder: "Folder", batch: Mapping[str, bytes]) -> list[str]:
    with PackPart(folder) as part:
        for blob, data in batch.items():
            with suppress(Corrupt):
                part.add(blob, data)
        return part.finish()
