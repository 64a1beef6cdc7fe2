"""Tensors: arrays and words as one safetensors file that is written in exactly one way and checked to the last bit.

Nothing in such a file is code and nothing unpacks to more than it weighs.  The words carry a checksum of everything
else, and what is read must be the very bytes that we would write: one flipped bit anywhere is found.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

HEADER_BYTES_MAX = 64 * 1024
_CHECKSUM = "checksum"
_NAMES = {
    "F32": np.float32, "F16": np.float16, "U8": np.uint8, "I8": np.int8, "U16": np.uint16, "I16": np.int16,
    "U32": np.uint32, "I32": np.int32, "U64": np.uint64, "I64": np.int64,
}  # fmt: skip
_CODES = {np.dtype(kind): name for name, kind in _NAMES.items()}
Array = npt.NDArray[Any]


def pack(arrays: Mapping[str, Array], words: Mapping[str, str]) -> bytes:
    """The file that holds *arrays* and *words*; the same ones always give the same bytes."""
    body = b"".join(np.ascontiguousarray(arrays[name]).tobytes() for name in _order(arrays))
    bare = _header(arrays, words)
    digest = hashlib.sha256(bare + body).hexdigest()
    header = _header(arrays, {**words, _CHECKSUM: digest})
    return len(header).to_bytes(8, "little") + header + body


def unpack(data: bytes) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays and words of a file.  Raises ValueError that says what is wrong with it."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > HEADER_BYTES_MAX or 8 + length > len(data):
        raise ValueError(f"it is no safetensors file: a header of {length} bytes in {len(data)}")
    try:
        header = json.loads(data[8 : 8 + length])
        words = {str(name): str(word) for name, word in header.pop("__metadata__").items()}
        arrays = {name: _array(data, 8 + length, entry) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as bad:
        raise ValueError(f"its header does not describe it ({type(bad).__name__})") from bad
    if words.pop(_CHECKSUM, "") == "" or pack(arrays, words) != data:
        raise ValueError("its checksum is wrong, or it was not written by us")
    return arrays, words


def read(path: Path, bytes_max: int) -> bytes:
    """What the file at *path* holds.  Raises ValueError, before reading, if that is more than *bytes_max*."""
    size = path.stat().st_size
    if size > bytes_max:
        raise ValueError(f"it has {size} bytes, more than {bytes_max}")
    return path.read_bytes()


def _order(arrays: Mapping[str, Array]) -> list[str]:
    """Wide elements first, so that every array begins at a multiple of its element's size."""
    return sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))


def _header(arrays: Mapping[str, Array], words: Mapping[str, str]) -> bytes:
    entries: dict[str, Any] = {"__metadata__": dict(words)}
    start = 0
    for name in _order(arrays):
        array = arrays[name]
        code = _CODES[array.dtype]
        entries[name] = {"data_offsets": [start, start + array.nbytes], "dtype": code, "shape": list(array.shape)}
        start += array.nbytes
    text = json.dumps(entries, sort_keys=True, separators=(",", ":")).encode()
    return text + b" " * (-len(text) % 8)


def _array(data: bytes, base: int, entry: Mapping[str, Any]) -> Array:
    start, end = entry["data_offsets"]
    kind, shape = np.dtype(_NAMES[entry["dtype"]]), tuple(entry["shape"])
    if not 0 <= start <= end <= len(data) - base or any(type(side) is not int or side < 0 for side in shape):
        raise ValueError("an array lies outside")
    array = np.frombuffer(data, kind, (end - start) // kind.itemsize, base + start)
    return array.reshape(shape)
