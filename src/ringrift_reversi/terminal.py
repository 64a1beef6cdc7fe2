"""Terminal: a reversi position as text, cells as people name them, and players that choose one.

On a square a cell is its column's letter and its row's number, as in Othello: d3.  On a hexagon it is its row's letter
and its place in that row, from the left: c4.  The number of a cell, as records have it, is accepted too.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ringrift_reversi import baselines
from ringrift_reversi.engine import apply, legal, next_mover
from ringrift_reversi.evaluate import Evaluator
from ringrift_reversi.net import Net, load
from ringrift_reversi.play_spec import SIMS_MAX
from ringrift_reversi.search import Search
from ringrift_reversi.topology import VARIANTS, Topology, start, topology
from ringrift_reversi.tree import I8

_DISCS = "XO#@"
_EMPTY, _OPEN = ".", "+"


@dataclass(frozen=True, slots=True)
class Position:
    """A position of *variant*; the seat is -1 once no seat can move any more."""

    variant: str
    discs: bytes
    seat: int = 0

    @property
    def board(self) -> I8:
        """The cells as an array: 0, or a seat's number from 1."""
        return np.frombuffer(self.discs, np.int8)

    @property
    def shape(self) -> Topology:
        """The board's cells and rays."""
        return topology(VARIANTS[self.variant][0])

    @property
    def is_over(self) -> bool:
        """Whether no seat can move any more."""
        return self.seat < 0

    def legal(self) -> list[int]:
        """The cells where the seat may play."""
        marks = np.zeros(self.shape.cells, np.uint8)
        if not self.is_over:
            legal(self.board, self.seat, self.shape.rays, marks)
        return [int(cell) for cell in np.flatnonzero(marks)]

    def play(self, action: int) -> "Position":
        """The position after a disc on the cell *action*."""
        board, rays = self.board.copy(), self.shape.rays
        flipped = apply(board, self.seat, action, rays)
        assert flipped > 0
        mover = int(next_mover(board, self.seat, VARIANTS[self.variant][1], rays))
        return Position(self.variant, board.tobytes(), mover)

    def scores(self) -> list[float]:
        """Each seat's discs."""
        return [float(self.discs.count(seat + 1)) for seat in range(VARIANTS[self.variant][1])]

    def render(self) -> str:
        """The board, with + where the seat may play, and how many discs each seat has."""
        counts = "   ".join(f"{disc} {score:g}" for disc, score in zip(_DISCS, self.scores(), strict=False))
        return f"{_draw_board(self)}\n{counts}" + ("" if self.is_over else f"   {_DISCS[self.seat]} to move")

    def text(self, action: int) -> str:
        """A cell as people write it."""
        shape = self.shape
        row, col = divmod(int(shape.place[action]), shape.cols)
        if _is_square(shape):
            return f"{_nth_letter(col)}{row + 1}"
        first = int(np.flatnonzero(shape.place // shape.cols == row)[0])
        return f"{_nth_letter(row)}{action - first + 1}"

    def parse(self, text: str) -> int:
        """The legal cell that *text* names.  Raises ValueError."""
        text, moves = text.strip().lower(), self.legal()
        names = {name: cell for cell in moves for name in (self.text(cell), str(cell))}
        if text not in names:
            cells = ", ".join(self.text(cell) for cell in moves)
            raise ValueError(f"{text[:20]!r} is not a legal move; cells (marked {_OPEN}): {cells or 'none'}")
        return names[text]


def begin(variant: str) -> Position:
    """The first position of *variant*."""
    return Position(variant, start(*VARIANTS[variant]).tobytes())


def _is_square(shape: Topology) -> bool:
    """Whether the board fills its grid."""
    return shape.cells == shape.rows * shape.cols


def _nth_letter(number: int) -> str:
    return chr(ord("a") + number)


def _draw_board(position: Position) -> str:
    """The board in text: discs, and where the mover may play."""
    shape, moves = position.shape, set(position.legal())
    rows: list[list[str]] = [[] for _ in range(shape.rows)]
    for cell, disc in enumerate(position.discs):
        sign = _DISCS[disc - 1] if disc else _OPEN if cell in moves else _EMPTY
        rows[int(shape.place[cell]) // shape.cols].append(sign)
    if _is_square(shape):
        head = "   " + " ".join(_nth_letter(col) for col in range(shape.cols))
        return "\n".join([head, *(f"{row + 1:>2} {' '.join(line)}" for row, line in enumerate(rows))])
    middle = shape.rows // 2
    indent = [" " * abs(row - middle) for row in range(shape.rows)]
    return "\n".join(f"{indent[row]}{_nth_letter(row)} {' '.join(line)}" for row, line in enumerate(rows))


@lru_cache(maxsize=2)
def _loaded(data: bytes, variant: str) -> Net:
    return load(data, variant)


def choose_by_model(position: Position, data: bytes, sims: int) -> int:
    """The cell that the model in *data* chooses with *sims* simulations.  Raises ValueError for either."""
    if not 1 <= sims <= SIMS_MAX:
        raise ValueError(f"simulations must lie between 1 and {SIMS_MAX}, not {sims}")
    evaluate = Evaluator(_loaded(data, position.variant), rows=1)
    search = Search(position.variant, games=1, sims=sims)
    search.put(0, position.board.copy(), position.seat)
    return int(search.run(np.zeros(1, np.int64), evaluate, np.full(1, sims, np.int32)).cell[0])


def choose_by_baseline(position: Position, name: str, seed: int) -> int:
    """The cell that a baseline chooses.  Raises ValueError for an unknown one."""
    seeds = np.array([seed % 2**64], np.uint64)
    mover = np.array([position.seat], np.int8)
    return int(baselines.choose(name, position.board[None], mover, seeds, variant=position.variant)[0])
