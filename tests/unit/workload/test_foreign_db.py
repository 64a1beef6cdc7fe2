"""Databases from elsewhere: plain tables are read, and nothing of the file ever runs."""

import shutil
import sqlite3  # noqa: TID251 - makes the foreign files
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from ringrift.workload.foreign_db import find_journal, open_foreign
from ringrift.workload.game_files import read_games

GAMES = "CREATE TABLE games (id INTEGER PRIMARY KEY, variant TEXT, moves TEXT, result TEXT)"
ROW = "INSERT INTO games (variant, moves, result) VALUES ('hex8_2p', '[1, 60, 60]', '[1, 0]')"


def make(path: Path, *statements: str) -> Path:
    """A database in which *statements* were executed."""
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path


def rows(path: Path, table: str = "games", columns: Sequence[str] = ("variant", "moves")) -> list[tuple[object, ...]]:
    """The rows of a table that was checked."""
    with open_foreign(path) as database:
        database.check(table)
        return list(database.rows(table, columns))


def test_plain_tables_are_read_with_their_keys(tmp_path: Path) -> None:
    """Rows come in the order of storage, whatever an index would prefer."""
    other = "CREATE TABLE other (b TEXT, a TEXT, PRIMARY KEY (a, b)) WITHOUT ROWID"
    path = make(tmp_path / "a.db", GAMES, ROW, ROW.replace("hex8", "abc8"), "CREATE INDEX i ON games (variant, moves)")
    make(path, other)

    with open_foreign(path) as database:
        assert database.tables["games"].key == ("id",)
        assert database.tables["other"].columns, database.tables["other"].key == (("b", "a"), ("a", "b"))
    assert rows(path) == [("hex8_2p", "[1, 60, 60]"), ("abc8_2p", "[1, 60, 60]")]


@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TABLE t (x)", "CREATE VIEW games AS SELECT 1 variant, 2 moves, 3 result"),
        ("CREATE VIRTUAL TABLE games USING fts5(variant, moves, result)",),
        ("CREATE TABLE games (variant TEXT, moves TEXT, result TEXT AS (upper(variant)))",),
    ],
    ids=["view", "virtual", "generated"],
)
def test_what_would_run_is_no_table(tmp_path: Path, statements: Sequence[str]) -> None:
    """A view, a virtual table and a table with computed columns are not read."""
    path = make(tmp_path / "a.db", *statements)

    with open_foreign(path) as database:
        assert "games" not in database.tables
    with pytest.raises(ValueError, match="it has no table games"):
        list(read_games(path))


@pytest.mark.parametrize("call", ["load_extension(moves)", "harm(moves)"], ids=["extension", "foreign"])
def test_a_constraint_is_not_evaluated(tmp_path: Path, call: str) -> None:
    """A file that is read only has no use for constraints, whatever function is in them."""
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.create_function("harm", 1, bool, deterministic=True)
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(f"CREATE TABLE games (variant TEXT, moves TEXT CHECK ({call}), result TEXT)")
        connection.execute(ROW)
        connection.commit()

    assert [row.moves for row in read_games(path)] == [(1, 60, 60)]


def test_an_index_over_a_foreign_function_is_refused(tmp_path: Path) -> None:
    """Checking a table evaluates its indexes, which may use functions of SQLite alone."""
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.create_function("harm", 1, bool, deterministic=True)
        for statement in (GAMES, ROW, "CREATE INDEX i ON games (harm(moves))"):
            connection.execute(statement)
        connection.commit()

    with pytest.raises(ValueError, match=r"it cannot be read as a database: .*harm"):
        next(read_games(path))


def test_triggers_and_other_schemas_do_not_matter(tmp_path: Path) -> None:
    """They are there and never run: the file has the same bytes afterwards, and nothing lies beside it."""
    trigger = "CREATE TRIGGER t AFTER INSERT ON games BEGIN DELETE FROM games; END"
    path = make(tmp_path / "a.db", GAMES, ROW, trigger, "CREATE VIEW v AS SELECT load_extension('x')")
    before = path.read_bytes()

    assert len(rows(path)) == 1
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.db"]


