"""Backoff: how long to wait before the next try, as a pure function of the try."""

from random import Random

from ringrift.kernel.errors import within
from ringrift.kernel.value import Value

DOUBLINGS_MAX = 64
"""Beyond it every delay is the longest, and the power would run out of numbers."""


class Backoff(Value, forbid_unknown_fields=True):
    """Doubling delays between *first_seconds* and *seconds_max*, at most *tries* tries."""

    first_seconds: float
    seconds_max: float
    tries: int
    jitter: float = 0.0

    def __post_init__(self) -> None:
        within("first_seconds", self.first_seconds, 0, 86_400)
        within("seconds_max", self.seconds_max, 0, 7 * 86_400)
        within("tries", self.tries, 1, 1_000_000)
        within("jitter", self.jitter, 0, 10)

    def delay(self, attempts: int, rng: Random | None = None) -> float | None:
        """Seconds to wait after *attempts* failed tries; None when there are no more.

        With *rng*, up to *jitter* of the delay is added, so that many waiters do not return at once.
        """
        assert attempts >= 1
        if attempts >= self.tries:
            return None
        doublings = min(attempts - 1, DOUBLINGS_MAX)
        plain = min(self.first_seconds * 2.0**doublings, self.seconds_max)
        return plain if rng is None else plain * (1.0 + self.jitter * rng.random())
