"""Samples: training positions, as bytes.

board   i8[n, cells]   0 empty, seat + 1 a disc        to_move  i8[n]
pi_idx  u16[n, 16]     cells of the policy target      pi_p     f16[n, 16]  0 everywhere = no policy target
result  f32[n, P]      how the game ended              root_v   f16[n, P]   value of the search
game    u64[n]         the seed of the game, by which games are held out from training
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ringrift_reversi import tensors
from ringrift_reversi.records import SUM_TOLERANCE, TOP
from ringrift_reversi.topology import VARIANTS, topology

SAMPLES_BYTES_MAX = 2 * 1024 * 1024 * 1024
_FORMAT, _COMPRESSED = "reversi-samples-1", "reversi-samples-2"
_TYPES = {
    "board": np.int8,
    "to_move": np.int8,
    "pi_idx": np.uint16,
    "pi_p": np.float16,
    "result": np.float32,
    "root_v": np.float16,
    "game": np.uint64,
}


@dataclass(frozen=True, slots=True)
class Samples:
    """Positions, as described above."""

    board: npt.NDArray[np.int8]
    to_move: npt.NDArray[np.int8]
    pi_idx: npt.NDArray[np.uint16]
    pi_p: npt.NDArray[np.float16]
    result: npt.NDArray[np.float32]
    root_v: npt.NDArray[np.float16]
    game: npt.NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.game)


def pack(samples: Samples, variant: str, meta: Mapping[str, str]) -> bytes:
    """The file of *samples*; the same samples and metadata always give the same bytes."""
    arrays = {field.name: getattr(samples, field.name) for field in fields(samples)}
    return tensors.compress(tensors.pack(arrays, {**meta, "variant": variant, "format": _FORMAT}), _COMPRESSED)


def unpack(data: bytes, variant: str) -> Samples:
    """The samples in *data*.  Raises ValueError with the reason if they are bad."""
    columns, meta = tensors.unpack(data, SAMPLES_BYTES_MAX)
    if meta.get("format") != _FORMAT:
        raise ValueError(f"not a file of samples, its format is {meta.get('format')!r:.40}")
    if meta.get("variant") != variant:
        raise ValueError(f"its samples are of variant {meta.get('variant')!r:.40}, not {variant}")
    board, players = VARIANTS[variant]
    cells, count = topology(board).cells, len(columns.get("game", ()))
    shapes = {"board": (cells,), "pi_idx": (TOP,), "pi_p": (TOP,), "result": (players,), "root_v": (players,)}
    for name, dtype in _TYPES.items():
        array = columns.get(name)
        if array is None or array.dtype != dtype or array.shape != (count, *shapes.get(name, ())):
            raise ValueError(f"its array {name} has another type or shape")
    samples = Samples(**{name: columns[name] for name in _TYPES})
    _check(samples, cells, players)
    return samples


def write_npz(samples: Samples, variant: str, target: Path) -> None:
    """Write *samples* to *target* for other programs, with the *variant* and the format beside the arrays."""
    arrays = {field.name: getattr(samples, field.name) for field in fields(samples)}
    np.savez_compressed(target, variant=np.array(variant), format=np.array(_FORMAT), **arrays)


def _check(samples: Samples, cells: int, players: int) -> None:
    if not len(samples):
        raise ValueError("it has no samples")
    if (samples.board < 0).any() or (samples.board > players).any() or (samples.pi_idx >= cells).any():
        raise ValueError("it has discs or cells that do not exist")
    if (samples.to_move < 0).any() or (samples.to_move >= players).any():
        raise ValueError("it has a mover that is not a seat")
    if not all(np.isfinite(array).all() for array in (samples.pi_p, samples.result, samples.root_v)):
        raise ValueError("it has numbers that are not finite")
    if (np.abs(samples.result.sum(1) - 1) > SUM_TOLERANCE).any():
        raise ValueError("a result does not sum to 1")
