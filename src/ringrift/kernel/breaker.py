"""Circuit breaker: stop calling what has just failed several times, as a pure value.

    closed ─▶ (failures in a row) open ─▶ (time) half-open ─▶ closed, or open again

Time is a tick that the caller passes in.
"""

from enum import StrEnum
from typing import Annotated

import msgspec

from ringrift.kernel.ranges import Branch, Range
from ringrift.kernel.value import Value


class BreakerState(StrEnum):
    """Whether calls are let through."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class BreakerLimits(Branch):
    """When a breaker opens, for how long, and how many calls then test whether it may close."""

    failures_max: Annotated[int, Range(1, 1_000_000)] = 3  #: Failures in a row at which it opens.
    reset_seconds: Annotated[float, Range(0, 30 * 86_400)] = 300.0
    tries_max: Annotated[int, Range(1, 1_000_000)] = 1  #: Calls that are let through at once while it is half open.


class Breaker(Value):
    """Consecutive failures, and what follows from them."""

    failures: int = 0
    opened: float | None = None  # the tick at which it opened last; None while it is closed
    tries: int = 0  # calls let through since it is half open, without an outcome yet
    tried: float = 0.0  # the tick of the last of them
    error: str = ""  # the error of the last failure


def state(breaker: Breaker, limits: BreakerLimits, tick: float) -> BreakerState:
    """The state of *breaker* at *tick*."""
    if breaker.opened is None:
        return BreakerState.CLOSED
    return BreakerState.OPEN if tick < breaker.opened + limits.reset_seconds else BreakerState.HALF_OPEN


def would_allow(breaker: Breaker, limits: BreakerLimits, tick: float) -> bool:
    """Whether a call would be let through now; changes nothing."""
    now = state(breaker, limits, tick)
    if now is not BreakerState.HALF_OPEN:
        return now is BreakerState.CLOSED
    # A call without an outcome blocks the others no longer than the breaker stays open.
    return breaker.tries < limits.tries_max or tick >= breaker.tried + limits.reset_seconds


def allow(breaker: Breaker, limits: BreakerLimits, tick: float) -> tuple[Breaker, bool]:
    """Whether a call is let through now, and the breaker after that: while half open, each call counts."""
    if not would_allow(breaker, limits, tick):
        return breaker, False
    if state(breaker, limits, tick) is BreakerState.HALF_OPEN:
        tries = breaker.tries if breaker.tries < limits.tries_max else 0
        breaker = msgspec.structs.replace(breaker, tries=tries + 1, tried=tick)
    return breaker, True


def succeeded(breaker: Breaker) -> Breaker:
    """A call succeeded: earlier failures are forgotten, whenever that call began."""
    return Breaker(error=breaker.error)


def failed(breaker: Breaker, limits: BreakerLimits, tick: float, error: str = "") -> Breaker:
    """A call failed: the breaker opens at the limit, and on each failure while half open.

    A failure while it is open belongs to an earlier call and does not keep it open longer.
    """
    failures = breaker.failures + 1
    now = state(breaker, limits, tick)
    if now is BreakerState.OPEN or (now is BreakerState.CLOSED and failures < limits.failures_max):
        return msgspec.structs.replace(breaker, failures=failures, error=error)
    return Breaker(failures=failures, opened=tick, error=error)


def undecided(breaker: Breaker) -> Breaker:
    """A call that was let through ended without an outcome: another may take its place."""
    return msgspec.structs.replace(breaker, tries=max(breaker.tries - 1, 0))


def seconds_left(breaker: Breaker, limits: BreakerLimits, tick: float) -> float:
    """How long it stays open; 0 if it is not."""
    if breaker.opened is None:
        return 0.0
    return max(breaker.opened + limits.reset_seconds - tick, 0.0)
