"""Engine: the rules, compiled; ``tests/reversi/reference.py`` has the same rules in plain Python.

A board is int8[cells] (0 is empty, seat + 1 is a disc), a seat is 0 … players - 1, and -1 as the mover means that
the game is over.  The caller owns every array; nothing is allocated in inner loops.

Compiled code is cached below the user's cache, in a folder named after this file's content, never beside the source.
The package may be installed in a read-only folder; and numba, which checks only the file of a function itself, would go
on using a search that was compiled against an older engine.  So compiled code may call compiled code of another file
only if that file is this one.  ``NUMBA_CACHE_DIR`` moves the folder, for example where a user has no home.
"""

import hashlib
from pathlib import Path

import numba
import numpy as np
import numpy.typing as npt

Boards = npt.NDArray[np.int8]
Seats = npt.NDArray[np.int8]
Rays = npt.NDArray[np.int16]
Cells = npt.NDArray[np.int16]
_Marks = npt.NDArray[np.uint8]
Seeds = npt.NDArray[np.uint64]
Shares = npt.NDArray[np.float32]

_CACHE = Path(getattr(numba.config, "CACHE_DIR", "") or Path.home() / ".cache" / "ringrift" / "numba")
_CONTENT = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
numba.config.CACHE_DIR = str(_CACHE / _CONTENT)  # type: ignore[attr-defined] # numba fills its settings in at run time

# Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014).
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
# `int(np.int64(x))` below: the one for mypy, the other so that narrow types do not make the compiler do things twice.
_S27, _S30, _S31, _S32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)


@numba.njit(cache=True)
def legal(board: Boards, player: int, rays: Rays, out: _Marks) -> int:
    """Mark in *out* the cells where *player* may play; how many there are."""
    count = 0
    for cell in range(board.size):
        out[cell] = board[cell] == 0 and is_legal(board, player, cell, rays)
        count += out[cell]
    return count


@numba.njit(cache=True)
def is_legal(board: Boards, player: int, cell: int, rays: Rays) -> bool:
    """Whether a disc of *player* on the empty *cell* would flip at least one other."""
    for along in range(rays.shape[1]):
        if crossed(board, player + 1, cell, along, rays) > 0:
            return True
    return False


@numba.njit(cache=True)
def crossed(board: Boards, mine: int, cell: int, along: int, rays: Rays) -> int:
    """How many discs lie between *cell* and the first of *mine* in one direction; 0 if no unbroken line leads there."""
    for step in range(rays.shape[2]):
        target = rays[cell, along, step]
        if target < 0:
            return 0
        if board[target] == mine:
            return step
        if board[target] == 0:
            return 0
    return 0


@numba.njit(cache=True)
def apply(board: Boards, player: int, cell: int, rays: Rays) -> int:
    """Play *cell* for *player* on *board* itself; how many discs were flipped.  0: illegal, and nothing has changed."""
    if board[cell] != 0:
        return 0
    flipped = 0
    for along in range(rays.shape[1]):
        count = crossed(board, player + 1, cell, along, rays)
        for step in range(count):
            board[rays[cell, along, step]] = player + 1
        flipped += count
    if flipped > 0:
        board[cell] = player + 1
    return flipped


@numba.njit(cache=True)
def _can_move(board: Boards, player: int, rays: Rays) -> bool:
    """Whether *player* has a legal move."""
    for cell in range(board.size):
        if board[cell] == 0 and is_legal(board, player, cell, rays):
            return True
    return False


@numba.njit(cache=True)
def next_mover(board: Boards, player: int, players: int, rays: Rays) -> int:
    """The seat that moves after *player*: the next that can, *player* again if no other can; -1 if none can."""
    for ahead in range(1, players + 1):
        seat = (player + ahead) % players
        if _can_move(board, seat, rays):
            return seat
    return -1


@numba.njit(cache=True)
def outcome(board: Boards, players: int, out: Shares) -> None:
    """Write each seat's share of first place by discs into *out*: 1/k for each of k that tie for it, else 0."""
    most = tied = 0
    for seat in range(players):
        count = _discs(board, seat)
        out[seat] = count
        if count > most:
            most, tied = count, 0
        tied += count == most
    for seat in range(players):
        out[seat] = 1.0 / tied if out[seat] == most else 0.0


