"""Places of backups: a folder or a bucket that holds blobs under their names, and small notes beside them.

A blob is verified when it is written, a note appears whole or not at all, and nothing is ever overwritten by other
content.  The place is marked with the id of its store: an unmounted drive, or the place of another store, is refused.
"""

import os
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from ringrift.blobs.folder import FolderBlobs
from ringrift.kernel.errors import InputError, NodeAway, UnknownName
from ringrift.kernel.wire_errors import PlaceAway
from ringrift.sync.transports.s3 import SCHEME, Bucket

_PAGE = 5_000
_FOREVER = float("inf")


class Place(Protocol):
    """Where backups lie.  Every verb raises NodeAway while it cannot be reached, and NoRoom if it is full."""

    @property
    def address(self) -> str:
        """The folder or the URL."""

    async def read_owner(self) -> str:
        """The id of the store that it is marked with; empty if it is not marked."""

    async def mark(self, owner: str) -> None:
        """Mark it with the id of a store, unless it is marked so; every verb raises NodeAway when it is not, later."""

    def names(self) -> AsyncIterator[Mapping[str, int]]:
        """The names and sizes of all blobs that are there, some at a time."""

    def read(self, blob: str) -> AsyncIterator[bytes]:
        """The bytes of *blob*.  Raises NoRoute, Corrupt; what it yielded before it raised is not good."""

    async def write(self, blob: str, chunks: AsyncIterator[bytes]) -> int:
        """Store *blob* and return its size.  Raises Corrupt, and stores nothing, if the hash does not match."""

    async def delete(self, blobs: Collection[str]) -> None:
        """Delete *blobs*."""

    async def notes(self, kind: str) -> list[str]:
        """The names of the notes of *kind*, in order."""

    async def read_note(self, kind: str, name: str) -> bytes:
        """A note.  Raises UnknownName."""

    async def write_note(self, kind: str, name: str, body: bytes) -> None:
        """Write a note, durably, whole or not at all."""

    async def delete_note(self, kind: str, name: str) -> None:
        """Delete a note."""


class _FolderPlace:
    """A place in a folder, perhaps of a drive that is mounted at times: without its marker nothing is written."""

    def __init__(self, folder: str | Path) -> None:
        self._root = Path(folder).absolute()
        self.address = str(self._root)
        self._blobs = FolderBlobs(self._root / "blobs")

    async def read_owner(self) -> str:
        return await self._blobs.call(self._blobs.folder.read_marker) or ""

    async def mark(self, owner: str) -> None:
        self._blobs = FolderBlobs(self._root / "blobs", owner)
        await self._blobs.open(is_new=True)

    async def names(self) -> AsyncIterator[Mapping[str, int]]:
        page = await self._blobs.page("", _PAGE)
        while page:
            yield {stored.blob: stored.size for stored in page}
            page = await self._blobs.page(page[-1].blob, _PAGE)

    def read(self, blob: str) -> AsyncIterator[bytes]:
        return self._blobs.read(blob)

    async def write(self, blob: str, chunks: AsyncIterator[bytes]) -> int:
        return await self._blobs.write(blob, chunks)

    async def delete(self, blobs: Collection[str]) -> None:
        await self._blobs.delete(blobs, _FOREVER)

    async def notes(self, kind: str) -> list[str]:
        def list_names() -> list[str]:
            folder = self._root / kind
            with self._blobs.folder.answering():
                return sorted(os.listdir(folder)) if folder.is_dir() else []

        return await self._blobs.call(list_names)

    async def read_note(self, kind: str, name: str) -> bytes:
        path = self._root / kind / _checked(name)
        try:
            return await self._blobs.call(path.read_bytes)
        except FileNotFoundError as absent:
            raise UnknownName(kind, name, await self.notes(kind)) from absent

    async def write_note(self, kind: str, name: str, body: bytes) -> None:
        await self._blobs.call(self._blobs.folder.write_file, self._root / kind / _checked(name), body)

    async def delete_note(self, kind: str, name: str) -> None:
        await self._blobs.call((self._root / kind / _checked(name)).unlink, True)


def _checked(name: str) -> str:
    """*name*, unless it leads elsewhere.  Raises InputError."""
    if not name or name.startswith(".") or os.sep in name or "\0" in name:
        raise InputError(f"{name!r:.80} is not the name of a note")
    return name


def open_place(address: str) -> Place:
    """The place at *address*, a folder or ``s3://bucket/prefix``.  Raises SettingsError, MissingExtra."""
    return Bucket(address) if address.startswith(SCHEME) else _FolderPlace(address)


@contextmanager
def reaching(place: Place) -> Iterator[None]:
    """Raise PlaceAway, which names *place*, if it cannot be reached."""
    try:
        yield
    except NodeAway as away:
        raise PlaceAway(place.address, away.reason) from away


async def require_place(place: Place, owner: str, *, is_known: bool) -> None:
    """Mark *place* for the store *owner* unless it is marked.  Raises PlaceAway for one that was marked and is not now.

    *is_known*: the store has written there before, so that an empty folder is a drive that is not mounted.
    """
    marker = await place.read_owner()
    if marker and marker != owner:
        raise InputError(f"{place.address} has the backups of another store ({marker}): choose another place")
    if not marker and is_known:
        raise PlaceAway(place.address, "it was used before and has no marker now")
    await place.mark(owner)
