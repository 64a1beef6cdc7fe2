"""The compiled rules: invariants on every board, for one game and for many at once."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ringrift_reversi
from ringrift_reversi import engine
from ringrift_reversi.engine import Boards, Seats
from ringrift_reversi.topology import VARIANTS, start, topology, variant

PACKAGE = Path(inspect.getfile(ringrift_reversi)).parent


def positions(name: str, count: int, plies: int) -> tuple[Boards, Seats]:
    """Return boards after so many random plies, and the seat to move."""
    board, players = variant(name)
    boards = np.tile(start(board.name, players), (count, 1))
    to_move = np.zeros(count, np.int8)
    engine.playouts(boards, to_move, players, board.rays, np.arange(count, dtype=np.uint64), plies)
    return boards, to_move


@pytest.mark.parametrize("name", VARIANTS)
def test_legal_moves_turn_with_the_board(name: str) -> None:
    """A board that is turned or mirrored has its legal moves turned or mirrored with it."""
    board, _ = variant(name)
    boards, to_move = positions(name, 4, board.cells // 3)
    marks, turned = np.empty_like(boards, np.uint8), np.empty_like(boards, np.uint8)
    engine._legal_all(boards, to_move, board.rays, marks)
    for symmetry in board.symmetries:
        elsewhere = np.empty_like(boards)
        elsewhere[:, symmetry] = boards

        engine._legal_all(elsewhere, to_move, board.rays, turned)

        assert (turned[:, symmetry] == marks).all()
        assert marks.any(axis=1).all()


@pytest.mark.parametrize("name", VARIANTS)
def test_every_game_ends_within_as_many_plies_as_there_are_cells(name: str) -> None:
    """Each ply fills a cell; at the end no player can move, and the outcome shares out exactly one first place."""
    board, players = variant(name)
    boards, to_move = positions(name, 20, board.cells)
    shares = np.empty((20, players), np.float32)
    engine.outcome_all(boards, players, shares)

    assert (to_move == -1).all()
    assert not any(engine._can_move(each, seat, board.rays) for each in boards for seat in range(players))
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-6)


def test_random_moves_are_even() -> None:
    """Each of several legal moves is drawn as often as any other, wherever it lies on the board."""
    board, count = topology("square8"), 6000
    boards, to_move = positions("square8_2p", 1, 5)
    marks = np.empty(board.cells, np.uint8)
    moves = engine.legal(boards[0], int(to_move[0]), board.rays, marks)
    many, seats = np.repeat(boards, count, axis=0), np.repeat(to_move, count)

    engine.playouts(many, seats, 2, board.rays, np.arange(count, dtype=np.uint64) + np.uint64(99), 1)
    drawn = ((many > 0) & (boards[0] == 0)).sum(axis=0)

    assert (drawn > 0).tolist() == (marks > 0).tolist()
    spread = ((drawn[marks > 0] - count / moves) ** 2 / (count / moves)).sum()
    assert spread < 30  # chi squared of at most 20 degrees of freedom exceeds that once in 14


@pytest.mark.parametrize("name", ["square8_2p", "hex8_3p", "square8_4p"])
def test_many_games_go_as_one_does(name: str) -> None:
    """The forms for many games do to each row what those for one do to it, and leave finished games alone."""
    board, players = variant(name)
    boards, to_move = positions(name, 30, board.cells - 15)
    boards[0], to_move[0] = 1, -1
    marks = np.empty_like(boards, np.uint8)
    engine._legal_all(boards, to_move, board.rays, marks)
    cells = np.array([np.flatnonzero(row)[-1] if row.any() else -1 for row in marks], np.int16)
    one_by_one, seats = boards.copy(), to_move.copy()
    for row in np.flatnonzero(to_move >= 0):
        engine.apply(one_by_one[row], int(seats[row]), int(cells[row]), board.rays)
        seats[row] = engine.next_mover(one_by_one[row], int(seats[row]), players, board.rays)

    assert engine.apply_all(boards, to_move, cells, players, board.rays) == -1

    assert (boards == one_by_one).all()
    assert (to_move == seats).all()
    assert not marks[0].any()


@pytest.mark.parametrize("cell", [-1, 64, 0, 27])
def test_an_illegal_move_changes_nothing(cell: int) -> None:
    """Beside the board, without a flip, or on a disc: the row is named, it and those after it stay as they were."""
    board = topology("square8")
    boards, to_move = np.tile(start("square8", 2), (3, 1)), np.zeros(3, np.int8)
    before = boards[1:].copy()

    bad = engine.apply_all(boards, to_move, np.array([19, cell, 19], np.int16), 2, board.rays)

    assert bad == 1
    assert to_move.tolist() == [1, 0, 0]
    assert (boards[1:] == before).all()


def test_a_limit_on_plies_holds() -> None:
    """Exactly as many plies as allowed are played, and the player to move then can move."""
    board = topology("hex8")
    boards, to_move = positions("hex8_2p", 50, 8)

    assert ((boards > 0).sum(axis=1) == (start("hex8", 2) > 0).sum() + 8).all()
    assert all(engine._can_move(each, int(seat), board.rays) for each, seat in zip(boards, to_move, strict=True))


def test_compiled_code_calls_only_the_engine_across_files() -> None:
    """numba does not notice that another file changed; only the engine's content is part of the cache path."""
    for path in PACKAGE.glob("*.py"):
        tree = ast.parse(path.read_text())
        imported = {
            name.asname or name.name: node.module
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ringrift_reversi.")
            for name in node.names
        }
        compiled = [node for node in tree.body if isinstance(node, ast.FunctionDef) and is_compiled(node)]
        called = {
            (node.name, call.func.id)
            for node in compiled
            for call in ast.walk(node)
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        }
        strays = {pair for pair in called if imported.get(pair[1], engine.__name__) != engine.__name__}
        assert not strays, f"{path.name}: {strays}"


def is_compiled(node: ast.FunctionDef) -> bool:
    """Return whether numba compiles it."""
    return any("njit" in ast.unparse(mark) for mark in node.decorator_list)


LOOK = """
from ringrift_reversi import engine, topology
board = topology.start("square8", 2)
assert engine._can_move(board, 0, topology.topology("square8").rays)
"""


def test_compiled_code_is_cached_in_the_configured_folder(tmp_path: Path) -> None:
    """Nothing is written beside the source; the folder belongs to this engine's content."""
    environment = {"NUMBA_CACHE_DIR": str(tmp_path), "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}

    subprocess.run([sys.executable, "-c", LOOK], env=environment, timeout=100, check=True)

    assert [path.name for path in tmp_path.iterdir()] == [engine._CONTENT]
    assert {path.suffix for path in tmp_path.rglob("engine._can_move*")} == {".nbi", ".nbc"}
    assert not list((PACKAGE / "__pycache__").glob("engine.*.nb?"))
