"""Terminal: a reversi board as text, cells as people name them, and opponents.

On a square a cell is its column's letter and its row's number, as in Othello: d3.  On a hexagon it is its row's letter
and its place in that row, from the left: c4.  The number of a cell, as records have it, is accepted too.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ringrift_reversi import baselines
from ringrift_reversi.engine import apply, legal, next_mover, outcome
from ringrift_reversi.evaluate import Evaluator
from ringrift_reversi.net import load
from ringrift_reversi.play_spec import SIMS_MAX
from ringrift_reversi.search import Search
from ringrift_reversi.topology import VARIANTS, Topology, start, topology
from ringrift_reversi.tree import I8

DISCS = "XO#@"
_EMPTY, _OPEN = ".", "+"


@dataclass(frozen=True, slots=True)
class Move:
    """A move, and each seat's expected share of first place if the player estimates it."""

    cell: int
    expected: tuple[float, ...] = ()


Choose = Callable[[I8, int], Move]
"""A board and the seat to move → the move."""


class Table:
    """The board of one game and its moves so far, which can be taken back."""

    def __init__(self, variant: str) -> None:
        board, self.players = VARIANTS[variant]
        self.shape = topology(board)
        self._past: list[tuple[I8, int]] = []
        self.board, self.mover = start(board, self.players), 0

    @property
    def is_over(self) -> bool:
        """Whether no seat can move any more."""
        return self.mover < 0

    def moves(self) -> list[int]:
        """The cells where the mover may play."""
        marks = np.zeros(self.shape.cells, np.uint8)
        if not self.is_over:
            legal(self.board, self.mover, self.shape.rays, marks)
        return [int(cell) for cell in np.flatnonzero(marks)]

    def play(self, cell: int) -> None:
        """Play *cell*, which is one of `moves`."""
        board = self.board.copy()
        flipped = apply(board, self.mover, cell, self.shape.rays)
        assert flipped > 0
        self._past.append((self.board, self.mover))
        self.board, self.mover = board, int(next_mover(board, self.mover, self.players, self.shape.rays))

    def undo(self, seat: int) -> bool:
        """Go back to where *seat* moved last; False if it never did."""
        for place in range(len(self._past) - 1, -1, -1):
            if self._past[place][1] == seat:
                self.board, self.mover = self._past[place]
                del self._past[place:]
                return True
        return False

    def counts(self) -> list[int]:
        """Each seat's discs."""
        return [int((self.board == seat + 1).sum()) for seat in range(self.players)]

    def shares(self) -> list[float]:
        """Each seat's share of first place, as the board stands."""
        shares = np.zeros(self.players, np.float32)
        outcome(self.board, self.players, shares)
        return [float(share) for share in shares]


def _is_square(shape: Topology) -> bool:
    """Whether the board fills its grid."""
    return shape.cells == shape.rows * shape.cols


def cell_name(shape: Topology, cell: int) -> str:
    """A cell as people write it."""
    row, col = divmod(int(shape.place[cell]), shape.cols)
    if _is_square(shape):
        return f"{_nth_letter(col)}{row + 1}"
    first = int(np.flatnonzero(shape.place // shape.cols == row)[0])
    return f"{_nth_letter(row)}{cell - first + 1}"


def cell_of(shape: Topology, text: str) -> int | None:
    """The cell that *text* names; None if it names none."""
    text = text.strip().lower()
    if text.isascii() and text.isdigit():
        return int(text) if int(text) < shape.cells else None
    return next((cell for cell in range(shape.cells) if cell_name(shape, cell) == text), None)


def _nth_letter(number: int) -> str:
    return chr(ord("a") + number)


def draw_board(table: Table, *, marked: bool = True) -> str:
    """The board in text: discs, and where the mover may play."""
    shape, moves = table.shape, set(table.moves()) if marked else set()
    signs = [DISCS[disc - 1] if disc else _OPEN if cell in moves else _EMPTY for cell, disc in enumerate(table.board)]
    rows: list[list[str]] = [[] for _ in range(shape.rows)]
    for cell, sign in enumerate(signs):
        rows[int(shape.place[cell]) // shape.cols].append(sign)
    if _is_square(shape):
        head = "   " + " ".join(_nth_letter(col) for col in range(shape.cols))
        return "\n".join([head, *(f"{row + 1:>2} {' '.join(line)}" for row, line in enumerate(rows))])
    middle = shape.rows // 2
    indent = [" " * abs(row - middle) for row in range(shape.rows)]
    return "\n".join(f"{indent[row]}{_nth_letter(row)} {' '.join(line)}" for row, line in enumerate(rows))


def by_model(data: bytes, variant: str, sims: int) -> Choose:
    """The model in *data*, with *sims* simulations a move.  Raises ValueError for bad values of either."""
    if not 1 <= sims <= SIMS_MAX:
        raise ValueError(f"simulations must lie between 1 and {SIMS_MAX}, not {sims}")
    evaluate = Evaluator(load(data, variant), rows=1)
    search, root = Search(variant, games=1, sims=sims), np.zeros(1, np.int64)

    def choose(board: I8, mover: int) -> Move:
        search.put(0, board.copy(), mover)
        result = search.run(root, evaluate, np.full(1, sims, np.int32))
        return Move(cell=int(result.cell[0]), expected=tuple(float(share) for share in result.value[0]))

    return choose


def by_baseline(name: str, variant: str, seed: int) -> Choose:
    """A baseline by its name.  Raises ValueError for an unknown one."""
    baselines.require_baseline(name)
    random = np.random.default_rng(seed)

    def choose(board: I8, mover: int) -> Move:
        seeds = random.integers(1 << 63, size=1, dtype=np.uint64)
        cells = baselines.choose(name, board[None], np.array([mover], np.int8), seeds, variant=variant)
        return Move(cell=int(cells[0]))

    return choose
