"""The child that merges databases from elsewhere: one transaction over all of them, in a process with limits.

A line of JSON comes in, the request; lines of JSON go out: progress, and at the end the report or the error.
"""

import os
import re
import resource
import sqlite3  # noqa: TID251 - a process of its own, which has no store of ours open
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from ringrift.blobs.file_writer import digest as hash_file
from ringrift.kernel.value import Value
from ringrift.workload.foreign_db import ForeignDatabase, ForeignTable, find_journal, open_foreign, quoted

_MEMORY_BYTES_MAX = 2 * 1024**3  # of the address space of the child
_BUSY_SECONDS_MAX = 10.0  # for another program that writes to the target
_ROWS_PER_REPORT = 10_000
_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9 ]{0,40}(\(\d{1,9}(, ?\d{1,9})?\))?")
_TRIGGERED = "SELECT tbl_name FROM sqlite_master WHERE type = 'trigger'"


class MergeRequest(Value):
    """What to merge: *sources*, each with its SHA-256 or "", into *target*."""

    target: str
    sources: tuple[tuple[str, str], ...]
    keep_target: bool = False


class _TableReport(Value):
    """What became of the rows of one table: *inserted*, there before with the *same* values, or with others."""

    name: str
    inserted: int = 0
    same: int = 0
    conflicts: int = 0  #: Rows whose key has other values in the target, which stay.


class MergeReport(Value):
    """What became of *sources*, each with its SHA-256; *skipped* are tables that are not plain ones."""

    sources: dict[str, str] = {}
    tables: tuple[_TableReport, ...] = ()
    skipped: tuple[str, ...] = ()


class MergeLine(Value):
    """A line that the child prints: how many rows it has read so far, its report or its error."""

    rows: int = 0
    report: MergeReport | None = None
    error: str = ""


class _Merge:
    """One transaction on the target."""

    def __init__(self, target: sqlite3.Connection, keep_target: bool, on_rows: Callable[[int], None]) -> None:
        self._target, self._keep_target, self._on_rows, self._rows = target, keep_target, on_rows, 0
        self.tables: dict[str, Counter[str]] = {}  # the counts of its report, by table
        self._triggered = {str(name).lower() for (name,) in target.execute(_TRIGGERED)}

    def add(self, source: ForeignDatabase) -> None:
        """Merge every table of *source*.  Raises ValueError."""
        for table in source.tables.values():
            source.check(table.name)
            if not table.key:
                raise ValueError(f"its table {table.name:.40} has no primary key")
            if table.name.lower() in self._triggered:
                raise ValueError(f"the target has a trigger on its table {table.name:.40}, which would run")
            self._prepare(table)
            self._merge(table, source.rows(table.name, table.columns))

    def _prepare(self, table: ForeignTable) -> None:
        """Make *table* in the target unless it is there with the same key."""
        columns = self._target.execute(f"PRAGMA main.table_xinfo({quoted(table.name)})").fetchall()
        if not columns:
            pairs = zip(table.columns, table.types, strict=True)
            fields = [f"{quoted(name)} {kind if _TYPE.fullmatch(kind) else ''}" for name, kind in pairs]
            fields.append(f"PRIMARY KEY ({_names(table.key)})")
            self._target.execute(f"CREATE TABLE main.{quoted(table.name)} ({', '.join(fields)})")
            return
        key = [name for _, name in sorted((column[5], column[1]) for column in columns if column[5])]
        missing = set(table.columns) - {column[1] for column in columns if column[6] == 0}
        if missing or key != list(table.key):
            reason = f"no column {min(missing):.40}" if missing else f"another primary key: {', '.join(key):.80}"
            raise ValueError(f"the target has {reason} in its table {table.name:.40}")

    def _merge(self, table: ForeignTable, rows: Iterator[tuple[object, ...]]) -> None:
        name, columns, places = quoted(table.name), _names(table.columns), ", ".join("?" * len(table.columns))
        conflict = f"ON CONFLICT ({_names(table.key)}) DO NOTHING"
        insert = f"INSERT INTO main.{name} ({columns}) VALUES ({places}) {conflict}"
        # IS also finds NULL, and compares as the column's type says: '5' is 5 in a column of numbers.
        equal = " AND ".join(f"{quoted(column)} IS ?" for column in table.columns)
        find, at = f"SELECT 1 FROM main.{name} WHERE {equal}", [table.columns.index(column) for column in table.key]
        counts = self.tables.setdefault(table.name, Counter())
        for row in rows:
            self._count()
            if any(row[place] is None for place in at):
                raise ValueError(f"its table {table.name:.40} has a row without a primary key")
            if self._target.execute(insert, row).rowcount:
                counts["inserted"] += 1
            elif self._target.execute(find, row).fetchone():
                counts["same"] += 1
            elif self._keep_target:
                counts["conflicts"] += 1
            else:
                key = ", ".join(f"{row[place]!r:.40}" for place in at)
                raise ValueError(f"its table {table.name:.40} has other values for the key {key} than the target")

    def _count(self) -> None:
        self._rows += 1
        if self._rows % _ROWS_PER_REPORT == 0:
            self._on_rows(self._rows)


