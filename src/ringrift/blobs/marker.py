"""The marker of a blob folder: the file ``node``, with the id of the node whose disk this is."""

import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from ringrift.blobs.file_writer import flush_folder, typed
from ringrift.blobs.locks import opened
from ringrift.kernel.errors import NodeAway
from ringrift.kernel.folders import make_folder

if TYPE_CHECKING:
    from ringrift.blobs.folder import Folder

_NAME, _BYTES_MAX = "node", 1024


def _path(folder: "Folder") -> Path:
    return folder.root / _NAME


def read_marker(folder: "Folder") -> str | None:
    """The id of the node that *folder* belongs to; None without a marker.  Raises NodeAway."""
    try:
        # Plain calls of the system: it is read twice for each verb.
        with typed(folder), opened(_path(folder), os.O_RDONLY) as descriptor:
            return os.read(descriptor, _BYTES_MAX).decode().strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise NodeAway(folder.node, f"{folder.root}: {error}") from error


def write_marker(folder: "Folder") -> None:
    """Write the marker of *folder*, durably.  Raises NoRoom."""
    beside = folder.root / f".{_NAME}.{os.getpid()}"
    with typed(folder):
        make_folder(folder.root)
        with opened(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as descriptor:
            os.write(descriptor, f"{folder.node}\n".encode())
            os.fsync(descriptor)
        os.replace(beside, _path(folder))
        for path in (folder.root, folder.root.parent):
            flush_folder(path)


def claim_folder(folder: "Folder", is_new: bool, listed: Collection[str]) -> None:
    """Mark *folder* if it *is_new* to its node and has no marker, unless none of what is *listed* is in it.

    Raises NodeAway if it has no marker then, or that of another node.
    """
    with typed(folder):
        is_unmarked = is_new and folder.read_marker() is None
        if is_unmarked and (not listed or type(folder)(folder.root).have(listed)):
            folder.mark()
        folder.check()
