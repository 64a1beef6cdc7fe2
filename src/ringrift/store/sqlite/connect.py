"""Connections: open the file, configure SQLite, migrate the schema, check it all for ``ringrift doctor``."""

import os
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

import apsw

from ringrift.kernel.errors import NoRoom, SchemaTooNew, SchemaTooOld, StoreError, Unreachable, UnsafeFilesystem
from ringrift.store.sqlite.files import require_local
from ringrift.store.sqlite.reads import query_value


def _load_migrations() -> list[tuple[int, str]]:
    """The numbered migrations, in order: (number, script)."""
    scripts = [entry for entry in files("ringrift.store.sqlite.migrations").iterdir() if entry.name.endswith(".sql")]
    numbered = sorted((int(entry.name.split("_")[0]), entry.read_text()) for entry in scripts)
    first = numbered[0][0]
    assert [number for number, _ in numbered] == list(range(first, first + len(numbered))), "a number is missing"
    return numbered


_MIGRATIONS = _load_migrations()
_SCHEMA_FIRST, _SCHEMA_LAST = _MIGRATIONS[0][0], _MIGRATIONS[-1][0]
"""Schema versions that this code opens; it brings an older one of them up to the last."""
_CACHE_KIB = 8 * 1024
_CHECKPOINT_PAGES = 2000
_STATEMENTS_CACHED = 100
_SQLITE_MIN = (3, 51, 3)  # versions before have a published bug that can corrupt a WAL with two connections
BUSY_SECONDS_MAX = 10.0


def connect(path: str | Path, *, read_only: bool = False, vfs: str | None = None) -> apsw.Connection:
    """Connect to the store at *path*; the first writer creates or migrates it.

    Raises SchemaTooNew, SchemaTooOld, UnsafeFilesystem.
    """
    if vfs is None:
        file = Path(path)
        require_local(file)
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not read_only:
            _prepare(file)
    flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    db = apsw.Connection(str(path), flags=flags, vfs=vfs, statementcachesize=_STATEMENTS_CACHED)
    try:
        _configure(db, read_only=read_only, exclusive=vfs is not None)
        if not read_only:
            _migrate(db, str(path))
            db.set_busy_timeout(0)  # a writer that has to wait does so off the loop
    except BaseException:
        db.close()
        raise
    return db


def _prepare(file: Path) -> None:
    """Create an empty file for its owner alone, or check the schema of an existing one without touching it."""
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
    file.chmod(0o600)


def _require_supported(version: int, path: str) -> None:
    if version > _SCHEMA_LAST:
        raise SchemaTooNew(path, version, _SCHEMA_LAST)
    if 0 < version < _SCHEMA_FIRST:
        raise SchemaTooOld(path, version, _SCHEMA_FIRST)


def _configure(db: apsw.Connection, *, read_only: bool, exclusive: bool) -> None:
    db.set_busy_timeout(5000)
    if exclusive:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
    if not read_only:
        if not query_value(db, "PRAGMA user_version"):  # later it would have no effect, but take the write lock
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
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


def translate(bad: apsw.Error, path: str | Path) -> StoreError | NoRoom:
    """Translate a driver's error into ours: none of them leaks."""
    if isinstance(bad, apsw.FullError):
        return NoRoom(str(path))
    if isinstance(bad, apsw.BusyError):
        return Unreachable(f"{path}: another process has been writing for {BUSY_SECONDS_MAX:g} s")
    if isinstance(bad, apsw.NotADBError):
        return Unreachable(f"{path} is not a database of RingRift: move it away, or set RINGRIFT_HOME")
    if isinstance(bad, apsw.ConstraintError | apsw.MismatchError | apsw.TooBigError):
        return StoreError(f"{path}: refused: {bad}")
    return Unreachable(f"{path}: {type(bad).__name__}: {bad}")


def inspect_file(path: Path) -> list[tuple[str, bool, str]]:
    """Check the store at *path*: (subject, whether it is good, detail) each.  Creates nothing."""
    version = apsw.sqlite_lib_version()
    checks = [("sqlite", tuple(int(part) for part in version.split(".")) >= _SQLITE_MIN, version)]
    try:
        require_local(path)
        checks.append(("filesystem", True, "local"))
    except UnsafeFilesystem as unsafe:
        checks.append(("filesystem", False, str(unsafe)))
    if not path.exists():
        return [*checks, ("store", True, f"{path}: not created yet")]
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        schema = query_value(db, "PRAGMA user_version")
        supported = f"{_SCHEMA_FIRST} to {_SCHEMA_LAST}"
        checks.append(("schema", _SCHEMA_FIRST <= schema <= _SCHEMA_LAST, f"{schema} (this version reads {supported})"))
        quick_check = query_value(db, "PRAGMA quick_check(1)")
        checks.append(("store", quick_check == "ok", f"{path}: {quick_check}"))
    finally:
        db.close()
    return checks
