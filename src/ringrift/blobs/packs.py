"""Packs: many small blobs in one file, each still known by its name and read at its offset.

A pack in ``packs/`` is never changed, and named by the SHA-256 of its index::

    magic | entry, data | entry, data | … | index: salt, the same entries, sorted | where the index begins, magic

What is deleted from it is listed beside, in ``<pack>.<generation>.gone``; the highest generation counts.  So the names
in the folder say everything, and a process that lists them knows what the others have done.  If the index is damaged,
the entries before the data stand in for it.  No byte is returned that was not compared with the hash in its name.
"""

import hashlib
import heapq
import os
import struct
import sys
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ringrift.blobs.file_writer import Incoming, flush_folder
from ringrift.blobs.locks import locked, opened
from ringrift.blobs.ports import CHUNK
from ringrift.kernel.errors import Busy, Corrupt
from ringrift.kernel.failpoint import failpoint

if TYPE_CHECKING:
    from ringrift.blobs.folder import Folder

PACK_MEMBERS_MAX = 16_384  #: Blobs in one pack.
_MAGIC = b"ringrift pack 1\n"
_ENTRY = struct.Struct(">32sQQd")  # SHA-256, where its data begins, how many bytes, when it was stored
_TRAILER = struct.Struct(">Q16s")
_SALT_BYTES = 8
_PACKS, _PACK, _GONE = "packs", ".pack", ".gone"
_TRIES = 100  # to list packs that others replace meanwhile
_SPARSE_SHARE = 0.5  # a pack of which less is left is written anew


class Place(NamedTuple):
    """Where the bytes of a blob are."""

    path: Path
    offset: int
    size: int
    time: float  #: When it was stored.

    def chunks(self, descriptor: int) -> Iterator[bytes]:
        """Its bytes, from the open file."""
        at = 0
        while at < self.size and (chunk := os.pread(descriptor, min(CHUNK, self.size - at), self.offset + at)):
            yield chunk
            at += len(chunk)

    def digest(self, descriptor: int) -> str:
        """The SHA-256 of its bytes, from the open file; a file of its own is read to its end, whatever its size was."""
        content = hashlib.sha256()
        for chunk in (self if self.offset else self._replace(size=sys.maxsize)).chunks(descriptor):
            content.update(chunk)
        return content.hexdigest()


def is_intact(blob: str, place: Place) -> bool:
    """Whether the bytes there are those of *blob*.  Raises FileNotFoundError."""
    with opened(place.path, os.O_RDONLY) as descriptor:
        return place.digest(descriptor) == blob


