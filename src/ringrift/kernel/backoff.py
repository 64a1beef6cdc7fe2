"""Backoff: how long to wait before the next try, and waiting out errors that pass by themselves."""

import asyncio
from collections.abc import Awaitable, Callable
from math import inf
from random import Random
from typing import Annotated, TypeVar

from ringrift.kernel.errors import TRANSIENT
from ringrift.kernel.ranges import Branch, Range

T = TypeVar("T")
_OnWait = Callable[[Exception], object]
DEGRADED_SECONDS = 5.0  #: How long a part may wait for what passes by itself before its health is degraded.
_WAIT_SECONDS_MIN, _WAIT_SECONDS_MAX = 0.05, 2.0  # the first and the longest pause of wait_out
_DOUBLINGS_MAX = 64  # beyond it every delay is the longest, and the power would overflow


class Backoff(Branch):
    """Doubling delays between *first_seconds* and *seconds_max*, at most *tries* tries."""

    first_seconds: Annotated[float, Range(0, 86_400)]
    seconds_max: Annotated[float, Range(0, 7 * 86_400)]
    tries: Annotated[int, Range(1, 1_000_000)]
    jitter: Annotated[float, Range(0, 10)] = 0.0

    def delay(self, attempts: int, rng: Random | None = None) -> float | None:
        """Seconds to wait after *attempts* failed tries, with *rng* and jitter; None when there are no more."""
        assert attempts >= 1
        if attempts >= self.tries:
            return None
        doublings = min(attempts - 1, _DOUBLINGS_MAX)
        plain = min(self.first_seconds * 2.0**doublings, self.seconds_max)
        return plain if rng is None else plain * (1.0 + self.jitter * rng.random())


async def wait_out(
    call: Callable[[], Awaitable[T]], *, on_wait: _OnWait = lambda error: None, seconds_max: float = inf
) -> T:
    """Await *call* again and again while it raises one of TRANSIENT, with growing pauses; other errors pass.

    *on_wait* gets each error before its pause, so that the caller can show it.  After *seconds_max* on the loop's clock
    the last error is raised.
    """
    loop, pause = asyncio.get_running_loop(), _WAIT_SECONDS_MIN
    start = loop.time()
    while True:
        began = loop.time()
        try:
            return await call()
        except TRANSIENT as error:
            if loop.time() - began > _WAIT_SECONDS_MAX:  # it went well for a while, or waited itself
                pause = _WAIT_SECONDS_MIN
            if loop.time() + pause - start > seconds_max:
                raise
            on_wait(error)
        await asyncio.sleep(pause)
        pause = min(2 * pause, _WAIT_SECONDS_MAX)
