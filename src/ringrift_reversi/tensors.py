"""Tensors: arrays and metadata as one safetensors file that is written in exactly one way and checked to the last bit.

Nothing in such a file is code.  The metadata has a checksum of everything else, and a file must have the very bytes
that we would write: one flipped bit anywhere is detected.

Large files may be compressed: the file in zlib's format is the only array of another.  So its checksum covers every
bit, of which zlib ignores some, and a version of RingRift that cannot read it says which format it has.  Whoever reads
one says how large it may become.
"""

import hashlib
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

_HEADER_BYTES_MAX = 64 * 1024
_CHECKSUM = "checksum"
_ZLIB = "zlib"  # the array of a compressed file
_LEVEL = 1  # the fastest: higher ones take four times as long for a tenth of the bytes
_SIZES = {"F": (2, 4), "U": (1, 2, 4, 8), "I": (1, 2, 4, 8)}  # bytes of the elements that an array may have, by kind
_TYPES = {f"{kind}{8 * size}": np.dtype(f"{kind.lower()}{size}") for kind, sizes in _SIZES.items() for size in sizes}
_CODES = {dtype: name for name, dtype in _TYPES.items()}
Array = npt.NDArray[Any]


def pack(arrays: Mapping[str, Array], meta: Mapping[str, str]) -> bytes:
    """The file of *arrays* and *meta*; the same content always gives the same bytes."""
    body = b"".join(np.ascontiguousarray(arrays[name]).tobytes() for name in _order(arrays))
    bare = _header(arrays, meta)
    digest = hashlib.sha256(bare + body).hexdigest()
    header = _header(arrays, {**meta, _CHECKSUM: digest})
    return len(header).to_bytes(8, "little") + header + body


def compress(data: bytes, form: str = "") -> bytes:
    """The compressed form of a file, whose format is *form* for those who can read none."""
    return pack({_ZLIB: np.frombuffer(zlib.compress(data, _LEVEL), np.uint8)}, {"format": form})


def _decompress(body: Array, bytes_max: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        whole = stream.decompress(body.tobytes(), bytes_max)
    except zlib.error as error:
        raise ValueError(f"it cannot be decompressed: {error}") from error
    if not stream.eof or stream.unused_data:
        raise ValueError(f"it is cut off, has more behind its end, or unpacks to more than {bytes_max} bytes")
    return whole


def unpack(data: bytes, bytes_max: int = 0) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays and metadata of a file, which may be compressed if it unpacks to up to *bytes_max* bytes.

    Raises ValueError with the reason if it is damaged or of another format.
    """
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
    if bytes_max and set(arrays) == {_ZLIB}:
        return unpack(_decompress(arrays[_ZLIB], bytes_max))
    return arrays, meta


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
    kind, shape = _TYPES[entry["dtype"]], tuple(entry["shape"])
    if not 0 <= start <= end <= len(data) - base or any(type(side) is not int or side < 0 for side in shape):
        raise ValueError("an array lies outside the file")
    array = np.frombuffer(data, kind, (end - start) // kind.itemsize, base + start)
    return array.reshape(shape)