@pytest.mark.parametrize(
    "statement", ["DELETE FROM games", "ATTACH ':memory:' AS b", "SELECT abs(1)", "PRAGMA user_version"]
)
def test_no_statement_but_a_read_is_allowed(tmp_path: Path, statement: str) -> None:
    """Whatever a defect of ours would ask for, the authorizer refuses."""
    path = make(tmp_path / "a.db", GAMES, ROW)

    with (
        pytest.raises(ValueError, match=r"not authorized|too many attached|prohibited"),
        open_foreign(path) as database,
    ):
        database._connection.execute(statement)


def test_a_file_that_was_cut_off_or_is_none_is_refused(tmp_path: Path) -> None:
    """Its header promises more pages than it has."""
    path = make(tmp_path / "a.db", GAMES, *[ROW] * 500)
    cut, text = tmp_path / "cut.db", tmp_path / "text.db"
    cut.write_bytes(path.read_bytes()[:-4096])
    text.write_bytes(b"no database, but long enough to have a header of a hundred bytes" * 3)

    with pytest.raises(ValueError, match="it is cut off or damaged"):
        rows(cut)
    with pytest.raises(ValueError, match="it is no SQLite database"):
        rows(text)


def test_a_damaged_page_is_refused_before_a_row_is_read(tmp_path: Path) -> None:
    """The check of the table comes first."""
    path = make(tmp_path / "a.db", GAMES, *[ROW] * 2000)
    data = bytearray(path.read_bytes())
    data[-4096 : -4096 + 8] = b"\xff" * 8
    path.write_bytes(data)

    with pytest.raises(ValueError, match=r"damaged|cannot be read"):
        next(read_games(path))


def test_any_flipped_bytes_are_rows_or_a_refusal(tmp_path: Path) -> None:
    """Two hundred files with random damage: each is read or refused, and none does anything else."""
    path, random = make(tmp_path / "a.db", GAMES, *[ROW] * 200), Random(17)
    whole, refusals = path.read_bytes(), 0
    for _ in range(200):
        data = bytearray(whole)
        for _ in range(random.randrange(1, 9)):
            data[random.randrange(len(data))] = random.randrange(256)
        path.write_bytes(data)
        try:
            assert len(list(read_games(path))) <= 200
        except ValueError:
            refusals += 1

    assert refusals > 50


def test_values_and_steps_have_limits(tmp_path: Path) -> None:
    """A value that is too large and a file that takes too long are refused."""
    path = make(tmp_path / "a.db", GAMES, *[ROW] * 20_000)
    large = make(tmp_path / "b.db", GAMES, "INSERT INTO games (moves) VALUES (zeroblob(20000000))")
    calls: list[int] = []

    with pytest.raises(ValueError, match="too big"):
        rows(large)
    with (
        pytest.raises(ValueError, match="takes too long"),
        open_foreign(path, lambda: calls.append(1), steps_max=1) as database,
    ):
        database.check("games")
    assert calls


def test_a_schema_has_a_limit(tmp_path: Path) -> None:
    """A thousand tables are enough."""
    path = make(tmp_path / "a.db", *(f"CREATE TABLE t{number} (x)" for number in range(1001)))

    with pytest.raises(ValueError, match="more than 1000 tables"), open_foreign(path):
        pass


def test_a_database_in_use_has_a_journal(tmp_path: Path) -> None:
    """Games in the journal would be missing, so it is found; the file alone is read as it is."""
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(GAMES)
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert find_journal(path) is None
        connection.execute(ROW)
        connection.commit()

        assert find_journal(path) == tmp_path / "a.db-wal"
        shutil.copy(path, tmp_path / "copy.db")
        assert rows(tmp_path / "copy.db") == []
