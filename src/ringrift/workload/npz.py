"""Datasets as ``.npz``: check one without numpy, and let a workload write one in a process of its own.

A file of this kind is a zip archive of arrays.  It is checked as if it were made to do harm: an array of objects would
run code when it is loaded, and a small archive may unpack to any size.  Standard library only.

python -m ringrift.workload.npz NAME VARIANT SAMPLES TARGET
"""

import ast
import math
import re
import sys
import zipfile
import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from ringrift.workload.api import HasNpz
from ringrift.workload.registry import Registry

_MAGIC = b"\x93NUMPY"
_ARRAYS_MAX = 1000
_HEADER_BYTES_MAX = 64 * 1024
_BYTES_MAX = 64 * 1024**3  # of all arrays, unpacked
_CHUNK = 1024 * 1024  # a multiple of every size of a number
_DTYPE = re.compile(r"[<>|=]([biufcSU])(\d{1,6})")
# By the size of a floating-point number the code of whole numbers of that size, and the bits that are all set in one
# that is not finite.
_EXPONENTS = {2: ("H", 0x7C00), 4: ("I", 0x7F80_0000), 8: ("Q", 0x7FF0_0000_0000_0000)}


@dataclass(frozen=True, slots=True)
class NpzArray:
    """One array of a file: its type, as numpy writes it, and its shape."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NpzReport:
    """What was found in a file; it is sound if there are no *errors*."""

    arrays: dict[str, NpzArray] = field(default_factory=dict)
    rows: int = 0  #: The length of all arrays that have one.
    errors: tuple[str, ...] = ()


def validate_npz(path: Path, bytes_max: int = _BYTES_MAX) -> NpzReport:
    """Check the file *path* to its last byte: every array is whole, holds plain finite numbers, and has as many rows.

    Raises OSError if it cannot be read.
    """
    arrays, errors = dict[str, NpzArray](), list[str]()
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if not 0 < len(members) <= _ARRAYS_MAX or sum(member.file_size for member in members) > bytes_max:
                return NpzReport(errors=(f"it has {len(members)} arrays, or unpacks to more than {bytes_max} bytes",))
            if len({member.filename for member in members}) < len(members):
                return NpzReport(errors=("it has two arrays of one name",))
            for member in members:
                name = member.filename.removesuffix(".npy")
                try:
                    with archive.open(member) as stream:
                        arrays[name] = _check_array(stream, member.file_size)
                except ValueError as error:
                    errors.append(f"array {name:.40}: {error}")
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        errors.append(f"it is damaged, or no .npz file: {error!s:.200}")
    lengths = sorted({entry.shape[0] for entry in arrays.values() if entry.shape})
    if len(lengths) > 1:
        errors.append(f"its arrays have different lengths: {', '.join(map(str, lengths[:8]))}")
    if not errors and not (lengths and lengths[0]):
        errors.append("it has no rows")
    return NpzReport(arrays, lengths[0] if len(lengths) == 1 else 0, tuple(errors))


def _check_array(stream: IO[bytes], size: int) -> NpzArray:
    """The type and shape of the array in *stream*, which is *size* bytes long.  Raises ValueError."""
    start = stream.read(8)
    wide = start[6:7] != b"\x01"
    length = int.from_bytes(stream.read(4 if wide else 2), "little")
    if not start.startswith(_MAGIC) or length > _HEADER_BYTES_MAX:
        raise ValueError("it is no array of numpy")
    kind, width, shape, dtype = _read_header(stream.read(length))
    if len(start) + (4 if wide else 2) + length + math.prod(shape) * width != size:
        raise ValueError(f"it has {size} bytes, which does not fit {dtype} {shape}")
    is_swapped = (dtype[0] == ">") != (sys.byteorder == "big") and dtype[0] in "<>"
    rest = 0
    while chunk := stream.read(_CHUNK):  # reading to the end also checks its CRC
        rest += len(chunk)
        if kind in "fc" and not _is_finite(chunk, width // (2 if kind == "c" else 1), swap=is_swapped):
            raise ValueError("it has numbers that are not finite")
    if rest != math.prod(shape) * width:
        raise ValueError("it is cut off")
    return NpzArray(dtype, shape)


def _read_header(data: bytes) -> tuple[str, int, tuple[int, ...], str]:
    """Kind and bytes of an element, shape and type.  Raises ValueError."""
    try:
        header = ast.literal_eval(data.decode("latin-1").strip())
        dtype, shape = header["descr"], header["shape"]
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError) as error:
        raise ValueError("its header cannot be read") from error
    match = _DTYPE.fullmatch(dtype) if isinstance(dtype, str) else None
    if match is None:
        raise ValueError(f"it holds {dtype!r:.40}, and not plain numbers or text: loading objects runs code")
    if not isinstance(shape, tuple) or len(shape) > 32 or not all(type(n) is int and 0 <= n < 2**48 for n in shape):
        raise ValueError(f"its shape is {shape!r:.80}")
    width = int(match[2]) * (4 if match[1] == "U" else 1)
    if match[1] in "fc" and width // (2 if match[1] == "c" else 1) not in _EXPONENTS:
        raise ValueError(f"it has numbers of {width} bytes")
    return match[1], width, shape, dtype


def _is_finite(chunk: bytes, width: int, *, swap: bool) -> bool:
    code, exponent = _EXPONENTS[width]
    numbers = array(code, chunk[: len(chunk) // width * width])
    if swap:
        numbers.byteswap()
    return not any(number & exponent == exponent for number in numbers)


def main(words: Sequence[str]) -> int:
    """Let the workload *words[0]* write the samples of a variant as ``.npz``.  Raises ValueError, UnknownName."""
    name, variant, source, target = words
    workload = Registry.load({}).get(name)
    if not isinstance(workload, HasNpz):
        sys.stderr.write(f"the workload {name} writes no .npz files\n")
        return 1
    try:
        workload.write_npz(variant, Path(source), Path(target))
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
