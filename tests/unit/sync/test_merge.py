"""Databases from elsewhere are merged by primary key, all or nothing, in a child that can do no harm."""

import asyncio
import hashlib
import os
import signal
import sqlite3  # noqa: TID251 - makes the foreign files
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from ringrift.kernel.errors import InputError
from ringrift.sync import merge as merge_module
from ringrift.sync.merge import merge
from ringrift.sync.merge_child import MergeReport, _TableReport
from unit.workload.test_foreign_db import make

TABLE = "CREATE TABLE games (id TEXT PRIMARY KEY, moves TEXT, plies INTEGER)"
STORY_SECONDS_MAX = 60.0


def database(path: Path, *rows: tuple[object, ...], table: str = TABLE) -> Path:
    """A database with *rows* of games."""
    make(path, table)
    with closing(sqlite3.connect(path)) as connection:
        connection.executemany("INSERT INTO games VALUES (?, ?, ?)", rows)
        connection.commit()
    return path


def run(target: Path, *sources: Path, **options: Any) -> MergeReport:
    """Merge, in time."""

    async def story() -> MergeReport:
        async with asyncio.timeout(STORY_SECONDS_MAX):
            return await merge(target, sources, **options)

    return asyncio.run(story())


def games(path: Path) -> list[tuple[object, ...]]:
    """The rows of *path*."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT * FROM games ORDER BY id").fetchall()


def test_rows_with_new_keys_are_inserted_and_equal_ones_change_nothing(tmp_path: Path) -> None:
    """The report counts both, names each source by its hash, and a second merge inserts nothing."""
    target = database(tmp_path / "t.db", ("a", "1", 1), ("b", None, 2))
    one = database(tmp_path / "1.db", ("b", None, 2), ("c", "3", 3))
    two = database(tmp_path / "2.db", ("c", "3", 3), ("d", "4", 4))

    first, second = run(target, one, two), run(target, one, two)

    assert games(target) == [("a", "1", 1), ("b", None, 2), ("c", "3", 3), ("d", "4", 4)]
    assert first.tables == (_TableReport(name="games", inserted=2, same=2),)
    assert second.tables == (_TableReport(name="games", same=4),)
    assert first.sources == {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in (one, two)}


def test_a_new_target_gets_its_name_at_the_end(tmp_path: Path) -> None:
    """Tables are made as the source has them; a failure leaves no file at all."""
    source, bad = database(tmp_path / "s.db", ("a", "1", 5)), tmp_path / "bad.db"
    bad.write_bytes(b"junk" * 100)
    target = tmp_path / "new.db"

    with pytest.raises(InputError, match="it is no SQLite database"):
        run(target, source, bad)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.db", "s.db"]
    run(target, source)
    assert games(target) == [("a", "1", 5)]
    with pytest.raises(sqlite3.IntegrityError):
        database(target, ("a", "2", 2), table="SELECT 1")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.db", "new.db", "s.db"]


def test_another_value_under_a_key_is_an_error_and_nothing_is_merged(tmp_path: Path) -> None:
    """Also what came before it is taken back; on request the target's rows stay instead."""
    target = database(tmp_path / "t.db", ("a", "mine", 1))
    good = database(tmp_path / "1.db", ("b", "2", 2))
    other = database(tmp_path / "2.db", ("0", "3", 3), ("a", "theirs", 1))

    with pytest.raises(
        InputError, match=r"nothing was merged: .*2.db: .* other values for the key 'a' than the target"
    ):
        run(target, good, other)
    assert games(target) == [("a", "mine", 1)]
    report = run(target, good, other, keep_target=True)
    assert report.tables == (_TableReport(name="games", inserted=2, conflicts=1),)
    assert ("a", "mine", 1) in games(target)


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        (("CREATE TABLE games (moves TEXT)",), "its table games has no primary key"),
        (("CREATE TABLE games (id TEXT, x TEXT PRIMARY KEY)",), "the target has no column x in its table games"),
        (("CREATE TABLE games (id TEXT, moves TEXT PRIMARY KEY)",), "the target has another primary key: id"),
        ((TABLE, "INSERT INTO games VALUES (NULL, '1', 1)"), "its table games has a row without a primary key"),
    ],
    ids=["no key", "column", "other key", "null"],
)
def test_a_source_that_does_not_fit_is_refused(tmp_path: Path, statements: Sequence[str], reason: str) -> None:
    """What cannot be merged by its key is not dropped in silence."""
    target, source = database(tmp_path / "t.db", ("a", "1", 1)), make(tmp_path / "s.db", *statements)

    with pytest.raises(InputError, match=reason):
        run(target, source)
    assert games(target) == [("a", "1", 1)]