def _names(columns: Sequence[str]) -> str:
    return ", ".join(map(quoted, columns))


def _merge_all(request: MergeRequest, on_rows: Callable[[int], None]) -> MergeReport:
    """Merge all sources of *request*, or none.  Raises ValueError, which names the source."""
    target, report, skipped = Path(request.target), {}, set[str]()
    with closing(sqlite3.connect(target, timeout=_BUSY_SECONDS_MAX, isolation_level=None)) as connection:
        for statement in ("PRAGMA synchronous = FULL", "PRAGMA trusted_schema = OFF", "BEGIN IMMEDIATE"):
            connection.execute(statement)
        try:
            merge = _Merge(connection, request.keep_target, on_rows)
            for name, checksum in request.sources:
                with _named(name):
                    source = Path(name)
                    report[name] = _check_source(source, target, checksum)
                    with open_foreign(source) as database:
                        merge.add(database)
                        skipped.update(database.skipped)
                    if hash_file(source) != report[name]:
                        raise ValueError("it changed while it was read")
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
    tables = tuple(_TableReport(name=name, **counts) for name, counts in merge.tables.items())
    return MergeReport(sources=report, tables=tables, skipped=tuple(sorted(skipped)))


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Raise ValueError that names the source, for what is wrong with it or does not fit the target."""
    try:
        yield
    except (ValueError, OSError, sqlite3.IntegrityError) as error:
        raise ValueError(f"{name}: {error}") from error


def _check_source(source: Path, target: Path, checksum: str) -> str:
    """The SHA-256 of *source*.  Raises ValueError unless it can be merged as it is."""
    if source.samefile(target):
        raise ValueError("it is the target itself")
    if journal := find_journal(source):
        raise ValueError(f"a part of it is still in {journal.name}; close the program that writes it")
    digest = hash_file(source)
    if checksum not in ("", digest):
        raise ValueError(f"its SHA-256 is {digest}, not {checksum:.64}")
    return digest


def _limit_process() -> None:
    for kind, limit in ((resource.RLIMIT_AS, _MEMORY_BYTES_MAX), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(kind, (limit, limit))


def _print_line(line: MergeLine) -> None:
    os.write(1, msgspec.json.encode(line) + b"\n")


def main() -> int:
    """Do the request that comes in.  0: it is done; 1: nothing was changed."""
    _limit_process()
    request = msgspec.json.decode(sys.stdin.buffer.readline(), type=MergeRequest)
    try:
        report = _merge_all(request, lambda rows: _print_line(MergeLine(rows=rows)))
    except (ValueError, sqlite3.Error, MemoryError) as error:
        _print_line(MergeLine(error=f"{error!s:.500}" or type(error).__name__))
        return 1
    _print_line(MergeLine(report=report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
