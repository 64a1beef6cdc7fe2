"""Match: numbered openings, each played from every seat by players without any noise.

Block n of a seed is always the same opening, whichever blocks are asked for together.  The openings of a seed are all
different: they are drawn in order from number 0, and one whose position came before is drawn again.  What a player does
hangs on the position alone, so a block has the same scores whenever and wherever it is played.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ringrift.workload.api import Block
from ringrift_reversi import baselines, chance
from ringrift_reversi.engine import apply_all, outcome_all
from ringrift_reversi.evaluate import Evaluator
from ringrift_reversi.net import Net
from ringrift_reversi.search import Search
from ringrift_reversi.topology import VARIANTS, start, topology
from ringrift_reversi.tree import F32, I8

OPENING_PLIES = 8
NUMBER_MAX = 1_000_000
WAVE = 64
"""Blocks that are played at the same time."""
_PATIENCE = 8  # draws of the same number of plies before an opening gets one more


def _silent() -> None:
    """Nobody waits for a sign of life."""


class Player(Protocol):
    """Chooses moves in many positions at once."""

    def choose(self, boards: I8, to_move: I8) -> npt.NDArray[np.int16]:
        """A legal cell for each position; none of them is over."""


class NetPlayer:
    """A network with *sims* simulations a move."""

    def __init__(self, net: Net, *, sims: int, dtype: str, rows: int, pulse: Callable[[], None] = _silent) -> None:
        self._evaluate = Evaluator(net, rows=rows, dtype=dtype)
        self._search = Search(net.variant, games=rows, sims=sims)
        self._sims, self._pulse = sims, pulse

    def choose(self, boards: I8, to_move: I8) -> npt.NDArray[np.int16]:
        for row in range(len(boards)):
            self._search.put(row, boards[row], int(to_move[row]))
        return self._search.run(np.arange(len(boards)), self._said, np.full(len(boards), self._sims, np.int32)).cell

    def _said(self, boards: I8, to_move: I8) -> tuple[F32, F32]:
        self._pulse()
        return self._evaluate(boards, to_move)


class BaselinePlayer:
    """A player that never trains; its chance is drawn from the position and *salt*."""

    def __init__(self, name: str, variant: str, salt: int, pulse: Callable[[], None] = _silent) -> None:
        self._name, self._variant, self._salt, self._pulse = name, variant, salt, pulse

    def choose(self, boards: I8, to_move: I8) -> npt.NDArray[np.int16]:
        seeds = baselines.position_seeds(boards, to_move, self._salt)
        cells = np.empty(len(boards), np.int16)
        for row in range(len(boards)):  # one by one: the strongest take a second a move on the largest boards
            self._pulse()
            one = slice(row, row + 1)
            cells[one] = baselines.choose(self._name, boards[one], to_move[one], seeds[one], variant=self._variant)
        return cells


def openings(variant: str, seed: int, count: int, plies: int = OPENING_PLIES) -> tuple[I8, I8]:
    """The first *count* openings of *seed*: boards and who moves there."""
    board, players = VARIANTS[variant]
    shape, begin = topology(board), start(board, players)
    boards, movers = np.zeros((count, shape.cells), np.int8), np.zeros(count, np.int8)
    moves, seen = np.zeros(shape.cells, np.uint16), set[bytes]()
    for number in range(count):
        for attempt in range(_PATIENCE * shape.cells):
            drawn = begin.copy()
            own = int(chance.mixed(seed, number, attempt))
            length = min(plies + attempt // _PATIENCE, shape.cells // 2)
            mover = chance.opening(drawn, length, players, shape.rays, own, moves)
            key = drawn.tobytes() + bytes([mover + 1])
            if mover >= 0 and key not in seen:
                break
        else:
            raise ValueError(f"{variant} has no {count} openings of {plies} plies and more")
        seen.add(key)
        boards[number], movers[number] = drawn, mover
    return boards, movers


def play(
    variant: str, candidate: Player, champion: Player, boards: I8, movers: I8, numbers: Sequence[int],
    going: Callable[[], bool],
) -> list[Block]:  # fmt: skip
    """Each opening from every seat; nothing if *going* says no on the way."""
    name, players = VARIANTS[variant]
    rays = topology(name).rays
    boards, movers = boards.repeat(players, 0), movers.repeat(players)
    seats = np.tile(np.arange(players, dtype=np.int8), len(numbers))
    while (movers >= 0).any():
        if not going():
            return []
        cells = np.full(len(boards), -1, np.int16)
        live = movers >= 0
        for player, rows in ((candidate, live & (movers == seats)), (champion, live & (movers != seats))):
            if rows.any():
                cells[rows] = player.choose(boards[rows], movers[rows])
        wrong = apply_all(boards, movers, cells, players, rays)
        assert wrong < 0, "a player made an illegal move"
    shares = np.zeros((len(boards), players), np.float32)
    outcome_all(boards, players, shares)
    rows = np.arange(len(boards))
    scores = shares[rows, seats].astype(float).reshape(len(numbers), players).tolist()
    ranks = _ranks(boards, players)[rows, seats].reshape(len(numbers), players).tolist()
    return [Block(number, tuple(scores[row]), tuple(ranks[row])) for row, number in enumerate(numbers)]


def _ranks(boards: I8, players: int) -> npt.NDArray[np.float64]:
    """For each seat of finished games, the share of the others that it has more discs than; as many is half."""
    discs = (boards[:, :, None] == np.arange(1, players + 1)).sum(1)
    ahead = np.sign(discs[:, :, None] - discs[:, None, :]).sum(2)
    share: npt.NDArray[np.float64] = (ahead / (players - 1) + 1.0) / 2.0
    return share


def waves(
    variant: str, candidate: Player, champion: Player, *, seed: int, first: int, count: int, plies: int,
    going: Callable[[], bool], together: int = WAVE,
) -> Iterator[list[Block]]:  # fmt: skip
    """The blocks from *first* on, *together* at a time; it ends early when *going* says no."""
    boards, movers = openings(variant, seed, first + count, plies)
    for begin in range(first, first + count, together):
        end = min(begin + together, first + count)
        blocks = play(variant, candidate, champion, boards[begin:end], movers[begin:end], range(begin, end), going)
        if not blocks:
            return
        yield blocks
