"""Files of games: rows of JSON or of a database, each right or refused by itself."""

import json
from pathlib import Path
from typing import Any

import pytest

from ringrift.workload.game_files import GameRow, read_games
from unit.workload.test_foreign_db import GAMES, make

GOOD: dict[str, Any] = {"variant": "hex8_2p", "moves": [1, "c4", 60], "result": [1, 0], "id": "mine"}


def read(path: Path, *rows: object) -> list[GameRow]:
    """What a file with the lines *rows* holds; text is a line as it stands."""
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return list(read_games(path))


def test_lines_of_json_are_games(tmp_path: Path) -> None:
    """Other fields are ignored, empty lines too; moves are numbers or names."""
    rows = read(tmp_path / "a", GOOD, "", GOOD | {"variant": "hex8_3p", "result": [0.5, 0, 0.5]})

    assert rows == [
        GameRow(1, "hex8_2p", (1, "c4", 60), (1.0, 0.0)),
        GameRow(3, "hex8_3p", (1, "c4", 60), (0.5, 0.0, 0.5)),
    ]


def test_rows_of_a_database_are_games(tmp_path: Path) -> None:
    """Moves and result are JSON in text; a row with other types is refused by itself."""
    insert = "INSERT INTO games (variant, moves, result) VALUES "
    good, bad = "('hex8_2p', '[1, \"c4\", 60]', '[1, 0]')", "('hex8_2p', x'00', 3)"
    path = make(tmp_path / "a.db", GAMES, insert + good, insert + bad, insert + "(NULL, CAST(x'ff' AS TEXT), '[1]')")

    first, *others = read_games(path)

    assert first == GameRow(1, "hex8_2p", (1, "c4", 60), (1.0, 0.0))
    assert [row.error.split(":")[0] for row in others] == [
        "its columns moves and result must be text of up to 1048576 characters",
        "it is no JSON",
    ]


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ("{", "it is no JSON"),
        ("[1, 2]", "it is no JSON object"),
        ('{"variant": "v", "moves": [1], "result": [NaN, 0]}', "NaN is no number"),
        ("[" * 100_000, "maximum recursion depth"),
        ('{"a": 1' + "0" * 5000 + "}", "Exceeds the limit"),
        (GOOD | {"variant": 3}, "it names no variant"),
        (GOOD | {"moves": []}, "its moves must be a list"),
        (GOOD | {"moves": "d3"}, "its moves must be a list"),
        (GOOD | {"moves": [1.0]}, "its moves must be actions by number or name, not 1.0"),
        (GOOD | {"moves": [True]}, "its moves must be actions by number or name, not True"),
        (GOOD | {"moves": [-1]}, "its moves must be actions by number or name, not -1"),
        (GOOD | {"moves": [65_536]}, "its moves must be actions by number or name, not 65536"),
        (GOOD | {"result": None}, "its result must be a list"),
        (GOOD | {"result": [1.5, 0]}, "its result must have shares from 0 to 1, not 1.5"),
        (GOOD | {"result": [10**400]}, "its result must have shares from 0 to 1"),
        (GOOD | {"result": ["1"]}, "its result must have shares from 0 to 1, not '1'"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_bad_row_costs_itself(tmp_path: Path, row: object, error: str) -> None:
    """Its error says what is wrong; the rows around it are read."""
    rows = read(tmp_path / "a", GOOD, row, GOOD)

    assert [bool(row.error) for row in rows] == [False, True, False]
    assert rows[1].error.startswith(error)


@pytest.mark.parametrize("data", [b"PK\3\4 a zip", b"\0" * 100, b'{"a": 1}\n\0', b"variant,moves\n"])
def test_another_file_is_refused_whole(tmp_path: Path, data: bytes) -> None:
    """Neither lines of JSON nor a database."""
    (tmp_path / "a").write_bytes(data)

    with pytest.raises(ValueError, match="it has neither lines of JSON nor a database of games"):
        list(read_games(tmp_path / "a"))


def test_a_line_has_a_limit(tmp_path: Path) -> None:
    """No line is read into memory without end."""
    (tmp_path / "a").write_bytes(b"{" + b" " * 2_000_000)

    with pytest.raises(ValueError, match="line 1 has more than 1048576 bytes"):
        list(read_games(tmp_path / "a"))
