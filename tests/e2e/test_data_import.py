"""Games from elsewhere by the command line: each counts once, before and while a run goes on."""

import json
import sqlite3  # noqa: TID251 - makes the foreign file
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from e2e.processes import PATIENCE_SECONDS, Home
from ringrift.events.data import Imported
from ringrift.events.selfplay import BatchFinished
from wait import until

V = "hex8_2p"


def game(number: int) -> dict[str, Any]:
    """A game of the fake that replays."""
    return {"variant": V, "moves": [number % 50, 50 + number // 50 % 9, 60, 59, 59], "result": [1, 0]}


def write(path: Path, numbers: Iterable[int]) -> str:
    """A file with the games of *numbers*."""
    path.write_text("".join(f"{json.dumps(game(number))}\n" for number in numbers), encoding="utf-8")
    return str(path)


def imported(home: Home) -> list[dict[str, Any]]:
    """The batches that were counted as imported."""
    rows = [json.loads(body) for (body,) in home.ask("SELECT body FROM log WHERE name = ?", BatchFinished.name())]
    return [row for row in rows if row.get("source")]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with one line, whose run has ended."""
    home = Home(tmp_path / "home")
    assert home.run("run", "--variants", V, "--iterations", "1", "--nodes", "1")[0] == 0
    return home


def test_a_file_that_grows_counts_what_is_new(home: Home, tmp_path: Path) -> None:
    """Without a running node the command does it itself; rows that do not replay are named."""
    file = tmp_path / "games.jsonl"
    first = home.run("data", "import", write(file, range(300)))
    again = home.run("data", "import", str(file))
    write(file, range(450))
    with file.open("a") as lines:
        lines.write('{"variant": "hex8_2p", "moves": [1, 2], "result": [1, 0]}\n')
    grown = home.run("data", "import", str(file))

    assert f"{file}: 300 new games of hex8_2p in 1 batches, all replayed" in first[1]
    assert "0 new games of hex8_2p" in again[1]
    assert "300 games were counted before" in again[1]
    assert f"{file}: 150 new games of hex8_2p" in grown[1]
    assert "row 451: it has no end" in grown[1]
    assert [code for code, _ in (first, again, grown)] == [0, 0, 0]
    assert [row["games"] for row in imported(home)] == [300, 150]


def test_a_running_node_counts_the_games_of_a_database(home: Home, tmp_path: Path) -> None:
    """The line gets the batch, copies it and counts its games; a table from another program is read the same way."""
    file = tmp_path / "games.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE games (id TEXT PRIMARY KEY, variant TEXT, moves TEXT, result TEXT)")
        rows = [(f"g{n}", V, json.dumps(game(n)["moves"]), json.dumps(game(n)["result"])) for n in range(40)]
        database.executemany("INSERT INTO games VALUES (?, ?, ?, ?)", rows)
        database.commit()
    node = home.start("node")
    until(lambda: home.ask("SELECT 1 FROM log WHERE name = 'node.joined'"), PATIENCE_SECONDS)

    code, output = home.run("data", "import", str(file), "--json")

    value = json.loads(output[output.index("{") :])
    assert (code, value["games"], value["pending"]) == (0, 40, False)
    query = "SELECT 1 FROM log WHERE name = 'data.synced' AND json_extract(body, '$.blob') = ?"
    until(lambda: home.ask(query, value["batches"][0]), PATIENCE_SECONDS)
    node.terminate()
    node.communicate(timeout=PATIENCE_SECONDS)
    assert node.returncode == 0


def test_a_file_that_is_no_good_is_an_error_and_counts_nothing(home: Home, tmp_path: Path) -> None:
    """It is refused with a reason, before or by the worker that reads it."""
    (tmp_path / "junk").write_bytes(b"\0\1\2" * 100)
    (tmp_path / "in-use.db").write_bytes(b"SQLite format 3\0")
    (tmp_path / "in-use.db-wal").write_bytes(b"games")
    results = {
        name: home.run("data", "import", str(tmp_path / name), *more)
        for name, more in {"junk": (), "in-use.db": (), "nothing": (), "junk ": ("--variant", "hex8_3p")}.items()
    }

    assert results["junk"][0] == 1
    assert "is refused: it has neither lines of JSON nor a database of games" in results["junk"][1]
    assert "a part of its games is still in in-use.db-wal" in results["in-use.db"][1]
    assert f"file not found: {tmp_path / 'nothing'}" in results["nothing"][1]
    assert [code for code, _ in results.values()] == [1, 2, 2, 2]
    assert imported(home) == []
    assert home.ask("SELECT 1 FROM log WHERE name = ?", Imported.name()) == []


def test_pending_games_count_only_if_the_variable_says_so(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lineage says which of the two it was."""
    file = tmp_path / "games.jsonl"
    write(file, range(10))
    monkeypatch.setenv("RINGRIFT_ALLOW_PENDING_GATE", "true")
    code, output = home.run("data", "import", str(file))

    assert code == 0
    assert "10 new games of hex8_2p in 1 batches, not replayed yet: export replays them" in output
    assert home.ask("SELECT DISTINCT settings FROM origins WHERE job_kind = 'ingest'") == [("pending",)]
