"""Records: played games as bytes, and the checks that need no rules.

A file holds the moves of all games one after the other, with the search's result at each of them:

    moves    u16[Σ]      the cell that was played          offsets  u32[G+1]   where each game begins
    pi_idx   u16[Σ, 16]  cells of the policy target        pi_p     f16[Σ, 16] their probabilities, 0 = no cell
    root_v   f16[Σ, P]   share of first place by seat      result   f32[G, P]  how the game ended
    seed     u64[G]      seed of its random numbers        search   u8[Σ]      OPENING, FULL or FAST

Only FULL plies have a policy target; elsewhere pi_p is 0, and at OPENING plies, which are random, root_v is 0 too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from ringrift_reversi import tensors
from ringrift_reversi.topology import VARIANTS, topology

TOP = 16
"""Cells of a policy target that are stored."""
OPENING, FULL, FAST = 0, 1, 2
BATCH_BYTES_MAX = 256 * 1024 * 1024
SUM_TOLERANCE = 0.02  # sixteen halves, rounded
_FORMAT, _COMPRESSED = "reversi-games-1", "reversi-games-2"
_TYPES = {
    "moves": np.uint16,
    "offsets": np.uint32,
    "pi_idx": np.uint16,
    "pi_p": np.float16,
    "root_v": np.float16,
    "result": np.float32,
    "seed": np.uint64,
    "search": np.uint8,
}


@dataclass(frozen=True, slots=True)
class Games:
    """Finished games, as described above."""

    moves: npt.NDArray[np.uint16]
    offsets: npt.NDArray[np.uint32]
    pi_idx: npt.NDArray[np.uint16]
    pi_p: npt.NDArray[np.float16]
    root_v: npt.NDArray[np.float16]
    result: npt.NDArray[np.float32]
    seed: npt.NDArray[np.uint64]
    search: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.seed)

    def lengths(self) -> npt.NDArray[np.int64]:
        """How many plies each game has."""
        offsets = self.offsets.astype(np.int64)
        return offsets[1:] - offsets[:-1]

    def plies(self, game: int) -> slice:
        """The range of plies of *game*."""
        return slice(int(self.offsets[game]), int(self.offsets[game + 1]))


def arrays(games: Games) -> dict[str, tensors.Array]:
    """The arrays of *games* by name."""
    return {field.name: getattr(games, field.name) for field in fields(games)}


def empty(players: int) -> Games:
    """No games."""
    shapes = {"offsets": (1,), "pi_idx": (0, TOP), "pi_p": (0, TOP), "root_v": (0, players), "result": (0, players)}
    return Games(**{name: np.zeros(shapes.get(name, (0,)), dtype) for name, dtype in _TYPES.items()})


def join(parts: Sequence[Games]) -> Games:
    """All games of *parts*, in order; at least one part."""
    whole: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _TYPES}
    lengths = np.concatenate([part.lengths() for part in parts])
    whole["offsets"] = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32)
    return Games(**whole)


def pick(games: Games, order: npt.NDArray[np.int64]) -> Games:
    """The games with the numbers *order*, in that order."""
    starts = games.offsets.astype(np.int64)
    lengths = games.lengths()[order]
    ends = np.cumsum(lengths)
    within = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - lengths, lengths)
    plies = np.repeat(starts[:-1][order], lengths) + within
    names = ("moves", "pi_idx", "pi_p", "root_v", "search")
    columns: dict[str, Any] = {name: getattr(games, name)[plies] for name in names}
    columns |= {"result": games.result[order], "seed": games.seed[order]}
    return Games(**columns, offsets=np.concatenate([[0], ends]).astype(np.uint32))


def pack(games: Games, variant: str, meta: Mapping[str, str]) -> bytes:
    """The file of *games*; the same games and metadata always give the same bytes."""
    return tensors.compress(tensors.pack(arrays(games), {**meta, "variant": variant, "format": _FORMAT}), _COMPRESSED)


def unpack(data: bytes, variant: str) -> tuple[Games, dict[str, str]]:
    """The games in *data* and their metadata.  Raises ValueError with the reason if they are bad."""
    columns, meta = tensors.unpack(data, BATCH_BYTES_MAX)
    if meta.get("format") != _FORMAT:
        raise ValueError(f"not a file of games, its format is {meta.get('format')!r:.40}")
    if meta.get("variant") != variant:
        raise ValueError(f"its games are of variant {meta.get('variant')!r:.40}, not {variant}")
    board, players = VARIANTS[variant]
    _check_shapes(columns, players)
    games = Games(**columns)
    _check_numbers(games, topology(board).cells)
    return games, meta


def _check_shapes(columns: Mapping[str, tensors.Array], players: int) -> None:
    if set(columns) != set(_TYPES):
        raise ValueError(f"it has other arrays: {', '.join(sorted(columns))[:200]}")
    count, plies = columns["seed"].shape[:1], columns["moves"].shape[:1]
    shapes = {"moves": plies, "search": plies, "pi_idx": (*plies, TOP), "pi_p": (*plies, TOP)}
    shapes |= {"root_v": (*plies, players), "result": (*count, players), "seed": count}
    shapes["offsets"] = (count[0] + 1 if count else 0,)
    for name, dtype in _TYPES.items():
        array, expected = columns[name], f"{dtype.__name__}{list(shapes[name])}"
        if array.dtype != dtype or array.shape != shapes[name]:
            raise ValueError(f"its array {name} is {array.dtype}{list(array.shape)}, not {expected}")


def _check_numbers(games: Games, cells: int) -> None:
    offsets = games.offsets.astype(np.int64)
    if offsets[0] != 0 or offsets[-1] != len(games.moves) or (games.lengths() <= 0).any():
        raise ValueError("its offsets do not divide its moves into games")
    if (games.lengths() > cells).any() or (games.moves >= cells).any() or (games.pi_idx >= cells).any():
        raise ValueError(f"it has more plies or other cells than the board's {cells}")
    if not (np.isfinite(games.pi_p).all() and np.isfinite(games.root_v).all() and np.isfinite(games.result).all()):
        raise ValueError("it has numbers that are not finite")
    full = games.search == FULL
    sums = games.pi_p.astype(np.float32).sum(1)
    if (games.search > FAST).any() or (games.pi_p < 0).any() or (np.abs(sums[full] - 1) > SUM_TOLERANCE).any():
        raise ValueError("a policy target is negative or does not sum to 1")
    if (sums[~full] != 0).any():
        raise ValueError("a ply without a full search has a policy target")
