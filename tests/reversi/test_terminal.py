"""A person can read the board, type a cell, take it back, and an opponent answers."""

import numpy as np
import pytest

from ringrift_reversi.net import new_net, save
from ringrift_reversi.terminal import Table, by_baseline, by_model, cell_name, cell_of, draw_board
from ringrift_reversi.topology import VARIANTS, topology

BOARDS = ("square8", "square19", "hex8", "hexagonal")


@pytest.mark.parametrize("board", BOARDS)
def test_every_cell_has_a_name_of_its_own(board: str) -> None:
    """Its name and its number both lead back to it."""
    shape = topology(board)

    names = [cell_name(shape, cell) for cell in range(shape.cells)]

    assert len(set(names)) == shape.cells
    assert [cell_of(shape, text) for text in names] == list(range(shape.cells))
    assert cell_of(shape, f" {names[5].upper()} ") == cell_of(shape, "5") == 5


def test_squares_are_named_as_in_othello() -> None:
    """Columns have letters, rows have numbers; the first player of Othello may begin with d3."""
    table = Table("square8_2p")

    assert [cell_name(table.shape, cell) for cell in table.moves()] == ["d3", "c4", "f5", "e6"]


@pytest.mark.parametrize("text", ["", "i1", "a0", "a9", "64", "-1", "²", "d", "3d", "d33"])
def test_an_invalid_cell_name_is_none(text: str) -> None:
    """Any other text reads as None."""
    assert cell_of(topology("square8"), text) is None


def test_a_square_is_drawn_with_coordinates_and_moves() -> None:
    """Discs, where the mover may play, and nothing else."""
    assert draw_board(Table("square8_2p")).split("\n") == [
        "   a b c d e f g h",
        " 1 . . . . . . . .",
        " 2 . . . . . . . .",
        " 3 . . . + . . . .",
        " 4 . . + O X . . .",
        " 5 . . . X O + . .",
        " 6 . . . . + . . .",
        " 7 . . . . . . . .",
        " 8 . . . . . . . .",
    ]


def test_a_hexagon_is_drawn_as_one() -> None:
    """Rows grow to the middle, and the middle begins at the left edge."""
    rows = draw_board(Table("hex8_2p")).split("\n")

    assert [len(row.split()) - 1 for row in rows] == [5, 6, 7, 8, 9, 8, 7, 6, 5]
    assert [len(row) - len(row.lstrip()) for row in rows] == [4, 3, 2, 1, 0, 1, 2, 3, 4]
    assert [row.split()[0] for row in rows] == list("abcdefghi")


@pytest.mark.parametrize("variant", sorted(VARIANTS))
def test_every_start_can_be_drawn_and_played(variant: str) -> None:
    """All cells are there, and marks are moves."""
    table = Table(variant)

    signs = "".join(draw_board(table).split("\n")[1:] if variant.startswith("square") else draw_board(table))
    assert signs.count("+") == len(table.moves()) > 0
    assert sum(signs.count(sign) for sign in "XO#@") == sum(table.counts())


def test_moves_can_be_taken_back() -> None:
    """To where the seat moved last, over what others have played since."""
    table = Table("hex8_3p")
    before = table.board.copy()
    for _ in range(5):
        table.play(table.moves()[0])

    assert table.undo(0)
    assert table.undo(0)
    assert table.mover == 0
    assert np.array_equal(table.board, before)
    assert not table.undo(0)


@pytest.mark.parametrize("variant", ["square8_2p", "hex8_3p"])
def test_a_game_reaches_its_end(variant: str) -> None:
    """Discs and shares of first place are shown, and no player may move any more."""
    table, choose = Table(variant), by_baseline("random", variant, 3)

    for _ in range(table.shape.cells):
        if not table.is_over:
            table.play(choose(table.board, table.mover).cell)

    assert table.is_over
    assert table.moves() == []
    assert sum(table.shares()) == pytest.approx(1.0)


def test_a_model_answers_with_its_expectation() -> None:
    """A legal move, each seat's share, and the same again for the same position."""
    table, data = Table("hex8_3p"), save(new_net("hex8_3p", 1), {})
    choose = by_model(data, "hex8_3p", 8)

    first, second = choose(table.board, table.mover), choose(table.board, table.mover)

    assert first.cell in table.moves()
    assert first == second
    assert sum(first.expected) == pytest.approx(1.0, abs=1e-4)


def test_an_invalid_player_is_refused_by_name() -> None:
    """A model of another variant, an invalid model, no simulations, an unknown baseline."""
    data = save(new_net("hex8_3p", 1), {})

    for bad, variant, sims, why in (
        (data, "hex8_2p", 8, "hex8_2p"),
        (b"x", "hex8_3p", 8, "safetensors"),
        (data, "hex8_3p", 0, "simulations"),
    ):
        with pytest.raises(ValueError, match=why):
            by_model(bad, variant, sims)
    with pytest.raises(ValueError, match="uct:200"):
        by_baseline("other", "hex8_2p", 0)
