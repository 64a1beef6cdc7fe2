"""Quarantine of files: bytes that did not have the hash in their name lie in ``bad/`` until a person looks at them."""

import os
from contextlib import suppress

from ringrift.blobs.file_writer import Incoming
from ringrift.blobs.folder import Folder
from ringrift.blobs.ports import CHUNK, StoredBlob
from ringrift.kernel.errors import NoRoute
from ringrift.kernel.ids import check_blob, is_blob

_FOLDER = "bad"


def list_quarantined(folder: Folder) -> list[StoredBlob]:
    """The files that were set aside, by name; *time* is when their bytes were written.  Raises NodeAway."""
    rows = list[StoredBlob]()
    with folder.answering(), suppress(FileNotFoundError):
        for row in os.scandir(folder.root / _FOLDER):
            if is_blob(row.name):
                status = row.stat(follow_symlinks=False)
                rows.append(StoredBlob(blob=row.name, size=status.st_size, time=status.st_mtime))
    return sorted(rows, key=lambda row: row.blob)


def release(folder: Folder, blob: str) -> int:
    """Put *blob* back into service, durably, if its bytes are right by now; its size.

    A failing cable or memory may have made good bytes look wrong.  Raises Corrupt if they are wrong still, and NoRoute
    if it is not in quarantine; then nothing changes.
    """
    path = folder.root / _FOLDER / check_blob(blob)
    with folder.answering():
        try:
            # Copied, not renamed: what is in service was always flushed, read back and hashed.
            with path.open("rb") as file, Incoming(folder, blob) as part:
                while chunk := file.read(CHUNK):
                    part.write(chunk)
                part.commit()
        except FileNotFoundError as absent:
            raise NoRoute(blob, [str(path)]) from absent
        path.unlink()
    return part.size
