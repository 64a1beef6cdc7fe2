"""Ingest: games from elsewhere, replayed by the rules and stored as batches of ours.

No search has looked at them, so the move that was played is the policy target of its position, and the result of the
game is its value.
"""

from collections.abc import Sequence

import numba
import numpy as np
import numpy.typing as npt

from ringrift.workload.ingest import ForeignGame
from ringrift_reversi import records
from ringrift_reversi.engine import apply, next_mover, outcome
from ringrift_reversi.records import FULL, TOP, Games
from ringrift_reversi.terminal import begin
from ringrift_reversi.topology import VARIANTS, start, topology
from ringrift_reversi.tree import F32, I8, I16
from ringrift_reversi.workload import VERSION

_BATCH_BYTES = 128 * 1024 * 1024  # of the arrays of one batch: half of what may be read
_GAMES_PER_BATCH_MAX = 8192
_PLY_BYTES = 96  # of a ply in a batch of four players, rounded up
_RESULT_TOLERANCE = 1e-3  # a third may be written as 0.333
_ILLEGAL, _TOO_LONG, _NO_END, _BAD_RESULT = 1, 2, 3, 4
_ERRORS = ("", "an illegal move", "moves after its end", "no end", "another result than its last position")


class ReversiRules:
    """The rules of one variant, for :func:`ringrift.workload.ingest.ingest_games`."""

    def __init__(self, variant: str) -> None:
        self._variant, (self._board, self._players) = variant, VARIANTS[variant]
        self._cells, position = topology(self._board).cells, begin(variant)
        self._names = {position.text(cell): cell for cell in range(self._cells)}
        self.games_per_batch_max = min(_GAMES_PER_BATCH_MAX, _BATCH_BYTES // (self._cells * _PLY_BYTES))

    def action(self, move: int | str) -> int:
        """The cell *move*, by its number or its name, as d3."""
        cell = self._names.get(move.strip().lower(), -1) if isinstance(move, str) else move
        if not 0 <= cell < self._cells:
            raise ValueError(f"{move!r:.40} is no cell of {self._board}")
        return cell

    def replay(self, games: Sequence[ForeignGame]) -> list[str]:
        """What is wrong with each game; empty where nothing is."""
        moves, offsets, results = _arrays(games)
        errors, plies = np.zeros(len(games), np.int64), np.zeros(len(games), np.int64)
        rays, first = topology(self._board).rays, start(self._board, self._players)
        _replay_each(moves, offsets, results, first, rays, errors, plies)
        return [_describe(int(error), int(ply)) for error, ply in zip(errors, plies, strict=True)]

    def pack(self, games: Sequence[ForeignGame]) -> bytes:
        """A batch of *games*; their seeds, by which games are held out of training, follow from their moves."""
        moves, offsets, results = _arrays(games)
        exact = _exact(results)
        pi_idx, pi_p = np.zeros((len(moves), TOP), np.uint16), np.zeros((len(moves), TOP), np.float16)
        pi_idx[:, 0], pi_p[:, 0] = moves, 1
        lengths = offsets[1:].astype(np.int64) - offsets[:-1]
        batch = Games(
            moves=moves,
            offsets=offsets,
            pi_idx=pi_idx,
            pi_p=pi_p,
            root_v=np.repeat(exact, lengths, axis=0).astype(np.float16),
            result=exact,
            seed=np.array([int.from_bytes(game.digest[:8], "big") for game in games], np.uint64),
            search=np.full(len(moves), FULL, np.uint8),
        )
        return records.pack(batch, self._variant, {"workload": f"reversi {VERSION}", "source": "imported"})


def _describe(error: int, ply: int) -> str:
    where = f" at move {ply + 1}" if error in (_ILLEGAL, _TOO_LONG) else ""
    return f"it has {_ERRORS[error]}{where}" if error else ""


def _arrays(games: Sequence[ForeignGame]) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint32], F32]:
    lengths = [len(game.actions) for game in games]
    moves = np.fromiter((cell for game in games for cell in game.actions), np.uint16, sum(lengths))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32)
    return moves, offsets, np.array([game.result for game in games], np.float32)


def _exact(results: F32) -> F32:
    """Equal shares of first place for the seats with the largest, as the engine has them: 0.333 is a third."""
    best = results >= results.max(1, keepdims=True) - _RESULT_TOLERANCE
    return np.where(best, (np.float32(1) / best.sum(1, keepdims=True)).astype(np.float32), np.float32(0))


@numba.njit(cache=True)
def _replay_each(
    moves: npt.NDArray[np.uint16],
    offsets: npt.NDArray[np.uint32],
    results: F32,
    begin: I8,
    rays: I16,
    errors: npt.NDArray[np.int64],
    plies: npt.NDArray[np.int64],
) -> None:
    """Write the error of each game, or 0, into *errors*, and the ply at which it stopped into *plies*."""
    players = results.shape[1]
    share = np.empty(players, np.float32)
    for game in range(results.shape[0]):
        board, mover = begin.copy(), 0
        first = np.int64(offsets[game])
        for ply in range(first, np.int64(offsets[game + 1])):
            plies[game] = ply - first
            if mover < 0:
                errors[game] = _TOO_LONG
                break
            if apply(board, mover, int(np.int64(moves[ply])), rays) == 0:
                errors[game] = _ILLEGAL
                break
            mover = next_mover(board, mover, players, rays)
        if errors[game] == 0 and mover >= 0:
            errors[game] = _NO_END
        outcome(board, players, share)
        for seat in range(players):
            if errors[game] == 0 and abs(share[seat] - results[game, seat]) > _RESULT_TOLERANCE:
                errors[game] = _BAD_RESULT
