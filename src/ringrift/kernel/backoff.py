"""Backoff: how long to wait before the next try, as a pure function of the try."""

from random import Random
from typing import Annotated

from ringrift.kernel.ranges import Branch, Range

_DOUBLINGS_MAX = 64  # beyond it every delay is the longest, and the power would overflow


class Backoff(Branch):
    """Doubling delays between *first_seconds* and *seconds_max*, at most *tries* tries."""

    first_seconds: Annotated[float, Range(0, 86_400)]
    seconds_max: Annotated[float, Range(0, 7 * 86_400)]
    tries: Annotated[int, Range(1, 1_000_000)]
    jitter: Annotated[float, Range(0, 10)] = 0.0  #: Share of a delay added at most, lest all waiters return at once.

    def delay(self, attempts: int, rng: Random | None = None) -> float | None:
        """Seconds to wait after *attempts* failed tries, with *rng* and jitter; None when there are no more."""
        assert attempts >= 1
        if attempts >= self.tries:
            return None
        doublings = min(attempts - 1, _DOUBLINGS_MAX)
        plain = min(self.first_seconds * 2.0**doublings, self.seconds_max)
        return plain if rng is None else plain * (1.0 + self.jitter * rng.random())
