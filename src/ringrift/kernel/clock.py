"""Clock: the only place where time is read, ``now`` to write down and ``tick`` to measure how long."""

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks in one: wall time for people, monotonic time for decisions."""

    def now(self) -> float:
        """Seconds since the epoch.  For display and records only: it may jump."""

    def tick(self) -> float:
        """Seconds on a clock that never goes back.  For every decision about *how long*."""


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> float:
        return time.time()

    def tick(self) -> float:
        return time.monotonic()