class Pack:
    """The index of one pack, and what is gone from it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.generation, self.gone = 0, frozenset[bytes]()
        with opened(path, os.O_RDONLY) as descriptor:
            size = os.fstat(descriptor).st_size
            index = _read_index(descriptor, size)
            self.is_damaged = hashlib.sha256(index).hexdigest() != path.stem
            self._index = b"".join(sorted(_scan_entries(descriptor, size))) if self.is_damaged else index[_SALT_BYTES:]
        self._count = len(self._index) // _ENTRY.size

    def _name_at(self, number: int) -> str:
        return self._index[number * _ENTRY.size : number * _ENTRY.size + 32].hex()

    def find(self, blob: str) -> Place | None:
        """Where *blob* is in it; None if it is not, or is gone."""
        name, place = next(self.walk(blob), ("", None))
        return place if name == blob else None

    def _range(self, first: str, end: str) -> range:
        """The numbers of the entries from *first* on and before *end*; empty: up to the last."""
        numbers = range(self._count)
        start = bisect_left(numbers, first, key=self._name_at)
        return range(start, bisect_left(numbers, end, start, key=self._name_at) if end else self._count)

    def walk(self, first: str, end: str = "") -> Iterator[tuple[str, Place]]:
        """The blobs in it from *first* on and before *end*, in order."""
        for number in self._range(first, end):
            digest, offset, size, time = _ENTRY.unpack_from(self._index, number * _ENTRY.size)
            if digest not in self.gone:
                yield digest.hex(), Place(self.path, offset, size, time)

    def names(self, first: str, end: str) -> set[str]:
        """The names of the same, without a look at where they are."""
        return set(map(self._name_at, self._range(first, end))).difference(digest.hex() for digest in self.gone)

    @property
    def is_sparse(self) -> bool:
        """Whether it should be written anew: little is left of it, or its index is damaged."""
        if not self.gone:
            return self.is_damaged
        live = sum(place.size for _, place in self.walk(""))
        return self.is_damaged or live < _SPARSE_SHARE * self.path.stat().st_size


def _read_index(descriptor: int, size: int) -> bytes:
    """What should be the index; empty if the file has no end of a pack."""
    trailer = os.pread(descriptor, _TRAILER.size, max(size - _TRAILER.size, 0))
    if not trailer.endswith(_MAGIC) or len(trailer) < _TRAILER.size:
        return b""
    start, _ = _TRAILER.unpack(trailer)
    return os.pread(descriptor, size - _TRAILER.size - start, start) if start + _TRAILER.size <= size else b""


def _scan_entries(descriptor: int, size: int) -> Iterator[bytes]:
    """The entries before the data, up to the first that cannot be one."""
    at = len(_MAGIC)
    while len(entry := os.pread(descriptor, _ENTRY.size, at)) == _ENTRY.size:
        _, offset, length, _ = _ENTRY.unpack(entry)
        if offset != at + _ENTRY.size or offset + length > size:
            return
        yield entry
        at = offset + length


class PackPart(Incoming):
    """A pack that is being written: :meth:`add` its blobs, then :meth:`finish` it."""

    def __init__(self, folder: "Folder") -> None:
        super().__init__(folder, "0" * 64, folder.root / _PACKS / "unnamed")
        self._entries: dict[str, bytes] = {}

    def add(self, blob: str, data: bytes, time: float | None = None) -> None:
        """Add *blob*, stored at *time*, or now by the clock of its disk; a second one of that name is left out.

        Raises Corrupt, NoRoom.
        """
        if hashlib.sha256(data).hexdigest() != blob:
            raise Corrupt(blob, "a pack")
        if blob not in self._entries:
            offset = (self.size or len(_MAGIC)) + _ENTRY.size
            time = os.fstat(self._descriptor).st_mtime if time is None else time
            self._entries[blob] = entry = _ENTRY.pack(bytes.fromhex(blob), offset, len(data), time)
            self.write((b"" if self.size else _MAGIC) + entry + data)

    def finish(self) -> list[str]:
        """Write the index and give the pack its name; the names of its blobs: without any there is no pack."""
        if not self._entries:
            return []
        entries, start = b"".join(sorted(self._entries.values())), self.size
        names, salt = {name.partition(".")[0] for name in os.listdir(self._target.parent)}, 0
        # The same blobs may have been packed before: what is gone from that pack must not be gone from this one.
        while self._blob in names or not salt:
            index, salt = salt.to_bytes(_SALT_BYTES, "big") + entries, salt + 1
            self._blob = hashlib.sha256(index).hexdigest()
        self.write(index + _TRAILER.pack(start, _MAGIC))
        self._target = self._target.with_name(f"{self._blob}{_PACK}")
        self.commit()
        return list(self._entries)

    def _is_whole(self) -> bool:
        """Whether every blob in it is what its name says, read back from the disk."""
        places = {blob: _ENTRY.unpack(entry) for blob, entry in self._entries.items()}
        with opened(self._part, os.O_RDONLY) as descriptor:
            return all(Place(self._part, *row[1:]).digest(descriptor) == blob for blob, row in places.items())


class Packs:
    """The packs of a folder."""

    def __init__(self, folder: "Folder") -> None:
        self._folder, self.root = folder, folder.root / _PACKS
        self.names, self._packs = frozenset[str](), dict[str, Pack]()

    def locked(self, kind: int) -> AbstractContextManager[None]:
        """Lock them: one process at a time changes what is in them.  Raises FileNotFoundError without any pack."""
        return locked(self.root / ".lock", kind, os.O_CREAT)

    def load(self) -> Collection[Pack]:
        """The packs as they are now; only what is new is read.  Raises Busy if they never hold still."""
        for _ in range(_TRIES):
            try:
                names = frozenset(os.listdir(self.root))
            except (FileNotFoundError, NotADirectoryError):
                names = frozenset()
            if names != self.names:
                try:
                    self._packs = self._read(names)
                except FileNotFoundError:
                    continue  # replaced since it was listed
                self.names = names
            return self._packs.values()
        raise Busy(str(self.root), "packs in it change all the time")

    def _read(self, names: Collection[str]) -> dict[str, Pack]:
        stems = [name.removesuffix(_PACK) for name in names if name.endswith(_PACK)]
        packs = {stem: self._packs.get(stem) or Pack(self.root / f"{stem}{_PACK}") for stem in stems}
        for name in (name for name in names if name.endswith(_GONE)):
            stem, generation, _ = name.split(".")
            pack = packs.get(stem)
            if pack is not None and int(generation) > pack.generation:
                data = (self.root / name).read_bytes()
                pack.gone = frozenset(data[start : start + 32] for start in range(0, len(data), 32))
                pack.generation = int(generation)
        return packs

    def find(self, blob: str) -> Place | None:
        """Where *blob* was stored last; None if it is in no pack."""
        places = [place for pack in self.load() if (place := pack.find(blob))]
        return max(places, key=lambda place: place.time, default=None)

    def walk(self, first: str = "", end: str = "") -> Iterator[tuple[str, Place]]:
        """Their blobs from *first* on and before *end*, in order, each once."""
        last = ""
        packs = [pack.walk(first, end) for pack in self.load()]
        for name, place in heapq.merge(*packs, key=lambda row: (row[0], -row[1].time)):  # what was stored last first
            if name != last:
                yield name, place
            last = name

    def names_between(self, first: str, end: str) -> set[str]:
        """The names of the same."""
        return set[str]().union(*(pack.names(first, end) for pack in self.load()))

    def drop(self, blobs: Iterable[str], before: float) -> list[str]:
        """Delete *blobs* from every pack, under the lock; those that stay were stored at *before* or later."""
        rows = [(pack, blob, place) for pack in self.load() for blob in blobs if (place := pack.find(blob))]
        stay = {blob for _, blob, place in rows if place.time >= before}
        for pack in {id(pack): pack for pack, blob, _ in rows if blob not in stay}.values():
            self._add_gone(pack, {bytes.fromhex(blob) for of, blob, _ in rows if of is pack and blob not in stay})
        return sorted(stay)

    def _add_gone(self, pack: Pack, digests: Collection[bytes]) -> None:
        data = b"".join(sorted(pack.gone.union(digests)))
        target = self.root / f"{pack.path.stem}.{pack.generation + 1}{_GONE}"
        self._folder.write_file(target, data)
        target.with_name(f"{pack.path.stem}.{pack.generation}{_GONE}").unlink(missing_ok=True)

    def find_sparse(self, bytes_max: int) -> list[Pack]:
        """Packs that should be written anew, of which at most *bytes_max* are left together."""
        sparse, left = list[Pack](), bytes_max
        for pack in [pack for pack in self.load() if pack.is_sparse]:
            left -= sum(place.size for _, place in pack.walk(""))
            sparse += [pack] if left >= 0 else []
        return sparse

    def replace(self, packs: Iterable[Pack]) -> None:
        """Delete *packs*, whose blobs are in another one by now; under the lock."""
        failpoint("packs.before_replace")
        stems = {pack.path.stem for pack in packs}
        for name in sorted(self.names, reverse=True):  # the pack before what is gone from it, which would be back
            if (stem := name.partition(".")[0]) in stems or (name.endswith(_GONE) and stem not in self._packs):
                (self.root / name).unlink(missing_ok=True)
        flush_folder(self.root)
        self.names, self._packs = frozenset(), {}
