"""Pace: how many games a second, from counts that were seen at some ticks."""

from collections import deque
from collections.abc import Mapping

SECONDS = 60.0
"""How far it looks back: batches come every few seconds, and a shorter look would only show them come."""
SEEN_MAX = 1000


class Pace:
    """Of every variant, over the last minute."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, Mapping[str, int]]] = deque(maxlen=SEEN_MAX)

    def see(self, tick: float, games: Mapping[str, int]) -> None:
        """Take in how many games there are at *tick*, by variant."""
        self._seen.append((tick, games))
        while len(self._seen) > 2 and self._seen[1][0] <= tick - SECONDS:
            self._seen.popleft()

    def of(self, variant: str) -> float:
        """Games a second of *variant*."""
        if len(self._seen) < 2:
            return 0.0
        (began, first), (ended, last) = self._seen[0], self._seen[-1]
        return (last.get(variant, 0) - first.get(variant, 0)) / max(ended - began, 1e-9)

    def total(self) -> float:
        """Games a second of all variants."""
        return sum(self.of(variant) for variant in self._seen[-1][1]) if self._seen else 0.0
