"""Connections: how the file is opened, and how its schema is brought up to date."""

import os
from pathlib import Path
from urllib.parse import quote

import apsw

from ringrift.kernel.errors import NoRoom, SchemaTooNew, StoreError, Unreachable
from ringrift.store import sql
from ringrift.store.sqlite.files import require_local
from ringrift.store.sqlite.reads import one

MIGRATIONS = sql.migrations("ringrift.store.sqlite.migrations")
CACHE_KIB = 8 * 1024
CHECKPOINT_PAGES = 2000
STATEMENTS_CACHED = 100
BUSY_SECONDS_MAX = 10.0


def connect(path: str | Path, *, read_only: bool = False, vfs: str | None = None) -> apsw.Connection:
    """A connection to the store at *path*; the first writer makes it or migrates it.

    Raises SchemaTooNew, UnsafeFilesystem.
    """
    if vfs is None:
        file = Path(path)
        require_local(next(parent for parent in file.absolute().parents if parent.exists()))
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not read_only:
            _prepare(file)
    flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    db = apsw.Connection(str(path), flags=flags, vfs=vfs, statementcachesize=STATEMENTS_CACHED)
    try:
        _configure(db, read_only=read_only, exclusive=vfs is not None)
        if not read_only:
            migrate(db, str(path))
    except BaseException:
        db.close()
        raise
    return db


def _prepare(file: Path) -> None:
    """Make an empty file for its owner alone, or look whether an existing one is ours to open, without touching it."""
    try:
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        return
    except FileExistsError:
        if file.is_dir():
            return  # SQLite says what is wrong with that
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    db = apsw.Connection(f"file:{quote(str(file.absolute()))}?immutable=1", flags=flags)
    try:
        _require_known(one(db, "PRAGMA user_version"), str(file))
    except apsw.CorruptError:
        # Without locks it looks so while another process brings its log back into the file: the first page tells of
        # pages that come a moment later.  Whoever opens it with locks sees it whole, or is told that it is broken.
        pass
    finally:
        db.close()
    file.chmod(0o600)


def _require_known(found: int, path: str) -> None:
    if found > len(MIGRATIONS):
        raise SchemaTooNew(path, found, len(MIGRATIONS))


def _configure(db: apsw.Connection, *, read_only: bool, exclusive: bool) -> None:
    db.set_busy_timeout(5000)
    if exclusive:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
    if not read_only:
        if not one(db, "PRAGMA user_version"):  # later it would have no effect, but take the write lock
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    # An acknowledged append survives power loss.  Group commit pays for it; there is no weaker setting.
    db.execute("PRAGMA synchronous = FULL")
    db.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    # Savepoints keep what they may have to undo; in a file that costs as much as the work itself.
    db.execute("PRAGMA temp_store = MEMORY")
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("PRAGMA foreign_keys = ON")
    db.set_busy_timeout(5000 if read_only else 0)


def migrate(db: apsw.Connection, path: str) -> None:
    """Bring the schema to the newest version this code knows, each step all or nothing.  Raises SchemaTooNew."""
    db.set_busy_timeout(5000)
    found: int = one(db, "PRAGMA user_version")
    _require_known(found, path)
    for number, script in MIGRATIONS[found:]:
        db.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have done this step while we waited for the lock.
            if one(db, "PRAGMA user_version") < number:
                db.execute(script)
                db.execute(f"PRAGMA user_version = {number}")
        except BaseException:
            db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")
    db.set_busy_timeout(0)


def translate(bad: apsw.Error, path: str | Path) -> StoreError | NoRoom:
    """Our error for a driver's error: none of them leaks."""
    if isinstance(bad, apsw.FullError):
        return NoRoom(str(path))
    if isinstance(bad, apsw.BusyError):
        return Unreachable(f"{path}: another process has been writing for {BUSY_SECONDS_MAX:g} s")
    if isinstance(bad, apsw.ConstraintError | apsw.MismatchError | apsw.TooBigError):
        return StoreError(f"{path}: refused: {bad}")
    return Unreachable(f"{path}: {type(bad).__name__}: {bad}")
