"""Backoff: how long to wait before the next try, as a pure function of the try."""

from random import Random

from ringrift.kernel.value import Value


class Backoff(Value):
    """Doubling delays between *first_seconds* and *seconds_max*, at most *tries* tries."""

    first_seconds: float
    seconds_max: float
    tries: int
    jitter: float = 0.0

    def delay(self, attempts: int, rng: Random | None = None) -> float | None:
        """Seconds to wait after *attempts* failed tries; None when there are no more.

        With *rng*, up to *jitter* of the delay is added, so that many waiters do not return at once.
        """
        assert attempts >= 1
        if attempts >= self.tries:
            return None
        plain = min(self.first_seconds * 2.0 ** (attempts - 1), self.seconds_max)
        return plain if rng is None else plain * (1.0 + self.jitter * rng.random())
