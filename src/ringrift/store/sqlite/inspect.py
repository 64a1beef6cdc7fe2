"""Inspect: is SQLite new enough, is the place safe, and what is in the file?"""

from pathlib import Path

import apsw

from ringrift.kernel.errors import UnsafeFilesystem
from ringrift.store.sqlite.connect import MIGRATIONS
from ringrift.store.sqlite.files import require_local
from ringrift.store.sqlite.reads import one

SQLITE_MIN = (3, 51, 3)
"""Versions before have a published bug that can corrupt a WAL with two connections."""


def inspect_file(path: Path) -> list[tuple[str, bool, str]]:
    """(what, good, found) for everything worth knowing.  Makes nothing."""
    version = apsw.sqlite_lib_version()
    good = tuple(int(part) for part in version.split(".")) >= SQLITE_MIN
    found = [("sqlite", good, version)]
    try:
        require_local(next(parent for parent in path.absolute().parents if parent.exists()))
        found.append(("filesystem", True, "local"))
    except UnsafeFilesystem as unsafe:
        found.append(("filesystem", False, str(unsafe)))
    if path.exists():
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            schema = one(db, "PRAGMA user_version")
            found.append(
                ("schema", schema <= len(MIGRATIONS), f"{schema} (this version knows up to {len(MIGRATIONS)})")
            )
            checked = one(db, "PRAGMA quick_check(1)")
            found.append(("store", checked == "ok", f"{path}: {checked}"))
        finally:
            db.close()
    else:
        found.append(("store", True, f"{path}: not made yet"))
    return found
