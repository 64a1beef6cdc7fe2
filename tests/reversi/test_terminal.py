"""A person can read the board and type a cell, and an opponent answers."""

import pytest

from ringrift.workload.api import HasBoard
from ringrift_reversi.net import new_net, save
from ringrift_reversi.terminal import Position, begin
from ringrift_reversi.topology import VARIANTS
from ringrift_reversi.workload import Reversi

BOARDS = ("square8", "square19", "hex8", "hexagonal")


def choose(position: Position, model: bytes | None = None, baseline: str | None = None, sims: int = 4) -> int:
    """The cell that a player of reversi chooses."""
    return Reversi().choose(position.variant, position, model, baseline, sims, 7)


@pytest.mark.parametrize("board", BOARDS)
def test_every_cell_has_a_name_of_its_own(board: str) -> None:
    """No two cells share one, and a legal cell's name and number, in any case and with blanks, lead back to it."""
    position = begin(f"{board}_2p")

    names = [position.text(cell) for cell in range(position.shape.cells)]

    assert len(set(names)) == position.shape.cells
    for cell in position.legal():
        assert position.parse(f" {names[cell].upper()} ") == position.parse(str(cell)) == cell


def test_squares_are_named_as_in_othello() -> None:
    """Columns have letters, rows have numbers; the first player of Othello may begin with d3."""
    position = begin("square8_2p")

    assert [position.text(cell) for cell in position.legal()] == ["d3", "c4", "f5", "e6"]


@pytest.mark.parametrize("text", ["", "i1", "a0", "a1", "64", "-1", "²", "d", "3d", "d33"])
def test_a_text_that_names_no_legal_cell_is_an_error_with_the_legal_ones(text: str) -> None:
    """A cell that does not exist and one where the seat may not play."""
    with pytest.raises(ValueError, match=r"is not a legal move; cells \(marked \+\): d3, c4, f5, e6"):
        begin("square8_2p").parse(text)


def test_a_square_is_drawn_with_coordinates_moves_and_counts() -> None:
    """Discs, where the mover may play, who has how many, and who moves."""
    assert begin("square8_2p").render().split("\n") == [
        "   a b c d e f g h",
        " 1 . . . . . . . .",
        " 2 . . . . . . . .",
        " 3 . . . + . . . .",
        " 4 . . + O X . . .",
        " 5 . . . X O + . .",
        " 6 . . . . + . . .",
        " 7 . . . . . . . .",
        " 8 . . . . . . . .",
        "X 2   O 2   X to move",
    ]


def test_a_hexagon_is_drawn_as_one() -> None:
    """Rows grow to the middle, and the middle begins at the left edge."""
    rows = begin("hex8_2p").render().split("\n")[:-1]

    assert [len(row.split()) - 1 for row in rows] == [5, 6, 7, 8, 9, 8, 7, 6, 5]
    assert [len(row) - len(row.lstrip()) for row in rows] == [4, 3, 2, 1, 0, 1, 2, 3, 4]
    assert [row.split()[0] for row in rows] == list("abcdefghi")


@pytest.mark.parametrize("variant", sorted(VARIANTS))
def test_every_start_can_be_drawn_and_played(variant: str) -> None:
    """All cells are there, marks are moves, and the rows below count the discs."""
    position = begin(variant)

    *rows, counts = position.render().split("\n")
    signs = "".join(rows[1:] if variant.startswith("square") else rows)
    assert signs.count("+") == len(position.legal()) > 0
    assert [signs.count(sign) for sign in "XO#@"[: VARIANTS[variant][1]]] == position.scores()
    assert counts.endswith("X to move")


@pytest.mark.parametrize("variant", ["square8_2p", "hex8_3p"])
def test_a_game_reaches_its_end(variant: str) -> None:
    """A move makes another position and leaves this one; at the end there is no move any more."""
    position = begin(variant)
    for _ in range(position.shape.cells):
        if not position.is_over:
            cell, before = choose(position, baseline="random"), position.render()
            following = position.play(cell)
            assert (following, hash(following)) == (position.play(cell), hash(position.play(cell)))
            assert position.render() == before
            position = following

    assert position.is_over
    assert position.legal() == []
    assert "to move" not in position.render()


def test_a_model_answers_alike() -> None:
    """A legal move, and the same again for the same position."""
    position, data = begin("hex8_3p"), save(new_net("hex8_3p", 1), {})

    assert isinstance(Reversi(), HasBoard)
    assert choose(position, data) == choose(position, data)
    assert choose(position, data) in position.legal()


def test_an_invalid_player_is_refused_by_name() -> None:
    """A model of another variant, an invalid model, no simulations, an unknown baseline."""
    data = save(new_net("hex8_3p", 1), {})

    for bad, variant, sims, why in (
        (data, "hex8_2p", 8, "hex8_2p"),
        (b"x", "hex8_3p", 8, "safetensors"),
        (data, "hex8_3p", 0, "simulations"),
    ):
        with pytest.raises(ValueError, match=why):
            choose(begin(variant), bad, sims=sims)
    with pytest.raises(ValueError, match="uct:200"):
        choose(begin("hex8_2p"), baseline="other")