@numba.njit(cache=True)
def _discs(board: Boards, player: int) -> int:
    """How many discs *player* has."""
    count = 0
    for cell in range(board.size):
        count += board[cell] == player + 1
    return count


@numba.njit(cache=True)
def bits(random: Seeds) -> np.uint64:
    """64 random bits; *random* is uint64[1], the generator's state (splitmix64)."""
    random[0] += _GAMMA
    z = random[0]
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return np.uint64(z ^ (z >> _S31))


@numba.njit(cache=True)
def draw(random: Seeds, below: int) -> int:
    """A uniform number in 0 … below - 1; the bias of the product is under 2⁻²³ for the cells of a board."""
    return int(np.int64(((bits(random) >> _S32) * np.uint64(below)) >> _S32))


@numba.njit(cache=True)
def playout(board: Boards, player: int, players: int, rays: Rays, random: Seeds, plies_max: int) -> tuple[int, int]:
    """Play up to *plies_max* uniform random moves on *board* itself; the mover then (-1: over), and the plies played.

    The empty cells are tried in random order until one is legal: each legal move is equally likely, and most of the
    other cells need not be checked.
    """
    empty = np.empty(board.size, np.int16)
    left = 0
    for cell in range(board.size):
        if board[cell] == 0:
            empty[left] = cell
            left += 1
    plies = passes = 0
    out = np.zeros(players, np.bool_)
    while plies < plies_max and passes < players:
        passes += 1
        tried = left if out[player] else 0
        while tried < left:
            chosen = tried + draw(random, left - tried)
            cell = int(np.int64(empty[chosen]))
            empty[chosen] = empty[tried]
            empty[tried] = cell
            if apply(board, player, cell, rays) > 0:
                left -= 1
                empty[tried] = empty[left]
                plies += 1
                passes = 0
                break
            tried += 1
        # A player without discs never moves again; skipping it triples the speed with four players.
        if tried == left and passes > 0:
            out[player] = _discs(board, player) == 0
        player = (player + 1) % players
    if passes == players:
        return -1, plies
    return next_mover(board, (player + players - 1) % players, players, rays), plies


@numba.njit(cache=True)
def playouts(boards: Boards, to_move: Seats, players: int, rays: Rays, seeds: Seeds, plies_max: int) -> int:
    """`playout` for many games: row by row on *boards* and *to_move* themselves; the plies played."""
    total = 0
    random = np.empty(1, np.uint64)
    for row in range(boards.shape[0]):
        if to_move[row] >= 0:
            random[0] = seeds[row]
            seat, plies = playout(boards[row], int(np.int64(to_move[row])), players, rays, random, plies_max)
            to_move[row] = seat
            total += plies
    return total


@numba.njit(cache=True)
def _legal_all(boards: Boards, to_move: Seats, rays: Rays, out: _Marks) -> None:
    """`legal` for many games: uint8[games, cells]; none where the game is over."""
    for row in range(boards.shape[0]):
        if to_move[row] < 0:
            out[row] = 0
        else:
            legal(boards[row], int(np.int64(to_move[row])), rays, out[row])


@numba.njit(cache=True)
def apply_all(boards: Boards, to_move: Seats, cells: Cells, players: int, rays: Rays) -> int:
    """Play one cell in every game that is not over, on *boards* and *to_move* themselves.

    -1, or the first row whose cell is not a legal move; rows before it have moved, it and the others have not.
    """
    for row in range(boards.shape[0]):
        seat = int(np.int64(to_move[row]))
        if seat >= 0:
            cell = int(np.int64(cells[row]))
            if cell < 0 or cell >= boards.shape[1] or apply(boards[row], seat, cell, rays) == 0:
                return row
            to_move[row] = next_mover(boards[row], seat, players, rays)
    return -1


@numba.njit(cache=True)
def outcome_all(boards: Boards, players: int, out: Shares) -> None:
    """`outcome` for many games: float32[games, players]."""
    for row in range(boards.shape[0]):
        outcome(boards[row], players, out[row])
