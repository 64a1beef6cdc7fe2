"""An index of a folder of blobs in memory, so that to ask for many of them, or whether any changed, reads no file.

The names on a shelf change only with the time of its folder.  A list is relied upon if that time was already in the
past when the list was made, by the clock of the file system itself: a change within the same tick would not be seen.
"""

import heapq
import os
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ringrift.blobs.packs import Packs
from ringrift.blobs.ports import BlobSummary, StoredBlob
from ringrift.kernel.ids import check_blob

_SHELVES = tuple(f"{number:02x}" for number in range(256))
_FEW = 64  # for so many blobs it is cheaper to look at each than to list their shelves
_UNSETTLED = -1
_MODULUS = 1 << 256


class _Shelf(NamedTuple):
    """The files of one shelf, as of the time of its folder."""

    time_ns: int
    names: list[str]
    sizes: dict[str, int]


_EMPTY = _Shelf(_UNSETTLED, [], {})


class Index:
    """What lies in the folder *root* and in its *packs*."""

    def __init__(self, root: Path, packs: Packs) -> None:
        self._root, self._packs = root, packs
        self._shelves: dict[str, _Shelf] = {}
        self._buckets: dict[str, tuple[_Shelf, frozenset[str], BlobSummary]] = {}

    def _shelf(self, name: str) -> _Shelf:
        """The files of the shelf *name*; listed only if they may have changed, and then only new ones are measured."""
        folder, old = f"{self._root}/{name}", self._shelves.get(name, _EMPTY)
        try:
            if os.stat(folder).st_mtime_ns == old.time_ns:
                return old
            before_ns = self._tick_ns()
            time_ns = os.stat(folder).st_mtime_ns
            rows = [row for row in os.scandir(folder) if len(row.name) == 64]
        except FileNotFoundError:
            return _EMPTY
        sizes = dict[str, int]()
        for row in rows:
            with suppress(FileNotFoundError):  # it was deleted meanwhile
                size = old.sizes.get(row.name)
                sizes[row.name] = row.stat(follow_symlinks=False).st_size if size is None else size
        shelf = _Shelf(time_ns if time_ns < before_ns else _UNSETTLED, sorted(sizes), sizes)
        self._shelves[name] = shelf
        return shelf

    def _tick_ns(self) -> int:
        """The time by the clock of the file system; 0 where nothing can be written."""
        with suppress(OSError):
            os.utime(self._root)
            return os.stat(self._root).st_mtime_ns
        return 0

    def have(self, blobs: Collection[str]) -> frozenset[str]:
        """Those of *blobs* that are here."""
        here = set[str]()
        if len(blobs) > _FEW:
            shelves = {check_blob(blob)[:2] for blob in blobs}
            here.update(*(self._shelf(name).sizes for name in shelves))
            here = (here | self._packed(shelves)).intersection(blobs)
        here.update(blob for blob in blobs if blob not in here and self._is_file(blob))
        # Once more after the files: a blob is in its pack before its own file goes.
        absent = {blob for blob in blobs if blob not in here}
        if len(absent) > _FEW:
            return frozenset(here | (absent & self._packed({blob[:2] for blob in absent})))
        return frozenset(here.union(blob for blob in absent if self._packs.find(blob)))

    def _packed(self, shelves: Collection[str]) -> set[str]:
        return set[str]().union(*(self._packs.names_between(name, _end(name)) for name in shelves))

    def _is_file(self, blob: str) -> bool:
        return os.path.exists(f"{self._root}/{check_blob(blob)[:2]}/{blob}")

    def walk(self, after: str) -> Iterator[StoredBlob]:
        """The blobs after *after*, in order.  Shelves before it are not read, nor those that nobody asks for."""
        last = after
        for row in heapq.merge(self._walk_files(after), self._walk_packs(after), key=lambda row: row.blob):
            if row.blob > last:  # of a blob that is in both, the file comes first
                yield row
                last = row.blob

    def _walk_packs(self, after: str) -> Iterator[StoredBlob]:
        for name, place in self._packs.walk(after):
            yield StoredBlob(blob=name, size=place.size, time=place.time, is_packed=True)

    def _walk_files(self, after: str) -> Iterator[StoredBlob]:
        shelves = sorted(os.listdir(self._root)) if self._root.is_dir() else []
        for shelf in (name for name in shelves if len(name) == 2 and name >= after[:2]):
            names = self._shelf(shelf).names
            for name in names[bisect_right(names, after) :]:
                with suppress(FileNotFoundError):  # it was deleted meanwhile
                    status = os.stat(f"{self._root}/{shelf}/{name}", follow_symlinks=False)
                    yield StoredBlob(blob=name, size=status.st_size, time=status.st_mtime)

    def summarize(self) -> list[BlobSummary]:
        """How many blobs there are, of how many bytes, for each first byte of their names."""
        self._packs.load()
        return [self._summarize(name) for name in _SHELVES]

    def _summarize(self, name: str) -> BlobSummary:
        shelf, packs, summary = self._buckets.get(name, (_EMPTY, None, BlobSummary()))
        current = self._shelf(name)
        if current is shelf and packs == self._packs.names:
            return summary
        sizes = {blob: place.size for blob, place in self._packs.walk(name, _end(name))} | current.sizes
        summary = summarize(sizes)
        self._buckets[name] = (current, self._packs.names, summary)
        return summary


def _end(shelf: str) -> str:
    """What comes behind all names of *shelf*; empty for the last one."""
    return f"{int(shelf, 16) + 1:02x}" if shelf < _SHELVES[-1] else ""


def summarize(sizes: Mapping[str, int]) -> BlobSummary:
    """The summary of blobs with these sizes."""
    total = sum(int(blob, 16) for blob in sizes) % _MODULUS
    return BlobSummary(count=len(sizes), bytes=sum(sizes.values()), digest=f"{total:064x}")


def add_summaries(parts: Collection[BlobSummary]) -> BlobSummary:
    """The summary of all *parts*, which have no blob in common."""
    total = sum(int(part.digest, 16) for part in parts) % _MODULUS
    count, size = sum(part.count for part in parts), sum(part.bytes for part in parts)
    return BlobSummary(count=count, bytes=size, digest=f"{total:064x}")
