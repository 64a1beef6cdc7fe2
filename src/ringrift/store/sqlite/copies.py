"""Copies of a database: taken while others write, and fenced off from the store that they were taken of."""

from pathlib import Path

import apsw

from ringrift.kernel.errors import Unreachable
from ringrift.store.sqlite.connect import connect, translate
from ringrift.store.sqlite.reads import QUERIES

_PAGES_AT_ONCE = 2_000


def copy_database(source: Path, target: Path) -> None:
    """Write the database as it is now to *target*, one whole file; writers go on meanwhile.  Raises StoreError, NoRoom.

    A copy with damage is no copy: it raises, so that good ones are not replaced by it.
    """
    target.unlink(missing_ok=True)
    try:
        db = connect(source, read_only=True, existing=True)
        try:
            db.execute("BEGIN; SELECT count(*) FROM sqlite_schema")  # every step copies from this one moment
            _copy(db, target)
        finally:
            db.close()
    except apsw.Error as error:
        raise translate(error, source) from error


def _copy(db: apsw.Connection, target: Path) -> None:
    copy = apsw.Connection(str(target))
    try:
        with copy.backup("main", db, "main") as backup:
            while not backup.done:
                backup.step(_PAGES_AT_ONCE)
        copy.execute("PRAGMA journal_mode = DELETE")  # nothing of it lies in a second file
        problems = [problem for (problem,) in copy.execute("PRAGMA quick_check(1)")]
    finally:
        copy.close()
    if problems != ["ok"]:
        raise Unreachable(f"the store is damaged ({problems[0]}): run  ringrift doctor, and restore a backup")


def fence_off(file: Path, epoch: int) -> None:
    """Let nothing that was leased before *epoch* count in *file*: fences and terms begin above all that were given.

    Jobs that were claimed are ready again, with no try used up, and tasks of programs have ended.  Raises StoreError.
    """
    try:
        db = connect(file, existing=True)
        try:
            db.execute("BEGIN IMMEDIATE")
            for name in ("fence_jobs", "end_tasks", "return_jobs"):
                db.execute(QUERIES[name], (epoch,) if name == "fence_jobs" else ())
            db.execute(QUERIES["fence_roles"], (epoch,))
            db.execute("COMMIT")
        finally:
            db.close()
    except apsw.Error as error:
        raise translate(error, file) from error
