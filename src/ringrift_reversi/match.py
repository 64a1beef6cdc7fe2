"""Match: numbered openings, each played from every seat by players without any noise.

Block n of a seed is always the same opening, whichever blocks are requested together.  The openings of a seed are all
different: they are drawn in order from number 0, and one whose position came before is drawn again.  A move
depends on the position alone, so a block has the same scores whenever and wherever it is played.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ringrift.workload.api import Block
from ringrift_reversi import baselines, rng
from ringrift_reversi.engine import apply_all, outcome_all
from ringrift_reversi.evaluate import Evaluator
from ringrift_reversi.net import Net
from ringrift_reversi.search import Search
from ringrift_reversi.topology import VARIANTS, start, topology
from ringrift_reversi.tree import F32, I8
from ringrift_reversi.workload import OPENING_PLIES

NUMBER_MAX = 1_000_000
WAVE = 64
"""Blocks that are played at the same time."""
_DRAWS_MAX = 8  # draws of the same number of plies before an opening gets one more


def _no_heartbeat() -> None:
    """Do nothing: no lease has to be kept alive."""


class Player(Protocol):
    """Chooses moves in many positions at once."""

    def choose(self, boards: I8, to_move: I8) -> npt.NDArray[np.int16]:
        """A legal cell for each position; none of them is over."""


_Pair = tuple[Player, Player]
"""The candidate, which has one seat, and the champion, which has all others."""
_Positions = tuple[I8, I8]
"""Boards [N, cells] and movers [N]."""


class NetPlayer:
    """A network with *sims* simulations a move."""

    def __init__(self, net: Net, *, sims: int, dtype: str, rows: int, beat: Callable[[], None] = _no_heartbeat) -> None:
        self._evaluate = Evaluator(net, rows=rows, dtype=dtype)
        self._search = Search(net.variant, games=rows, sims=sims)
        self._sims, self._heartbeat = sims, beat

    def choose(self, boards: I8, to_move: I8) -> npt.NDArray[np.int16]:
        for row in range(len(boards)):
            self._search.put(row, boards[row], int(to_move[row]))
        sims = np.full(len(boards), self._sims, np.int32)
        return self._search.run(np.arange(len(boards)), self._evaluate_batch, sims).cell

    def _evaluate_batch(self, boards: I8, to_move: I8) -> tuple[F32, F32]:
        self._heartbeat()
        return self._evaluate(boards, to_move)


class BaselinePlayer:
    """A player that never trains; its random numbers depend on the position and *salt*."""

    def __init__(self, name: str, variant: str, salt: int, beat: Callable[[], None] = _no_heartbeat) -> None:
        self._name, self._variant, self._salt, self._heartbeat = name, variant, salt, beat

    def choose(self, boards: I8, to_move: I8) -> npt.NDArray[np.int16]:
        seeds = baselines.position_seeds(boards, to_move, self._salt)
        cells = np.empty(len(boards), np.int16)
        for number in range(len(boards)):  # each alone: the strongest take a second a move on the largest boards
            self._heartbeat()
            row = slice(number, number + 1)
            cells[row] = baselines.choose(self._name, boards[row], to_move[row], seeds[row], variant=self._variant)
        return cells


def openings(variant: str, seed: int, count: int, plies: int = OPENING_PLIES) -> _Positions:
    """The first *count* openings of *seed*: boards and movers."""
    board, players = VARIANTS[variant]
    shape, begin = topology(board), start(board, players)
    boards, movers = np.zeros((count, shape.cells), np.int8), np.zeros(count, np.int8)
    moves, positions = np.zeros(shape.cells, np.uint16), set[bytes]()
    for number in range(count):
        for attempt in range(_DRAWS_MAX * shape.cells):
            discs = begin.copy()
            own_seed = int(rng.mix(seed, number, attempt))
            length = min(plies + attempt // _DRAWS_MAX, shape.cells // 2)
            mover = rng.opening(discs, length, players, shape.rays, own_seed, moves)
            key = discs.tobytes() + bytes([mover + 1])
            if mover >= 0 and key not in positions:
                break
        else:
            raise ValueError(f"{variant} does not have {count} different openings of {plies} plies or more")
        positions.add(key)
        boards[number], movers[number] = discs, mover
    return boards, movers


def waves(
    variant: str, pair: _Pair, openings: _Positions, *, first: int, should_go_on: Callable[[], bool], size: int = WAVE
) -> Iterator[list[Block]]:
    """The blocks of the *openings* from *first* on, *size* at a time; it ends early if *should_go_on* is false."""
    boards, movers = openings
    for begin in range(first, len(boards), size):
        end = min(begin + size, len(boards))
        blocks = _play(variant, pair, (boards[begin:end], movers[begin:end]), range(begin, end), should_go_on)
        if not blocks:
            return
        yield blocks


def _play(
    variant: str, pair: _Pair, openings: _Positions, numbers: Sequence[int], should_go_on: Callable[[], bool]
) -> list[Block]:
    """Play each opening from every seat; no blocks if *should_go_on* turns false before the end."""
    name, players = VARIANTS[variant]
    rays = topology(name).rays
    boards, movers = openings[0].repeat(players, 0), openings[1].repeat(players)
    seats = np.tile(np.arange(players, dtype=np.int8), len(numbers))
    while (movers >= 0).any():
        if not should_go_on():
            return []
        cells = np.full(len(boards), -1, np.int16)
        live = movers >= 0
        for player, rows in zip(pair, (live & (movers == seats), live & (movers != seats)), strict=True):
            if rows.any():
                cells[rows] = player.choose(boards[rows], movers[rows])
        illegal = apply_all(boards, movers, cells, players, rays)
        assert illegal < 0, "a player made an illegal move"
    shares = np.zeros((len(boards), players), np.float32)
    outcome_all(boards, players, shares)
    rows = np.arange(len(boards))
    scores = shares[rows, seats].astype(float).reshape(len(numbers), players).tolist()
    ranks = _ranks(boards, players)[rows, seats].reshape(len(numbers), players).tolist()
    return [Block(number, tuple(scores[row]), tuple(ranks[row])) for row, number in enumerate(numbers)]


def _ranks(boards: I8, players: int) -> npt.NDArray[np.float64]:
    """For each seat of finished games, the share of opponents with fewer discs; ties count half."""
    discs = (boards[:, :, None] == np.arange(1, players + 1)).sum(1)
    ahead = np.sign(discs[:, :, None] - discs[:, None, :]).sum(2)
    share: npt.NDArray[np.float64] = (ahead / (players - 1) + 1.0) / 2.0
    return share
