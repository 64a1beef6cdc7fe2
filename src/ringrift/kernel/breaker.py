"""Circuit breaker: stop calling what has just failed several times, as a pure value.

    closed ─▶ (failures in a row) open ─▶ (rested) half-open ─▶ closed, or open again

It holds no time: an observer calls :func:`rested` when it has seen the breaker open for ``reset_seconds``.
"""

from enum import StrEnum
from typing import Annotated, TypeVar

from ringrift.kernel.ranges import Branch, Range
from ringrift.kernel.value import Value, changed


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
    """Failures in a row, and the state that follows from them."""

    state: BreakerState = BreakerState.CLOSED
    failures: int = 0
    tries: int = 0  # calls let through since it is half open, without an outcome yet
    opened: int = 0  # how often it has opened: an observer's counter
    error: str = ""  # the error of the last failure


_B = TypeVar("_B", bound=Breaker)


def would_allow(breaker: Breaker, limits: BreakerLimits) -> bool:
    """Whether a call would be let through now; changes nothing."""
    if breaker.state is BreakerState.HALF_OPEN:
        return breaker.tries < limits.tries_max
    return breaker.state is BreakerState.CLOSED


def allow(breaker: _B, limits: BreakerLimits) -> tuple[_B, bool]:
    """Whether a call is let through now, and the breaker after that: while half open, each call counts."""
    is_allowed = would_allow(breaker, limits)
    if is_allowed and breaker.state is BreakerState.HALF_OPEN:
        breaker = changed(breaker, tries=breaker.tries + 1)
    return breaker, is_allowed


def succeeded(breaker: _B) -> _B:
    """A call succeeded: earlier failures are forgotten, whenever that call began."""
    return changed(breaker, state=BreakerState.CLOSED, failures=0, tries=0)


def failed(breaker: _B, limits: BreakerLimits, error: str = "", *, may_open: bool = True) -> _B:
    """A call failed: the breaker opens at the limit, and on each failure while half open.

    A failure while it is open belongs to an earlier call and does not prolong that.  Unless *may_open*, it only counts.
    """
    breaker = changed(breaker, failures=breaker.failures + 1, error=error)
    is_trial = breaker.state is BreakerState.HALF_OPEN
    is_over = breaker.state is BreakerState.CLOSED and breaker.failures >= limits.failures_max and may_open
    if is_trial or is_over:
        return changed(breaker, state=BreakerState.OPEN, tries=0, opened=breaker.opened + 1)
    return breaker


def undecided(breaker: _B) -> _B:
    """A call that was let through ended without an outcome: another may take its place."""
    return changed(breaker, tries=max(breaker.tries - 1, 0))


def rested(breaker: _B) -> _B:
    """The breaker after it was open for its time: the next call tests whether it may close."""
    return changed(breaker, state=BreakerState.HALF_OPEN, tries=0) if breaker.state is BreakerState.OPEN else breaker
