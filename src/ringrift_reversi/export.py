"""Export: replay every game by the rules and turn its positions into samples.

A batch is accepted whole or not at all: with one illegal move, one wrong result or one policy target on an illegal
cell, none of its games can be trusted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt

from ringrift_reversi import records
from ringrift_reversi.baselines import position_seeds
from ringrift_reversi.engine import apply, is_legal, next_mover, outcome
from ringrift_reversi.records import OPENING, Games
from ringrift_reversi.samples import Samples
from ringrift_reversi.topology import VARIANTS, start, topology
from ringrift_reversi.tree import I8, I16

_U16 = npt.NDArray[np.uint16]
_Recorded = tuple[_U16, npt.NDArray[np.uint32], _U16, npt.NDArray[np.bool_], npt.NDArray[np.float32]]
"""Moves, offsets, pi_idx, where there is a policy target, and results of games."""
_ILLEGAL, _BAD_TARGET, _TOO_LONG, _NO_END, _BAD_RESULT = 1, 2, 3, 4, 5
_ERRORS = {
    _ILLEGAL: "an illegal move",
    _BAD_TARGET: "a policy target on an illegal cell",
    _TOO_LONG: "moves after its end",
    _NO_END: "no end",
    _BAD_RESULT: "a wrong result",
}


@dataclass(frozen=True, slots=True)
class _Coverage:
    """Statistics of the games of one export."""

    games: int
    positions: int
    policy_targets: int
    unique_share: float
    draw_share: float
    plies_mean: float
    entropy_mean: float
    """Entropy of the policy targets, in nats."""

    def metrics(self) -> dict[str, float]:
        """The statistics by name."""
        return {name: float(getattr(self, name)) for name in self.__slots__}


def replay(games: Games, variant: str) -> Samples:
    """The positions of *games* after their random openings.  Raises ValueError if a game breaks the rules."""
    board, players = VARIANTS[variant]
    shape = topology(board)
    count = len(games.moves)
    boards, movers = np.zeros((count, shape.cells), np.int8), np.zeros(count, np.int8)
    recorded = games.moves, games.offsets, games.pi_idx, games.pi_p > 0, games.result
    game, error = _replay(recorded, start(board, players), shape.rays, boards, movers)
    if error:
        raise ValueError(f"game {game} has {_ERRORS[error]}")
    plies = np.flatnonzero(games.search != OPENING)
    number = np.repeat(np.arange(len(games)), games.lengths())[plies]
    policy, value = (games.pi_idx[plies], games.pi_p[plies]), games.root_v[plies]
    return Samples(boards[plies], movers[plies], *policy, games.result[number], value, games.seed[number])


def join(parts: Sequence[Samples], limit: int) -> Samples:
    """The last *limit* positions of *parts*: the newest are the best to train on."""
    total = sum(len(part) for part in parts)
    whole = {name: np.concatenate([getattr(part, name) for part in parts]) for name in Samples.__slots__}
    return Samples(**{name: array[max(0, total - limit) :] for name, array in whole.items()})


def coverage(parts: Sequence[Games], samples: Samples) -> _Coverage:
    """Statistics of *parts* and their *samples*."""
    games = records.join(parts)
    p = samples.pi_p[(samples.pi_p > 0).any(1)].astype(np.float32)
    entropy = -(p * np.log(np.maximum(p, 1e-9))).sum(1)
    hashes = position_seeds(samples.board, samples.to_move)
    return _Coverage(
        games=len(games),
        positions=len(samples),
        policy_targets=len(p),
        unique_share=len(np.unique(hashes)) / max(1, len(samples)),
        draw_share=float((games.result.max(1) < 1).mean()) if len(games) else 0.0,
        plies_mean=len(games.moves) / max(1, len(games)),
        entropy_mean=float(entropy.mean()) if len(p) else 0.0,
    )


@numba.njit(cache=True)
def _replay(recorded: _Recorded, begin: I8, rays: I16, boards: I8, movers: I8) -> tuple[int, int]:
    """Fill *boards* and *movers* with the position before each move; the first bad game and its error, or -1 and 0."""
    moves, offsets, pi_idx, has_target, results = recorded
    players = results.shape[1]
    share = np.empty(players, np.float32)
    for game in range(results.shape[0]):
        board, mover = begin.copy(), 0
        for ply in range(np.int64(offsets[game]), np.int64(offsets[game + 1])):
            if mover < 0:
                return game, _TOO_LONG
            boards[ply], movers[ply] = board, mover
            for rank in range(pi_idx.shape[1]):
                cell = int(np.int64(pi_idx[ply, rank]))
                if has_target[ply, rank] and (board[cell] != 0 or not is_legal(board, mover, cell, rays)):
                    return game, _BAD_TARGET
            if apply(board, mover, int(np.int64(moves[ply])), rays) == 0:
                return game, _ILLEGAL
            mover = next_mover(board, mover, players, rays)
        if mover >= 0:
            return game, _NO_END
        outcome(board, players, share)
        for seat in range(players):
            if share[seat] != results[game, seat]:
                return game, _BAD_RESULT
    return -1, 0
