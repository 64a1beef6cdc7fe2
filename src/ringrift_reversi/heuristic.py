"""Heuristic: looks one move ahead, with six frozen weights that an evolution strategy has found.

For each legal move it weighs the board after it for its player: own discs against the mean of the others', by the kind
of cell they stand on, and own legal moves against the mean of the others'.  A corner is a cell with the fewest
neighbours; beside it on the border lie its C-cells, beside it inside its X-cell, on hexagons as on squares.  C and X
count only while their corner is empty, because their harm is to give it away.
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from ringrift_reversi.engine import Boards, Cells, Rays, Seats, Seeds, apply, draw, legal, outcome
from ringrift_reversi.topology import Topology, variant

_Weights = npt.NDArray[np.float64]

_Rules = tuple[int, Rays, npt.NDArray[np.int8], Cells]
"""Players, rays, and the kind and corner of each cell."""
NAMES = ("corner", "c", "x", "edge", "mobility", "discs")
"""The names of the weights, in order."""

# Found by `python -m ringrift_reversi.tune`: 45 generations of CMA-ES against greedy, started from zeros with seed 2.
# On 500 fresh openings from both seats they score 0.934 on square8_2p and 0.942 on hex8_2p.
_SQUARE = (8.049, -3.871, -4.419, 0.447, 0.606, 0.378)
_HEXAGON = (8.568, -2.463, -4.422, 0.525, 0.806, 0.223)

_CORNER, _C, _X, _EDGE, _PLAIN = range(5)
_MOBILITY, _DISCS = 4, 5
# More than any sum of weighed discs, so that a move that ends the game is judged by its result alone.
_OVER = 1e9


class _Kinds(NamedTuple):
    """The kind of each cell, and for C and X the corner they give away (-1 for others)."""

    kind: npt.NDArray[np.int8]
    corner: Cells


@cache
def _kinds(topology: Topology) -> _Kinds:
    """The kinds of a board's cells."""
    nearest = topology.rays[:, :, 0]
    neighbours = (nearest >= 0).sum(axis=1)
    is_corner, is_border = neighbours == neighbours.min(), neighbours < nearest.shape[1]
    corner = np.full(topology.cells, -1, np.int16)
    for cell in np.flatnonzero(is_corner):
        corner[nearest[cell][nearest[cell] >= 0]] = cell
    beside = corner >= 0
    kind = np.select([is_corner, beside & is_border, beside, is_border], [_CORNER, _C, _X, _EDGE], _PLAIN)
    return _Kinds(kind.astype(np.int8), corner)


def best(
    name: str, boards: Boards, to_move: Seats, seeds: Seeds, weights: Sequence[float] | _Weights | None = None
) -> Cells:
    """The best move by *weights* (the frozen ones if None) in each of many positions of the variant *name*.

    Ties are broken at random; -1 where the game is over.  Raises ValueError.
    """
    topology, players = variant(name)
    vector = np.asarray(_frozen(topology) if weights is None else weights, np.float64)
    assert vector.shape == (len(NAMES),)
    chosen = np.full(len(boards), -1, np.int16)
    _best_all(boards, to_move, (players, topology.rays, *_kinds(topology)), vector, seeds, chosen)
    return chosen


def _frozen(topology: Topology) -> tuple[float, ...]:
    """The weights for a board: those of the small board of its shape."""
    return _HEXAGON if topology.rays.shape[1] == 6 else _SQUARE


@numba.njit(cache=True)
def _best_all(boards: Boards, to_move: Seats, rules: _Rules, weights: _Weights, seeds: Seeds, chosen: Cells) -> None:
    players, rays, kind, corner = rules
    marks = np.empty(boards.shape[1], np.uint8)
    after = np.empty(boards.shape[1], np.int8)
    random = np.empty(1, np.uint64)
    for row in range(boards.shape[0]):
        seat = int(np.int64(to_move[row]))
        if seat < 0:
            continue
        random[0] = seeds[row]
        legal(boards[row], seat, rays, marks)
        most, alike = -np.inf, 0
        for cell in range(boards.shape[1]):
            if not marks[cell]:
                continue
            for index in range(boards.shape[1]):
                after[index] = boards[row, index]
            apply(after, seat, cell, rays)
            worth = _worth(after, seat, players, rays, kind, corner, weights)
            if worth > most:
                most, alike = worth, 0
            if worth == most:
                alike += 1
                if draw(random, alike) == 0:
                    chosen[row] = cell


@numba.njit(cache=True)
def _worth(
    board: Boards, seat: int, players: int, rays: Rays, kind: npt.NDArray[np.int8], corner: Cells, weights: _Weights
) -> float:
    """The worth of *board* to *seat*, which has just moved."""
    mobility, moves = _mobility(board, seat, players, rays)
    if moves == 0:
        shares = np.empty(players, np.float32)
        outcome(board, players, shares)
        return _OVER * float(shares[seat])
    worth = weights[_MOBILITY] * mobility
    for cell in range(board.size):
        if board[cell] == 0:
            continue
        weight = weights[_DISCS]
        effect = kind[cell]
        if effect in (_C, _X) and board[corner[cell]] != 0:
            effect = _EDGE if effect == _C else _PLAIN
        if effect != _PLAIN:
            weight += weights[effect]
        worth += weight if board[cell] == seat + 1 else -weight / (players - 1)
    return float(worth)


@numba.njit(cache=True)
def _mobility(board: Boards, seat: int, players: int, rays: Rays) -> tuple[float, int]:
    """Own legal moves less the mean of the others', and those of all players together."""
    marks = np.empty(board.size, np.uint8)
    lead, moves = 0.0, 0
    for other in range(players):
        count = legal(board, other, rays, marks)
        moves += count
        lead += count if other == seat else -count / (players - 1)
    return lead, moves
