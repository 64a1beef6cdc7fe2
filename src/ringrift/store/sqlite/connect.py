"""Connections: open the file, configure SQLite, migrate the schema."""

import errno
import os
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

import apsw

from ringrift.kernel.errors import Busy, NoRoom, SchemaTooNew, SchemaTooOld, StoreError, Unreachable
from ringrift.kernel.folders import make_folder
from ringrift.store.sqlite.files import require_local
from ringrift.store.sqlite.forks import Connection
from ringrift.store.sqlite.reads import query_value


def _load_migrations() -> list[tuple[int, str]]:
    """The numbered migrations, in order: (number, script)."""
    scripts = [entry for entry in files("ringrift.store.sqlite.migrations").iterdir() if entry.name.endswith(".sql")]
    numbered = sorted((int(entry.name.split("_")[0]), entry.read_text()) for entry in scripts)
    first = numbered[0][0]
    assert [number for number, _ in numbered] == list(range(first, first + len(numbered))), "a number is missing"
    return numbered


_MIGRATIONS = _load_migrations()
SCHEMA_FIRST, SCHEMA_LAST = _MIGRATIONS[0][0], _MIGRATIONS[-1][0]
"""Schema versions that this code opens; it brings an older one of them up to the last."""
_CACHE_KIB = 8 * 1024
_CHECKPOINT_PAGES = 2000
WAL_BYTES_MAX = 16 * 1024 * 1024  # of the file beside the database; above it is emptied as soon as no view needs it
_STATEMENTS_CACHED = 100
_LOCK_ERRORS = {apsw.SQLITE_IOERR_LOCK, apsw.SQLITE_IOERR_RDLOCK, apsw.SQLITE_IOERR_SHMLOCK, apsw.SQLITE_IOERR_UNLOCK}
_WRITE_ERRORS = {apsw.SQLITE_IOERR_WRITE, apsw.SQLITE_IOERR_SHMOPEN, errno.EROFS}


def connect(
    path: str | Path, *, read_only: bool = False, vfs: str | None = None, existing: bool = False, patience: float = 10.0
) -> apsw.Connection:
    """Connect to the store at *path*; unless it must be *existing*, the first writer creates or migrates it.

    Raises SchemaTooNew, SchemaTooOld, UnsafeFilesystem, and Busy while another process creates it.
    """
    path = str(path)
    if vfs is None:
        require_local(Path(path))
        if not (read_only or existing):
            _prepare(Path(path))
    flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
    create = 0 if read_only or existing else apsw.SQLITE_OPEN_CREATE
    db = Connection(path, flags=flags | create, vfs=vfs, statementcachesize=_STATEMENTS_CACHED)
    try:
        db.set_busy_timeout(int(patience * 1000))
        if read_only or existing:
            _require_current(query_value(db, "PRAGMA user_version"), path)
        _configure(db, read_only=read_only, exclusive=vfs is not None)
        if not read_only:
            _migrate(db, path)
            db.set_busy_timeout(0)  # a writer that has to wait does so off the loop
    except BaseException:
        db.close()
        raise
    return db


def _prepare(file: Path) -> None:
    """Create an empty file for its owner alone, or check the schema of an existing one without touching it."""
    make_folder(file.parent)
    try:
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        return
    except FileExistsError:
        if file.is_dir():
            return  # SQLite raises a clear error for it
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    db = apsw.Connection(f"file:{quote(str(file.absolute()))}?immutable=1", flags=flags)
    try:
        _require_supported(query_value(db, "PRAGMA user_version"), str(file))
    except apsw.CorruptError:
        # Without locks a file looks corrupt while another process checkpoints its log into it: the first page refers
        # to pages that are written a moment later.  Opening it with locks shows it whole, or raises again.
        pass
    finally:
        db.close()
    if file.stat().st_mode & 0o077:
        file.chmod(0o600)


def _require_supported(version: int, path: str) -> None:
    if version > SCHEMA_LAST:
        raise SchemaTooNew(path, version, SCHEMA_LAST)
    if 0 < version < SCHEMA_FIRST:
        raise SchemaTooOld(path, version, SCHEMA_FIRST)


def _require_current(version: int, path: str) -> None:
    """Raise what keeps a look from reading it: only a node that starts creates and migrates a store."""
    _require_supported(version, path)
    if not version:
        raise Busy(path, "a node is just creating it: try again")
    if version < SCHEMA_LAST:
        remedy = 'start a node of this version ("ringrift run"), which migrates it'
        raise SchemaTooOld(path, version, SCHEMA_LAST, remedy)


def _configure(db: apsw.Connection, *, read_only: bool, exclusive: bool) -> None:
    if exclusive:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
    if not read_only:
        if not query_value(db, "PRAGMA user_version"):  # later it would have no effect, but take the write lock
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        db.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_MAX}")
    # An acknowledged append survives power loss.  Group commit pays for it; there is no weaker setting.
    db.execute("PRAGMA synchronous = FULL")
    db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    # Savepoints keep what they may have to undo; in a file that costs as much as the work itself.
    db.execute("PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF; PRAGMA foreign_keys = ON")


def _migrate(db: apsw.Connection, path: str) -> None:
    """Bring the schema to the newest version, each step all or nothing.  Raises SchemaTooNew, SchemaTooOld."""
    version: int = query_value(db, "PRAGMA user_version")
    _require_supported(version, path)
    for number, script in _MIGRATIONS:
        if number <= version:
            continue
        db.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have done this step while we waited for the lock.
            if query_value(db, "PRAGMA user_version") < number:
                db.execute(script)
                db.execute(f"PRAGMA user_version = {number}")
        except BaseException:
            db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")


def _is_read_only(path: str) -> bool:
    """Whether the disk of *path* takes no writes, as after a fault; finding out needs no descriptor."""
    try:
        return bool(os.statvfs(Path(path).parent).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def translate(bad: apsw.Error | OSError, path: str | Path) -> StoreError | NoRoom:
    """Translate a driver's error into ours: none of them leaks.  Busy and NoRoom can be waited for."""
    code = bad.errno if isinstance(bad, OSError) else getattr(bad, "extendedresult", 0)
    path = str(path)
    if isinstance(bad, apsw.FullError):
        return NoRoom(path)
    if isinstance(bad, apsw.BusyError | apsw.LockedError) or code in _LOCK_ERRORS:
        return Busy(path, "another process has been writing for a while: `ringrift status` names it")
    if _is_read_only(path) and (isinstance(bad, apsw.ReadOnlyError | apsw.CantOpenError) or code in _WRITE_ERRORS):
        return Busy(path, "its disk is read-only: make it writable again")
    if code in (errno.EMFILE, errno.ENFILE) or (isinstance(bad, apsw.CantOpenError) and os.path.isfile(path)):
        return Busy(path, "it cannot be opened just now: no file descriptor is left (`ulimit -n`), or no permission")
    if isinstance(bad, apsw.NotADBError):
        return Unreachable(f"{path} is not a database of RingRift: move it away, or set RINGRIFT_HOME")
    if isinstance(bad, apsw.ConstraintError | apsw.MismatchError | apsw.TooBigError):
        return StoreError(f"{path}: refused: {bad}")
    return Unreachable(f"{path}: {type(bad).__name__}: {bad}")
