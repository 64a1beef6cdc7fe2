"""Tensors: arrays and metadata as one safetensors file that is written in exactly one way and checked to the last bit.

Nothing in such a file is code, and nothing unpacks to more than its size.  The metadata has a checksum of everything
else, and a file must have the very bytes that we would write: one flipped bit anywhere is detected.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_HEADER_BYTES_MAX = 64 * 1024
_CHECKSUM = "checksum"
_TYPES: dict[str, type[np.generic]] = {
    "F32": np.float32,
    "F16": np.float16,
    "U8": np.uint8,
    "U16": np.uint16,
    "U32": np.uint32,
    "U64": np.uint64,
    "I8": np.int8,
    "I16": np.int16,
    "I32": np.int32,
    "I64": np.int64,
}
_CODES = {np.dtype(kind): name for name, kind in _TYPES.items()}
Array = npt.NDArray[Any]


def pack(arrays: Mapping[str, Array], meta: Mapping[str, str]) -> bytes:
    """The file of *arrays* and *meta*; the same content always gives the same bytes."""
    body = b"".join(np.ascontiguousarray(arrays[name]).tobytes() for name in _order(arrays))
    bare = _header(arrays, meta)
    digest = hashlib.sha256(bare + body).hexdigest()
    header = _header(arrays, {**meta, _CHECKSUM: digest})
    return len(header).to_bytes(8, "little") + header + body


def unpack(data: bytes) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays and metadata of a file.  Raises ValueError with the reason if it is damaged or of another format."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > _HEADER_BYTES_MAX or 8 + length > len(data):
        raise ValueError(f"not a safetensors file: a header of {length} bytes in {len(data)}")
    try:
        header = json.loads(data[8 : 8 + length])
        meta = {str(name): str(value) for name, value in header.pop("__metadata__").items()}
        arrays = {name: _array(data, 8 + length, entry) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError(f"its header does not match its content ({type(error).__name__})") from error
    if meta.pop(_CHECKSUM, "") == "" or pack(arrays, meta) != data:
        raise ValueError("its checksum is wrong, or it was not written by ringrift")
    return arrays, meta


def read(path: Path, bytes_max: int) -> bytes:
    """The content of the file at *path*.  Raises ValueError, before reading, if it is larger than *bytes_max*."""
    size = path.stat().st_size
    if size > bytes_max:
        raise ValueError(f"it has {size} bytes, more than {bytes_max}")
    return path.read_bytes()


def _order(arrays: Mapping[str, Array]) -> list[str]:
    """Wide elements first, so that every array begins at a multiple of its element's size."""
    return sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))


def _header(arrays: Mapping[str, Array], meta: Mapping[str, str]) -> bytes:
    entries: dict[str, Any] = {"__metadata__": dict(meta)}
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
    kind, shape = np.dtype(_TYPES[entry["dtype"]]), tuple(entry["shape"])
    if not 0 <= start <= end <= len(data) - base or any(type(side) is not int or side < 0 for side in shape):
        raise ValueError("an array lies outside the file")
    array = np.frombuffer(data, kind, (end - start) // kind.itemsize, base + start)
    return array.reshape(shape)
