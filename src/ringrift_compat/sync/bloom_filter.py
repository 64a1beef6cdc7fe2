"""Bloom filter: a small summary of what a node holds, to tell another machine what it need not send."""

import hashlib
from collections.abc import Iterable
from math import ceil, log

from ringrift.sync import ledger
from ringrift_compat.embedded_node import embedded

_CAPACITY_MAX = 100_000_000
_HASHES_MAX = 30
_HEADER_BYTES = 8  # the hash functions, and the number of bits


class BloomFilter:
    """What was added is always in it; what was not is in it with a chance of *error_rate*, once it is full."""

    def __init__(self, capacity: int = 10_000, error_rate: float = 0.01) -> None:
        """Raises ValueError for a size or a rate that makes no filter."""
        if not (0 < capacity <= _CAPACITY_MAX and 0 < error_rate < 1):
            raise ValueError(f"capacity must be 1 to {_CAPACITY_MAX} and error_rate between 0 and 1")
        self._bits = max(8, ceil(-capacity * log(error_rate) / log(2) ** 2))
        self._hashes = min(_HASHES_MAX, max(1, round(self._bits / capacity * log(2))))
        self._data = bytearray(ceil(self._bits / 8))

    def _places(self, item: str) -> list[int]:
        digest = hashlib.sha256(item.encode()).digest()
        first, second = int.from_bytes(digest[:16]), int.from_bytes(digest[16:]) | 1
        return [(first + number * second) % self._bits for number in range(self._hashes)]

    def add(self, item: str) -> None:
        """Add *item*."""
        for place in self._places(item):
            self._data[place // 8] |= 1 << place % 8

    def update(self, items: Iterable[str]) -> None:
        """Add all of *items*."""
        for item in items:
            self.add(item)

    def __contains__(self, item: str) -> bool:
        return all(self._data[place // 8] >> place % 8 & 1 for place in self._places(item))

    def missing(self, items: Iterable[str]) -> list[str]:
        """Those of *items* that were certainly not added: these must be sent."""
        return [item for item in items if item not in self]

    def to_bytes(self) -> bytes:
        """The filter for another machine."""
        return self._hashes.to_bytes(1) + self._bits.to_bytes(_HEADER_BYTES - 1) + bytes(self._data)

    @classmethod
    def from_bytes(cls, data: bytes) -> "BloomFilter":
        """The filter that another machine made.  Raises ValueError for bytes that are none."""
        new, hashes, bits = cls(1), data[0] if data else 0, int.from_bytes(data[1:_HEADER_BYTES])
        if not 0 < hashes <= _HASHES_MAX or len(data) != _HEADER_BYTES + ceil(bits / 8) or bits < 8:
            raise ValueError("these bytes are no Bloom filter")
        new._hashes, new._bits, new._data = hashes, bits, bytearray(data[_HEADER_BYTES:])
        return new


def get_node_filter(node_id: str, error_rate: float = 0.01) -> BloomFilter:
    """The files that *node_id* holds by the ledger."""
    blobs = embedded.query(lambda view: ledger.held_by(view, node_id))
    result = BloomFilter(max(len(blobs), 1), error_rate)
    result.update(blobs)
    return result