def test_nothing_of_a_source_runs_and_no_trigger_of_the_target(tmp_path: Path) -> None:
    """Views, virtual and computed tables are named as skipped; a trigger on a merged table is refused."""
    source = database(tmp_path / "s.db", ("b", "2", 2))
    make(source, "CREATE VIEW v AS SELECT load_extension('x')", "CREATE VIRTUAL TABLE f USING fts5(x)")
    make(source, "CREATE TRIGGER t AFTER INSERT ON games BEGIN DELETE FROM games; END")
    make(source, "CREATE TABLE computed (id INTEGER PRIMARY KEY, x TEXT AS (upper(id)))")
    target = database(tmp_path / "t.db", ("a", "1", 1))

    report = run(target, source)
    assert report.skipped == ("computed", "f")
    assert games(target) == [("a", "1", 1), ("b", "2", 2)]
    make(target, "CREATE TRIGGER t AFTER INSERT ON games BEGIN DELETE FROM games; END")
    with pytest.raises(InputError, match="the target has a trigger on its table games"):
        run(target, database(tmp_path / "2.db", ("c", "3", 3)))


def test_a_source_must_be_what_its_checksum_says(tmp_path: Path) -> None:
    """Bytes that were flipped on the way are found before a row is read."""
    target, source = database(tmp_path / "t.db", ("a", "1", 1)), database(tmp_path / "s.db", ("b", "2", 2))
    good = hashlib.sha256(source.read_bytes()).hexdigest()

    with pytest.raises(InputError, match=f"its SHA-256 is {good}, not {'0' * 64}"):
        run(target, source, checksums={source: "0" * 64})
    run(target, source, checksums={source: good})
    assert len(games(target)) == 2


@pytest.mark.parametrize("name", ["t.db", "in-use.db", "nothing.db"])
def test_a_source_that_cannot_be_read_as_it_is_is_refused(tmp_path: Path, name: str) -> None:
    """The target itself, a database with a journal, and one that is not there."""
    target, _ = database(tmp_path / "t.db", ("a", "1", 1)), database(tmp_path / "in-use.db", ("b", "2", 2))
    (tmp_path / "in-use.db-wal").write_bytes(b"rows")
    reasons = {"t.db": "it is the target itself", "in-use.db": "still in in-use.db-wal", "nothing.db": "file not found"}

    with pytest.raises(InputError, match=reasons[name]):
        run(target, tmp_path / name)


def test_a_child_that_is_killed_leaves_the_target_as_it_was(tmp_path: Path) -> None:
    """Killed after each of several numbers of rows: the next reader sees the old rows, and a new merge succeeds."""
    target = database(tmp_path / "t.db", ("a", "1", 1))
    source = database(tmp_path / "s.db", *((f"b{number}", "x" * 200, number) for number in range(60_000)))

    for rows in (10_000, 30_000, 50_000):

        def kill(done: int, limit: int = rows) -> None:
            if done >= limit:
                [child] = psutil.Process().children()
                os.kill(child.pid, signal.SIGKILL)

        with pytest.raises(InputError, match="nothing was merged: the merge ended with signal 9"):
            run(target, source, on_rows=kill)
        assert games(target) == [("a", "1", 1)]
    assert run(target, source).tables[0].inserted == 60_000


def test_a_merge_has_an_end(tmp_path: Path) -> None:
    """A child that takes too long is killed, and no process stays behind."""
    target, source = database(tmp_path / "t.db", ("a", "1", 1)), database(tmp_path / "s.db", ("b", "2", 2))

    with pytest.raises(InputError, match=r"it is not done after 0\.001 s"):
        run(target, source, seconds_max=0.001)
    assert psutil.Process().children() == []
    assert games(target) == [("a", "1", 1)]


def test_a_target_that_another_program_has_made_is_not_overwritten(tmp_path: Path) -> None:
    """The file beside is dropped."""
    place, target = tmp_path / ".new.db.1.merge", database(tmp_path / "new.db", ("a", "1", 1))
    place.write_bytes(b"merged")

    with pytest.raises(InputError, match="was made by another program meanwhile"):
        merge_module._name_file(place, target)
    assert games(target) == [("a", "1", 1)]
