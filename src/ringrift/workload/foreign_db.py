"""Foreign databases: read an SQLite file that comes from elsewhere, which may be damaged or made to do harm.

It is opened read-only and as unchangeable, without its journal.  An authorizer lets statements read columns of plain
tables and nothing else: no view, trigger or virtual table of the file ever runs, nothing is attached, and no extension
is loaded.  Constraints are not evaluated; an index over an expression may use harmless functions of SQLite alone.
Sizes and steps have limits.  What is left, a defect of SQLite itself, costs the process that reads it, which is
therefore a worker or a child and never a node.  Standard library only.
"""

import re
import sqlite3  # noqa: TID251 - a worker or a child reads such files, which has no store of ours open
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_VALUE_BYTES_MAX = 16 * 1024 * 1024  # of one value or row
_TABLES_MAX = 1000  # entries of a schema
_STEPS, _STEPS_MAX = 100_000, 20_000_000_000  # of the virtual machine between two looks, and in all
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: _VALUE_BYTES_MAX,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1024 * 1024,
    sqlite3.SQLITE_LIMIT_COLUMN: 500,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 50,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 2,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 500,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_SETUP = ("PRAGMA trusted_schema = OFF", "PRAGMA cell_size_check = ON", "PRAGMA mmap_size = 0")
_PRAGMAS = frozenset({"trusted_schema", "cell_size_check", "mmap_size", "integrity_check", "table_xinfo"})
_SCHEMA = frozenset({"sqlite_master", "sqlite_schema"})
_VIRTUAL = re.compile(r"\s*CREATE\s+VIRTUAL\b", re.IGNORECASE)
_PLAIN = 0  # the kind of a column in ``table_xinfo`` that is neither hidden nor generated


class ForeignTable(NamedTuple):
    """A plain table of a foreign database: its columns, and those of its primary key in their order there."""

    name: str
    columns: tuple[str, ...]
    types: tuple[str, ...]  #: Of *columns*, as declared.
    key: tuple[str, ...]


def find_journal(path: Path) -> Path | None:
    """The journal beside *path* that holds a part of its contents, if there is one."""
    beside = (path.with_name(path.name + ending) for ending in ("-wal", "-journal"))
    return next((journal for journal in beside if journal.is_file() and journal.stat().st_size), None)


class ForeignDatabase:
    """A foreign database that is open; see :func:`open_foreign`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection, self.skipped = connection, list[str]()  # tables that are not plain ones
        self.tables = {table.name: table for table in self._read_tables()}

    def _read_tables(self) -> Iterator[ForeignTable]:
        query = "SELECT name, rootpage, sql FROM sqlite_master WHERE type = 'table' LIMIT ?"
        rows = self._connection.execute(query, (_TABLES_MAX + 1,)).fetchall()
        if len(rows) > _TABLES_MAX:
            raise ValueError(f"it has more than {_TABLES_MAX} tables")
        for name, page, text in rows:
            if not isinstance(name, str) or name.lower().startswith("sqlite_"):
                continue  # SQLite's own
            is_stored = isinstance(page, int) and page > 0 and isinstance(text, str) and not _VIRTUAL.match(text)
            columns = self._connection.execute(f"PRAGMA table_xinfo({quoted(name)})").fetchall() if is_stored else []
            if not columns or any(column[6] != _PLAIN for column in columns):
                self.skipped.append(name)  # values are computed, by a module or by expressions of the file
                continue
            key = sorted((column[5], column[1]) for column in columns if column[5])
            names, types = (tuple(column[at] for column in columns) for at in (1, 2))
            yield ForeignTable(name, names, types, tuple(column for _, column in key))

    def check(self, table: str) -> None:
        """Raise ValueError unless *table* and its indexes are whole."""
        with _typed():
            [answer] = self._connection.execute(f"PRAGMA integrity_check({quoted(table)})").fetchone()
        if answer != "ok":
            raise ValueError(f"its table {table:.40} is damaged: {answer!s:.200}")

    def rows(self, table: str, columns: Collection[str]) -> Iterator[tuple[object, ...]]:
        """The values of *columns* in every row of *table*, in the order of storage.  Raises ValueError.

        *table* is one of *tables*, and it has *columns*.
        """
        assert set(columns) <= set(self.tables[table].columns)
        names = ", ".join(map(quoted, columns))
        with _typed():
            # No index decides about the order, so the same file always gives the same rows in the same order.
            yield from self._connection.execute(f"SELECT {names} FROM main.{quoted(table)} NOT INDEXED")


def quoted(name: str) -> str:
    """*name* as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def open_foreign(
    path: Path, on_progress: Callable[[], object] = lambda: None, *, lenient: bool = False, steps_max: int = _STEPS_MAX
) -> Iterator[ForeignDatabase]:
    """The database in the file *path*; *on_progress* is called from time to time.  Raises ValueError, here and later.

    *lenient*: text that is not UTF-8 is read with signs of replacement instead of being an error.
    """
    _check_header(path)
    calls = 0

    def count() -> bool:
        nonlocal calls
        calls += 1
        on_progress()
        return calls * _STEPS > steps_max  # then the statement is interrupted

    with _typed(), closing(sqlite3.connect(_address(path), uri=True, isolation_level=None)) as connection:
        for limit, value in _LIMITS.items():
            connection.setlimit(limit, value)
        connection.set_authorizer(_authorize)
        connection.set_progress_handler(count, _STEPS)
        if lenient:
            connection.text_factory = lambda data: data.decode(errors="replace")
        for statement in _SETUP:
            connection.execute(statement)
        yield ForeignDatabase(connection)


def _address(path: Path) -> str:
    return f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"


def _check_header(path: Path) -> None:
    """Raise ValueError unless the file has the pages that its header promises: a copy that was cut off has fewer."""
    with path.open("rb") as file:
        header, size = file.read(_HEADER_BYTES), path.stat().st_size
    if len(header) < _HEADER_BYTES or not header.startswith(MAGIC):
        raise ValueError("it is no SQLite database")
    page = int.from_bytes(header[16:18], "big")
    page = 65_536 if page == 1 else page
    pages = int.from_bytes(header[28:32], "big")
    if page < 512 or page & (page - 1) or size % page or pages * page > size:
        raise ValueError(f"it is cut off or damaged: it has {size} bytes, and its header promises {pages * page}")


def _authorize(action: int, name: str | None, column: str | None, database: str | None, source: str | None) -> int:
    """Let a statement of ours read plain tables; *source* is the view or trigger that asks, and none may."""
    allowed = action == sqlite3.SQLITE_SELECT
    if action == sqlite3.SQLITE_PRAGMA:
        allowed = name in _PRAGMAS
    elif action == sqlite3.SQLITE_READ:
        is_schema = (name or "").lower() in _SCHEMA
        allowed = source is None and database == "main" and (is_schema or not (name or "").startswith("sqlite_"))
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


@contextmanager
def _typed() -> Iterator[None]:
    """Raise ValueError for what SQLite or the limits refuse."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
        reason = "reading it takes too long" if str(error) == "interrupted" else f"{error!s:.200}"
        raise ValueError(f"it cannot be read as a database: {reason}") from error
