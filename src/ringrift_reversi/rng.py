"""Random numbers of a game: each is a function of the game's seed, the ply and a purpose, so it can be repeated."""

import numba
import numpy as np
import numpy.typing as npt

from ringrift_reversi.engine import apply, draw, legal, next_mover
from ringrift_reversi.tree import F32, I8, I16, I32, I64, Tree

_U16 = npt.NDArray[np.uint16]
_U64 = npt.NDArray[np.uint64]
LENGTH, CAP, NOISE = 1, 2, 3
"""Purposes: the length of the opening, whether a ply gets a full search, a cell's noise (NOISE + cell)."""
_PLY = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_PURPOSE = np.uint64(0xD1B54A32D192ED03)
_S1, _S27, _S30, _S31 = np.uint64(1), np.uint64(27), np.uint64(30), np.uint64(31)
_STEP = 2.0**-53


@numba.njit(cache=True)
def mix(seed: int, first: int, second: int) -> int:
    """A number of 63 bits from three: the finaliser of splitmix64 over their sum."""
    z = np.uint64(seed) + (np.uint64(first) + np.uint64(1)) * _PLY + (np.uint64(second) + np.uint64(1)) * _PURPOSE
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return int(np.int64((z ^ (z >> _S31)) >> _S1))


@numba.njit(cache=True)
def fraction(seed: int, ply: int, purpose: int) -> float:
    """A number above 0 and below 1."""
    return (np.float64(mix(seed, ply, purpose) >> 10) + 0.5) * _STEP


@numba.njit(cache=True)
def fractions(seeds: _U64, plies: I32, games: I64, purpose: int) -> npt.NDArray[np.float64]:
    """`fraction` for each of *games*."""
    out = np.empty(games.shape[0], np.float64)
    for place in range(games.shape[0]):
        out[place] = fraction(seeds[games[place]], plies[games[place]], purpose)
    return out


@numba.njit(cache=True)
def opening(board: I8, plies: int, players: int, rays: I16, seed: int, moves: _U16) -> int:
    """Play *plies* random moves on *board* itself and record them in *moves*; the mover then (-1: over)."""
    state, mask = np.empty(1, np.uint64), np.empty(board.size, np.uint8)
    state[0] = np.uint64(seed)
    mover = 0
    for ply in range(plies):
        chosen = draw(state, legal(board, mover, rays, mask))
        for cell in range(board.size):
            if mask[cell]:
                if chosen == 0:
                    moves[ply] = cell
                    apply(board, mover, cell, rays)
                    break
                chosen -= 1
        mover = next_mover(board, mover, players, rays)
        if mover < 0:
            break
    return mover


@numba.njit(cache=True)
def make_noise(tree: Tree, games: I64, seeds: _U64, plies: I32, noise: F32) -> None:
    """Gumbel noise for the legal cells of the root of each of *games*."""
    for place in range(games.shape[0]):
        game = games[place]
        for edge in range(tree.width[game, 0]):
            cell = tree.cell[game, 0, edge]
            noise[game, cell] = -np.log(-np.log(fraction(seeds[game], plies[game], NOISE + cell)))
