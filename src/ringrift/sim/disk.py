"""Disk: a lossy disk below SQLite, in memory, that forgets on a power cut what was never synced.

        reads see        content   ◀── xWrite, xTruncate ──▶   pending
                                                                  │ xSync
        survives a cut   durable   ◀──────────────────────────────┘

A connection from before a cut only meets dead files.  In WAL mode it can be closed or dropped without a word; in the
other modes ``connection.close(True)`` may raise apsw.Error, to be suppressed.
WAL needs ``PRAGMA locking_mode=EXCLUSIVE`` first: there is no shared memory here.
"""

from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias, cast

import apsw

_SECTOR_BYTES, _TEAR_BYTES = 4096, 512
_NOW_DAYS = 2440587.5 + 1_700_000_000 / 86400  # from the Julian day of the epoch on

_Change: TypeAlias = tuple[int, bytes | None]  #: Bytes written at an offset; None cuts the file to that length.


@dataclass(eq=False, slots=True)
class _Image:
    """One file: what reads see, what would survive, and the changes in between."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[_Change] = field(default_factory=list)
    locks: dict["_OpenFile", int] = field(default_factory=dict)

    def change(self, change: _Change) -> None:
        """Change the content; it will be durable after the next sync."""
        _apply(self.content, change)
        self.pending.append(change)

    def settle(self, changes: list[_Change]) -> None:
        """Make *changes* durable and forget the other pending ones, though reads may still see them."""
        for change in changes:
            _apply(self.durable, change)
        self.pending.clear()


class _OpenFile:
    """A file as one connection holds it, dead after the next cut or kill; SQLite calls its methods by name."""

    def __init__(self, disk: "Disk", image: _Image) -> None:
        self._disk, self._era, self._image = disk, disk.era, image

    def xRead(self, amount: int, offset: int) -> bytes:
        """The bytes that are there; fewer than *amount* at the end of the file."""
        return bytes(self._alive().content[offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:
        image = self._alive()
        self._disk.check_room(offset + len(data) - len(image.content))
        self._disk.writes += 1
        image.change((offset, data))

    def xTruncate(self, size: int) -> None:
        self._alive().change((size, None))

    def xSync(self, flags: int) -> None:
        """Make every change so far durable, unless this sync is to fail."""
        image = self._alive()
        self._disk.syncs += 1
        if self._disk.fail_sync > 0:
            self._disk.fail_sync -= 1
            if self._disk.fail_sync == 0:
                # As on Linux: the pages count as clean now, so a second fsync would succeed and save nothing.
                image.settle([])
                raise apsw.IOError("the disk failed to sync")
        image.settle(image.pending)

    def xFileSize(self) -> int:
        return len(self._alive().content)

    def xLock(self, level: int) -> None:
        """Raise the lock to *level*; BusyError while another connection is in the way."""
        locks = self._image.locks
        # A dead connection gets "busy", and so ends without the last checkpoint that would delete the log by name.
        if self._era != self._disk.era:
            raise apsw.BusyError("the file died with its process")
        others = max((lock for file, lock in locks.items() if file is not self), default=apsw.SQLITE_LOCK_NONE)
        if others >= _REFUSED_FROM[level]:
            raise apsw.BusyError("another connection holds the file")
        locks[self] = max(level, locks.get(self, apsw.SQLITE_LOCK_NONE))

    def xUnlock(self, level: int) -> None:
        """Lower the lock to *level*; the dead hold none."""
        if self._era == self._disk.era:
            self._image.locks[self] = level

    def xCheckReservedLock(self) -> bool:
        """Whether some connection is about to write."""
        return any(lock >= apsw.SQLITE_LOCK_RESERVED for lock in self._alive().locks.values())

    def xClose(self) -> None:
        """Let the file go; this never fails, so that the dead can be dropped."""
        self._image.locks.pop(self, None)

    def xFileControl(self, operation: int, pointer: int) -> bool:
        return False

    def xSectorSize(self) -> int:
        return _SECTOR_BYTES

    def xDeviceCharacteristics(self) -> int:
        """Promise nothing: writes may be torn and reordered between files."""
        return 0

    def _alive(self) -> _Image:
        if self._era != self._disk.era:
            raise apsw.IOError("the file died with its process")
        return self._image


# The least lock of another connection that stands in the way of each level.
_REFUSED_FROM = {
    apsw.SQLITE_LOCK_SHARED: apsw.SQLITE_LOCK_PENDING,
    apsw.SQLITE_LOCK_RESERVED: apsw.SQLITE_LOCK_RESERVED,
    apsw.SQLITE_LOCK_EXCLUSIVE: apsw.SQLITE_LOCK_SHARED,
}


class Disk(apsw.VFS):
    """The disk of one machine: pass its *name* as the ``vfs`` of a connection.

    Files come and go durably at once; their bytes are durable after a sync.  Faults are set on *room*, the bytes that
    all files together may take, and *fail_sync*, which makes the n-th sync from now fail.
    """

    def __init__(self, name: str, rng: Random) -> None:
        super().__init__(name, base="")
        self.name, self._rng = name, rng
        self.room: int | None = None
        self.fail_sync = self.writes = self.syncs = self.era = 0
        # SQLite asks for noise once per process, so it must not move the draws of one simulation and not another.
        self._noise = Random(rng.getrandbits(64))
        self._images: dict[str, _Image] = {}

    def cut(self) -> None:
        """Cut the power: open files die, and of the unsynced changes of each file only a seeded beginning survives."""
        self.kill()
        for image in self._images.values():
            survivors = image.pending[: self._rng.randint(0, len(image.pending))]
            if survivors and self._rng.random() < 0.5:
                offset, data = survivors.pop()  # a torn write
                survivors.append((offset, data and data[: self._rng.randrange(0, len(data), _TEAR_BYTES)]))
            image.settle(survivors)
            image.content = bytearray(image.durable)

    def kill(self) -> None:
        """End the processes, not the machine: open files die and their locks go, but every write is still there."""
        self.era += 1
        for image in self._images.values():
            image.locks.clear()

    def check_room(self, growth: int) -> None:
        """Raise FullError if the files may not grow by *growth* bytes."""
        if self.room is None or growth <= 0:
            return
        if growth + sum(len(image.content) for image in self._images.values()) > self.room:
            raise apsw.FullError("the disk is full")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        """Open or create a file; without a name, a temporary one."""
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        flags[1] = flags[0]
        if path is None:
            image = _Image()
        elif path in self._images:
            image = self._images[path]
        elif flags[0] & apsw.SQLITE_OPEN_CREATE:
            image = self._images[path] = _Image()
        else:
            raise apsw.CantOpenError(f"there is no file {path}")
        # apsw wants these methods, not this class.
        return cast("apsw.VFSFile", _OpenFile(self, image))

    def xDelete(self, filename: str, syncdir: bool) -> None:
        if self._images.pop(filename, None) is None:
            raise apsw.exception_for(apsw.SQLITE_IOERR_DELETE_NOENT)

    def xAccess(self, pathname: str, flags: int) -> bool:
        # An empty file counts as missing, as in SQLite's own layer for Unix.
        return pathname in self._images and bool(self._images[pathname].content)

    def xFullPathname(self, name: str) -> str:
        """A path means itself: there are no folders."""
        return name

    def xRandomness(self, numbytes: int) -> bytes:
        return self._noise.randbytes(numbytes)

    def xSleep(self, microseconds: int) -> int:
        return microseconds

    def xCurrentTime(self) -> float:
        """One fixed day, so that no statement depends on when it ran."""
        return _NOW_DAYS

    def xCurrentTimeInt64(self) -> int:
        return int(_NOW_DAYS * 86_400_000)


def _apply(content: bytearray, change: _Change) -> None:
    offset, data = change
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    if data is None:
        del content[offset:]
    else:
        content[offset : offset + len(data)] = data
