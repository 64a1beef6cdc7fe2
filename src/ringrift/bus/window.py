"""Window: the same words from the same mouth within a short while are one event.

Only for what is said in the old style, without an id and without a type.  Source and node are part of the words:
three nodes that report equal batches say three things.
"""

import hashlib
from asyncio import Future
from collections.abc import Mapping
from typing import Any

import msgspec

from ringrift.events.base import Envelope

_ENCODER = msgspec.json.Encoder(order="deterministic")


def words(name: str, payload: Mapping[str, Any], source: str, node: str) -> bytes:
    """What makes two sayings the same."""
    plain = msgspec.to_builtins(dict(payload), str_keys=True)
    return hashlib.blake2b(_ENCODER.encode([name, plain, source, node]), digest_size=16).digest()


class Window:
    """Remembers what was said for *seconds*, at most *size_max* sayings.

    Two generations take turns, so that forgetting costs nothing.
    """

    def __init__(self, seconds: float, size_max: int) -> None:
        self._seconds, self._size_max = seconds, size_max
        self._young: dict[bytes, tuple[float, Future[Envelope]]] = {}
        self._old: dict[bytes, tuple[float, Future[Envelope]]] = {}
        self._turned = 0.0

    def first(self, said: bytes, tick: float) -> "Future[Envelope] | None":
        """The envelope of the same words within the window, which may still be on its way."""
        when, envelope = self._young.get(said) or self._old.get(said) or (0.0, None)
        return envelope if envelope is not None and tick - when < self._seconds else None

    def remember(self, said: bytes, envelope: "Future[Envelope]", tick: float) -> None:
        """These words have been said now."""
        if tick - self._turned >= self._seconds or len(self._young) >= self._size_max:
            self._young, self._old, self._turned = {}, self._young, tick
        self._young[said] = (tick, envelope)

    def forget(self, said: bytes) -> None:
        """They were not said after all."""
        self._young.pop(said, None)
        self._old.pop(said, None)
