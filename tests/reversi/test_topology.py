"""Boards fit together: rays, grids and symmetries agree, and every start is fair."""

import numpy as np
import pytest

from reversi import reference
from ringrift_reversi.topology import VARIANTS, start, topology, variant

BOARDS = ("square8", "square19", "hex8", "hexagonal")


@pytest.mark.parametrize(
    ("board", "cells", "directions", "longest", "side", "symmetries"),
    [
        ("square8", 64, 8, 7, 8, 8),
        ("square19", 361, 8, 18, 19, 8),
        ("hex8", 61, 6, 8, 9, 12),
        ("hexagonal", 469, 6, 24, 25, 12),
    ],
)
def test_boards_have_their_sizes(
    board: str, cells: int, directions: int, longest: int, side: int, symmetries: int
) -> None:
    """Cells, rays, grid and symmetries have the shapes that all code builds against."""
    cells_of = topology(board)

    assert (cells_of.name, cells_of.cells, cells_of.rows, cells_of.cols) == (board, cells, side, side)
    assert cells_of.rays.shape == (cells, directions, longest)
    assert cells_of.place.shape == (cells,)
    assert cells_of.symmetries.shape == (symmetries, cells)
    assert {cells_of.rays.dtype, cells_of.place.dtype, cells_of.symmetries.dtype} == {np.dtype(np.int16)}


def test_there_are_twelve_variants() -> None:
    """Four boards for two, three and four players, named board_players."""
    assert len(VARIANTS) == 12
    assert VARIANTS["hexagonal_3p"] == ("hexagonal", 3)
    assert all(name == f"{board}_{players}p" for name, (board, players) in VARIANTS.items())


@pytest.mark.parametrize("board", BOARDS)
def test_every_step_of_a_ray_is_the_same_step_on_the_grid(board: str) -> None:
    """A direction is one shift of row and column, and a ray ends only where the board does."""
    cells_of = topology(board)
    rows, cols = np.divmod(cells_of.place.astype(int), cells_of.cols)
    at = {(row, col): cell for cell, (row, col) in enumerate(zip(rows, cols, strict=True))}
    for along in range(cells_of.rays.shape[1]):
        first = cells_of.rays[:, along, 0]
        some = int(np.flatnonzero(first >= 0)[0])
        step = (rows[first[some]] - rows[some], cols[first[some]] - cols[some])
        for cell in range(cells_of.cells):
            expected = []
            row, col = rows[cell] + step[0], cols[cell] + step[1]
            while (row, col) in at:
                expected.append(at[row, col])
                row, col = row + step[0], col + step[1]
            padding = [-1] * (cells_of.rays.shape[2] - len(expected))

            assert cells_of.rays[cell, along].tolist() == expected + padding


@pytest.mark.parametrize("board", BOARDS)
def test_symmetries_take_rays_to_rays(board: str) -> None:
    """Each is another rearrangement of the cells that keeps all lines; the first leaves everything where it is."""
    cells_of = topology(board)
    padded = np.append(cells_of.symmetries, np.full((len(cells_of.symmetries), 1), -1, np.int16), axis=1)

    assert cells_of.symmetries[0].tolist() == list(range(cells_of.cells))
    assert len({tuple(symmetry) for symmetry in cells_of.symmetries.tolist()}) == len(cells_of.symmetries)
    for symmetry in padded:
        assert sorted(symmetry[:-1].tolist()) == list(range(cells_of.cells))
        moved, there = symmetry[cells_of.rays], cells_of.rays[symmetry[:-1]]
        order = [sorted(map(tuple, rays)) for rays in moved[:: cells_of.cells // 20].tolist()]
        assert order == [sorted(map(tuple, rays)) for rays in there[:: cells_of.cells // 20].tolist()]


@pytest.mark.parametrize("name", VARIANTS)
def test_every_player_can_move_at_the_start(name: str) -> None:
    """Every player has as many discs as every other, and a legal move."""
    board, players = VARIANTS[name]
    discs, rays = start(board, players).tolist(), topology(board).rays.tolist()

    assert len({discs.count(seat + 1) for seat in range(players)}) == 1
    assert all(reference.legal(discs, seat, rays) for seat in range(players))


@pytest.mark.parametrize("name", VARIANTS)
def test_seats_are_symmetric_where_the_board_allows(name: str) -> None:
    """A symmetry takes any player's discs to any other's; three on a square look the same from four sides instead."""
    board, players = VARIANTS[name]
    discs, symmetries = start(board, players), topology(board).symmetries
    occupied = [frozenset(np.flatnonzero(discs == seat + 1).tolist()) for seat in range(players)]
    images = [[frozenset(symmetry[list(cells)].tolist()) for cells in occupied] for symmetry in symmetries]

    if players == 3 and board.startswith("square"):
        assert all(images[turn] == occupied for turn in range(4))
    else:
        onto = [after for after in images if set(after) == set(occupied)]
        assert all(
            any(after[seat_a] == occupied[seat_b] for after in onto)
            for seat_a in range(players)
            for seat_b in range(players)
        )


@pytest.mark.parametrize("name", VARIANTS)
def test_every_cell_can_come_into_play(name: str) -> None:
    """No cell stays empty for want of two others in line: every cell of the board can hold a disc."""
    board, players = VARIANTS[name]
    rays = topology(board).rays
    reached = start(board, players) > 0
    for _ in range(len(reached)):
        near, next_to = rays[:, :, 0], rays[:, :, 1]
        reached |= ((next_to >= 0) & reached[near] & reached[next_to]).any(axis=1)

    assert reached.all()


def test_a_start_is_the_callers_own() -> None:
    """Writing on a start position does not change the next one."""
    start("hex8", 2)[:] = 1

    assert (start("hex8", 2) == 0).any()


def test_unknown_boards_and_variants_are_named() -> None:
    """The error for a misspelt name lists the existing ones."""
    with pytest.raises(ValueError, match="unknown board 'square9'; known: hex8"):
        topology("square9")
    with pytest.raises(ValueError, match="unknown variant 'hex8_5p'"):
        start("hex8", 5)
    with pytest.raises(ValueError, match="unknown variant 'hex8'"):
        variant("hex8")
