"""Game files: games from elsewhere, one row each, as JSON lines or in an SQLite database.

    {"variant": "square8_2p", "moves": [19, 18, …], "result": [1, 0]}          a line of JSON
    games(variant TEXT, moves TEXT, result TEXT)                               a table; moves and result are JSON

A move is the number of an action, or its name where the game has such; passes are left out.  The result is each seat's
share of first place.  Other fields and columns are ignored.  ``docs/howto/game-files.md`` is the whole format.
A row that is wrong costs itself; a file that is damaged is refused whole.  Standard library only.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from ringrift.workload.foreign_db import MAGIC, open_foreign

FORMATS = ("jsonl", "sqlite")
_LINE_BYTES_MAX = 1024 * 1024
_MOVES_MAX = 10_000
_SEATS_MAX = 64
_NAME_CHARACTERS_MAX = 20
_TABLE, _COLUMNS = "games", ("variant", "moves", "result")
_ROWS_PER_CALL = 1000


class GameRow(NamedTuple):
    """A game as its file tells it; *error* is what is wrong with its row, and then the rest is empty."""

    number: int  #: Of its line or row, from 1.
    variant: str = ""
    moves: tuple[int | str, ...] = ()
    result: tuple[float, ...] = ()
    error: str = ""


def read_games(path: Path, on_progress: Callable[[], object] = lambda: None) -> Iterator[GameRow]:
    """Every row of the file *path*; *on_progress* is called from time to time.

    Raises ValueError, at the beginning or later, if it is no such file or is damaged.
    """
    with path.open("rb") as file:
        is_database = file.read(len(MAGIC)) == MAGIC
    return (_read_database if is_database else _read_lines)(path, on_progress)


def _read_lines(path: Path, on_progress: Callable[[], object]) -> Iterator[GameRow]:
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(_LINE_BYTES_MAX + 1), b""), 1):
            if len(line) > _LINE_BYTES_MAX:
                raise ValueError(f"line {number} has more than {_LINE_BYTES_MAX} bytes")
            if b"\0" in line or (number == 1 and not line.lstrip(b"\xef\xbb\xbf \t\r").startswith((b"{", b"\n"))):
                raise ValueError("it has neither lines of JSON nor a database of games")
            if line.strip():
                yield _parse(number, _decode, line.lstrip(b"\xef\xbb\xbf"))
            if number % _ROWS_PER_CALL == 0:
                on_progress()


def _read_database(path: Path, on_progress: Callable[[], object]) -> Iterator[GameRow]:
    with open_foreign(path, on_progress, lenient=True) as database:
        table = database.tables.get(_TABLE)
        if table is None or not set(_COLUMNS) <= set(table.columns):
            raise ValueError(f"it has no table {_TABLE} with the columns {', '.join(_COLUMNS)}")
        database.check(_TABLE)
        for number, row in enumerate(database.rows(_TABLE, _COLUMNS), 1):
            yield _parse(number, _decode_row, row)
            if number % _ROWS_PER_CALL == 0:
                on_progress()


def _parse(number: int, decode: Callable[[Any], Any], row: Any) -> GameRow:
    try:
        fields = decode(row)
        if not isinstance(fields, dict):
            raise ValueError("it is no JSON object")
        variant = fields.get("variant")
        if not isinstance(variant, str) or not variant:
            raise ValueError("it names no variant")
        return GameRow(number, variant, _moves(fields.get("moves")), _result(fields.get("result")))
    except (ValueError, RecursionError) as error:
        return GameRow(number, error=f"{error!s:.120}")


def _decode_row(row: tuple[object, ...]) -> dict[str, Any]:
    variant, *texts = row
    if not all(isinstance(text, str) and len(text) <= _LINE_BYTES_MAX for text in texts):
        raise ValueError(f"its columns moves and result must be text of up to {_LINE_BYTES_MAX} characters")
    moves, result = (_decode(str(text).encode()) for text in texts)
    return {"variant": variant, "moves": moves, "result": result}


def _decode(data: bytes) -> Any:
    try:
        return json.loads(data, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON: {error.msg}") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _moves(value: object) -> tuple[int | str, ...]:
    if not isinstance(value, list) or not 0 < len(value) <= _MOVES_MAX:
        raise ValueError(f"its moves must be a list of 1 to {_MOVES_MAX}")
    for move in value:
        is_name = isinstance(move, str) and 0 < len(move) <= _NAME_CHARACTERS_MAX
        if not is_name and (type(move) is not int or not 0 <= move < 2**16):
            raise ValueError(f"its moves must be actions by number or name, not {move!r:.40}")
    return tuple(value)


def _result(value: object) -> tuple[float, ...]:
    if not isinstance(value, list) or not 0 < len(value) <= _SEATS_MAX:
        raise ValueError("its result must be a list with each seat's share of first place")
    for share in value:
        if type(share) not in (int, float) or not 0 <= share <= 1:
            raise ValueError(f"its result must have shares from 0 to 1, not {share!r:.40}")
    return tuple(map(float, value))
