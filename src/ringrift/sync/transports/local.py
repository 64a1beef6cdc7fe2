"""Copies between blob folders of one machine: the blocks are shared where the file system can, else copied."""

import errno
import fcntl
import os
from functools import lru_cache
from pathlib import Path
from threading import Event
from weakref import finalize

from ringrift.blobs.folder import Folder
from ringrift.blobs.locks import opened
from ringrift.kernel.errors import Corrupt, NoRoom
from ringrift.kernel.wire_errors import LinkBroken
from ringrift.sync.transports.ports import Endpoint, OnBytes
from ringrift.threads import Threads

_FICLONE = 0x40049409  # from linux/fs.h
_STEP_BYTES = 4 * 1024 * 1024
_THREADS_MAX = 4  # so many disks may hang
_FOLDERS_MAX = 256  # that are remembered
# Another file system, or one that shares no blocks.
_CANNOT_CLONE = {errno.EXDEV, errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS, errno.EPERM}


class LocalTransport:
    """:class:`ringrift.sync.transports.ports.FileTransport` for a folder of another node on this machine."""

    name = "local"

    def __init__(self) -> None:
        self._threads = Threads(_THREADS_MAX, "copies")
        finalize(self, self._threads.close)

    async def append(self, endpoint: Endpoint, blob: str, part: Path, on_bytes: OnBytes) -> None:
        """Complete *part*.  Cancelled while a disk hangs, it returns, and what is read later is not written."""
        folder, is_over = _open_folder(endpoint.folder, endpoint.node), Event()
        try:
            while size := await self._threads.run(_copy_step, folder, blob, part, is_over):
                on_bytes(size)
        except OSError as error:  # of the part: what concerns the folder has a type
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise NoRoom(str(part.parent)) from error
            raise LinkBroken(endpoint.node, self.name, f"{part.name}: {error.strerror}") from error
        finally:
            is_over.set()

    async def is_good(self, endpoint: Endpoint, blob: str) -> bool:
        """Whether the copy there matches its name; if not it is set aside.  Raises NoRoute."""
        try:
            await self._threads.run(_open_folder(endpoint.folder, endpoint.node).open, blob)
        except Corrupt:
            return False
        return True


@lru_cache(_FOLDERS_MAX)
def _open_folder(root: str, node: str) -> Folder:
    return Folder(root, node)  # which remembers what is in its packs


def _copy_step(folder: Folder, blob: str, part: Path, is_over: Event) -> int:
    """Add some bytes to *part*, or all if blocks can be shared; how many.  Raises NoRoute, NodeAway, OSError."""
    with opened(part, os.O_WRONLY) as target:
        offset = os.fstat(target).st_size
        with folder.answering():
            place = folder.locate(blob)
            with opened(place.path, os.O_RDONLY) as source:
                if offset == 0 and place.offset == 0 and _clone(source, target):
                    return place.size
                data = os.pread(source, min(_STEP_BYTES, max(place.size - offset, 0)), place.offset + offset)
        written = 0
        while written < len(data) and not is_over.is_set():
            written += os.pwrite(target, data[written:], offset + written)
        return written


def _clone(source: int, target: int) -> bool:
    """Whether *target* shares the blocks of *source* now."""
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as error:
        if error.errno not in _CANNOT_CLONE:
            raise
        return False
    return True
