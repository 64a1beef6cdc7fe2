"""Export: replays every game through the rules and turns what holds into samples.

A batch is taken whole or not at all: one illegal move, one wrong result, one policy target on a cell that was not
legal, and none of its games can be trusted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt

from ringrift_reversi import records
from ringrift_reversi.baselines import position_seeds
from ringrift_reversi.engine import apply, following, is_legal, outcome
from ringrift_reversi.records import OPENING, Games
from ringrift_reversi.samples import Samples
from ringrift_reversi.topology import VARIANTS, start, topology

Floats = npt.NDArray[np.float32]
_ILLEGAL, _BAD_TARGET, _TOO_LONG, _NO_END, _BAD_RESULT = 1, 2, 3, 4, 5
_WRONG = {
    _ILLEGAL: "an illegal move",
    _BAD_TARGET: "a policy target on an illegal cell",
    _TOO_LONG: "moves after its end",
    _NO_END: "no end",
    _BAD_RESULT: "a wrong result",
}


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the games of one export are like."""

    games: int
    positions: int
    policy_targets: int
    unique_share: float
    draw_share: float
    plies_mean: float
    entropy_mean: float
    """Of the policy targets, in nats."""

    def metrics(self) -> dict[str, float]:
        """It as numbers by name."""
        return {name: float(getattr(self, name)) for name in self.__slots__}


def replayed(games: Games, variant: str) -> Samples:
    """The positions of *games*, but for the random openings.  Raises ValueError if a game does not replay."""
    board, players = VARIANTS[variant]
    shape = topology(board)
    count = len(games.moves)
    boards, movers = np.zeros((count, shape.cells), np.int8), np.zeros(count, np.int8)
    game, wrong = _replay(
        games.moves, games.offsets, games.pi_idx, games.pi_p > 0, games.result, start(board, players), shape.rays,
        boards, movers,
    )  # fmt: skip
    if wrong:
        raise ValueError(f"game {game} has {_WRONG[wrong]}")
    kept = np.flatnonzero(games.search != OPENING)
    of_game = np.repeat(np.arange(len(games)), games.lengths())[kept]
    return Samples(
        board=boards[kept], to_move=movers[kept], pi_idx=games.pi_idx[kept], pi_p=games.pi_p[kept],
        result=games.result[of_game], root_v=games.root_v[kept], game=games.seed[of_game],
    )  # fmt: skip


def joined(parts: Sequence[Samples], most: int) -> Samples:
    """The last *most* positions of *parts*: what is newest teaches best."""
    total = sum(len(part) for part in parts)
    whole = {name: np.concatenate([getattr(part, name) for part in parts]) for name in Samples.__slots__}
    return Samples(**{name: array[max(0, total - most) :] for name, array in whole.items()})


def coverage(parts: Sequence[Games], samples: Samples) -> Coverage:
    """What *parts* and the *samples* of them are like."""
    games = records.joined(parts)
    p = samples.pi_p[(samples.pi_p > 0).any(1)].astype(np.float32)
    entropy = -(p * np.log(np.maximum(p, 1e-9))).sum(1)
    seen = position_seeds(samples.board, samples.to_move)
    return Coverage(
        games=len(games), positions=len(samples), policy_targets=len(p),
        unique_share=len(np.unique(seen)) / max(1, len(samples)),
        draw_share=float((games.result.max(1) < 1).mean()) if len(games) else 0.0,
        plies_mean=len(games.moves) / max(1, len(games)),
        entropy_mean=float(entropy.mean()) if len(p) else 0.0,
    )  # fmt: skip


@numba.njit(cache=True)
def _replay(
    moves: npt.NDArray[np.uint16], offsets: npt.NDArray[np.uint32], pi_idx: npt.NDArray[np.uint16],
    wanted: npt.NDArray[np.bool_], results: Floats, begin: npt.NDArray[np.int8], rays: npt.NDArray[np.int16],
    boards: npt.NDArray[np.int8], movers: npt.NDArray[np.int8],
) -> tuple[int, int]:  # fmt: skip
    """Fill *boards* and *movers* with what stood before each move; the first game that does not replay, and why not."""
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
                if wanted[ply, rank] and (board[cell] != 0 or not is_legal(board, mover, cell, rays)):
                    return game, _BAD_TARGET
            if apply(board, mover, int(np.int64(moves[ply])), rays) == 0:
                return game, _ILLEGAL
            mover = following(board, mover, players, rays)
        if mover >= 0:
            return game, _NO_END
        outcome(board, players, share)
        for seat in range(players):
            if share[seat] != results[game, seat]:
                return game, _BAD_RESULT
    return -1, 0
