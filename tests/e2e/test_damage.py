"""Damage: a flipped bit or a cut in any file of a home is named by doctor, and nothing ends with a traceback."""

import random
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from e2e.processes import Home


def flip(path: Path, place: int) -> None:
    """Flip a bit of the byte at *place*."""
    data = bytearray(path.read_bytes())
    data[place] ^= 0x10
    path.write_bytes(data)


def cut(path: Path) -> None:
    """Cut a file off in its middle."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def settle(home: Home) -> apsw.Connection:
    """A connection to the store, with everything in the database and nothing in its log."""
    db = apsw.Connection(str(home.database))
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return db


def check(home: Home) -> list[str]:
    """The bad checks of doctor; every command says what is wrong without a traceback."""
    for command in ("status", "models list"):
        code, output = home.run(*command.split())
        assert "Traceback" not in output, output
        assert code in (0, 1)
    code, output = home.run("doctor")
    bad = [line for line in output.splitlines() if line.startswith("BAD")]
    assert "Traceback" not in output, output
    assert code == (1 if bad else 0)
    return bad


def test_a_sound_home_has_no_bad_check(played: Home) -> None:
    """Otherwise the checks below would show nothing."""
    assert check(played) == []


def test_a_broken_index_is_named(played: Home) -> None:
    """A row that an index does not have: no page is damaged, and only a full check notices."""
    query = "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema WHERE type = 'index' AND name = 'log_id'"
    settle(played).close()
    for change in (
        "DELETE FROM sqlite_schema WHERE name = 'log_id'",
        "UPDATE log SET id = id || 'x' WHERE position = (SELECT max(position) FROM log)",
        "INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)",
    ):
        db = apsw.Connection(str(played.database))
        db.execute("PRAGMA writable_schema = ON")
        if "DELETE" in change:
            [index] = db.execute(query).fetchall()
        db.execute(change, index if "INSERT" in change else ())
        db.close()

    [bad] = check(played)

    assert "store" in bad
    assert "log_id" in bad


@pytest.mark.parametrize("damage", ["header", "pages", "cut", "nothing", "folder"])
def test_a_damaged_database_is_named(played: Home, damage: str) -> None:
    """Its header, any of its pages, its end, its whole content, or a folder in its place."""
    settle(played).close()
    file, rng = played.database, random.Random(7)
    if damage == "header":
        flip(file, 3)
    elif damage == "pages":
        for _ in range(40):
            flip(file, rng.randrange(4096, file.stat().st_size))
    elif damage == "cut":
        cut(file)
    elif damage == "nothing":
        file.write_bytes(b"\0" * 8192)
    else:
        file.unlink()
        file.mkdir()

    bad = check(played)

    assert bad
    assert any(str(file) in line for line in bad)


def test_a_damaged_write_ahead_log_is_named(played: Home) -> None:
    """SQLite ignores everything from a damaged frame on, without a word."""
    db = settle(played)
    db.execute("CREATE TABLE of_test (body)")
    for _ in range(20):
        db.execute("INSERT INTO of_test VALUES (randomblob(9000))")
    log = played.database.with_name(f"{played.database.name}-wal")
    whole, database = log.read_bytes(), played.database.read_bytes()
    db.close()

    def restore(place: int) -> list[str]:
        played.database.with_name(f"{played.database.name}-shm").unlink(missing_ok=True)
        played.database.write_bytes(database)
        log.write_bytes(whole)
        flip(log, place)
        return [line for line in check(played) if "-wal" in line]

    assert "its header is damaged" in restore(16)[0]
    assert "frame 1 is damaged" in restore(32 + 24 + 100)[0]
    assert "frame 5 is damaged" in restore(32 + 4 * (24 + 4096) + 24 + 7)[0]


@pytest.mark.parametrize("kind", ["decision", "block", "count", "evidence"])
def test_a_flipped_bit_in_a_decision_or_its_evidence_is_named(played: Home, kind: str) -> None:
    """The database is sound, and what was decided is not what it says: a checksum notices it."""
    db = settle(played)
    [(id, body)] = db.execute("SELECT id, body FROM records WHERE kind = ? ORDER BY length(body) DESC LIMIT 1", (kind,))
    digits = [place for place, byte in enumerate(body[:-17]) if 0x30 <= byte <= 0x38]
    damaged = bytearray(body)
    damaged[digits[-1]] ^= 0x01  # another digit: still JSON, and still a number
    db.execute("UPDATE records SET body = ? WHERE kind = ? AND id = ?", (bytes(damaged), kind, id))
    db.close()

    bad = check(played)

    assert len(bad) == 1
    assert f"{kind} {id[:80]} is damaged: does not match its checksum" in bad[0]


def _bad_marker(home: Home) -> None:
    min(home.path.glob("blobs/**/node")).write_bytes(b"\xff\xfe\x00")


def _bad_blob(home: Home) -> None:
    flip(max(home.path.glob("blobs/**/??/" + "?" * 64), key=lambda path: path.stat().st_size), 5)


def _bad_lock(home: Home) -> None:
    lock = home.database.parent / "coordinator.lock"
    lock.unlink(missing_ok=True)
    lock.mkdir()


@pytest.mark.parametrize(
    ("damage", "text"),
    [(_bad_marker, "files of a"), (_bad_blob, "damaged"), (_bad_lock, "coordinator.lock is no file")],
)
def test_damaged_files_beside_the_store_are_named(home: Home, damage: Callable[[Home], None], text: str) -> None:
    """The marker of a blob folder, a file in it, and the lock of the coordinator."""
    code, output = home.run("run", "--iterations", "1", "--variants", "hex8_2p")
    assert code == 0, output
    damage(home)

    bad = check(home)

    assert any(text in line for line in bad), bad
