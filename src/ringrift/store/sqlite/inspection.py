"""Inspection of a database for ``ringrift doctor``: every file of it gets a verdict, whatever is damaged."""

import struct
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import apsw

from ringrift.kernel.errors import UnsafeFilesystem
from ringrift.store.sqlite.connect import SCHEMA_FIRST, SCHEMA_LAST, translate
from ringrift.store.sqlite.files import require_local
from ringrift.store.sqlite.reads import query_value

_Check = tuple[str, bool, str]
"""A subject, whether it is good, and the detail."""

_SQLITE_MIN = (3, 51, 3)  # versions before have a published bug that can corrupt a WAL with two connections
_CHECK_SECONDS_MAX = 60.0
_PROBLEMS_MAX = 5
_RESTORE = "stop every node, keep the folder, restore a backup"
_WAL_MAGIC, _WAL_HEADER, _FRAME_HEADER = 0x377F0682, 32, 24
_FRAMES_MAX = 20_000  # frames of a WAL that are checked, some seconds


def inspect_file(path: Path) -> list[_Check]:
    """Check the store at *path*, bounded in time.  Creates nothing."""
    version = apsw.sqlite_lib_version()
    checks = [("sqlite", tuple(int(part) for part in version.split(".")) >= _SQLITE_MIN, version)]
    try:
        require_local(path)
        checks.append(("filesystem", True, "local"))
    except UnsafeFilesystem as unsafe:
        checks.append(("filesystem", False, str(unsafe)))
    if not path.exists():
        return [*checks, ("store", True, f"{path}: not created yet")]
    wal = path.with_name(f"{path.name}-wal")
    try:
        # While processes write, the end of the file may be half written: it is damage if it is still so a moment later.
        damage = (first := _wal_damage(wal)) and (first if _wal_damage(wal) == first else "")
        checks.append(("log of the store", not damage, f"{wal}: {damage or 'ok'}"))
        return [*checks, *_inspect_database(path)]
    except OSError as error:
        return [*checks, ("store", False, f"{error.filename}: {error.strerror}: give its owner the right to read it")]


def _inspect_database(path: Path) -> Iterator[_Check]:
    db = None
    try:
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        schema = query_value(db, "PRAGMA user_version")
        supported = f"{SCHEMA_FIRST} to {SCHEMA_LAST}"
        yield "schema", SCHEMA_FIRST <= schema <= SCHEMA_LAST, f"{schema} (this version reads {supported})"
        alarm = Timer(_CHECK_SECONDS_MAX, db.interrupt)
        alarm.start()
        try:
            problems = [problem for (problem,) in db.execute(f"PRAGMA integrity_check({_PROBLEMS_MAX})")]
        finally:
            alarm.cancel()
        remedy = "" if problems == ["ok"] else f": {_RESTORE}"
        yield "store", not remedy, f"{path}: {'; '.join(problems)}{remedy}"
    except apsw.InterruptError:
        yield "store", True, f"{path}: no damage in {_CHECK_SECONDS_MAX:g} s; the rest was not checked"
    except apsw.Error as error:
        yield "store", False, f"{translate(error, path)}: {_RESTORE}"
    finally:
        if db is not None:
            db.close()


def _wal_damage(file: Path) -> str:
    """Why transactions in the write-ahead log *file* would be ignored; nothing if all can be read."""
    data = file.read_bytes() if file.exists() else b""
    if len(data) < _WAL_HEADER:
        return ""  # there is none, or it was cut to nothing after its transactions were copied
    magic, _, page, _, *salts, first, second = struct.unpack(">8I", data[:_WAL_HEADER])
    order = ">" if magic & 1 else "<"
    sums = _add_checksum((0, 0), data[: _WAL_HEADER - 8], order)
    if magic & ~1 != _WAL_MAGIC or sums != (first, second):
        return f"its header is damaged, so that all its transactions are ignored: {_RESTORE}"
    size = _FRAME_HEADER + page
    for number in range(min((len(data) - _WAL_HEADER) // size, _FRAMES_MAX)):
        frame = data[_WAL_HEADER + number * size :][:size]
        *_, salt_1, salt_2, first, second = struct.unpack(">6I", frame[:_FRAME_HEADER])
        if [salt_1, salt_2] != salts:
            return ""  # what follows is left from an earlier round of the file
        sums = _add_checksum(_add_checksum(sums, frame[:8], order), frame[_FRAME_HEADER:], order)
        if sums != (first, second):
            return f"frame {number + 1} is damaged, so that it and all later ones are ignored: {_RESTORE}"
    return ""


def _add_checksum(sums: tuple[int, int], data: bytes, order: str) -> tuple[int, int]:
    """SQLite's checksum of *data*, continued from *sums*."""
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second
