"""Breaker: what keeps somebody from asking again and again for what has just failed, as a pure value.

    closed ─▶ (failures in a row) open ─▶ (time) half-open ─▶ closed, or open again

Time is a tick that the caller hands in.
"""

from enum import StrEnum

import msgspec

from ringrift.kernel.errors import within
from ringrift.kernel.value import Value


class State(StrEnum):
    """Whether one may try."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Limits(Value, forbid_unknown_fields=True):
    """When a breaker opens, for how long, and how many tries then show whether it may close."""

    failures_max: int = 3
    """Failures in a row at which it opens."""
    reset_seconds: float = 300.0
    tries_max: int = 1
    """Tries that are let through at once while it is half open."""

    def __post_init__(self) -> None:
        within("failures_max", self.failures_max, 1, 1_000_000)
        within("reset_seconds", self.reset_seconds, 0, 30 * 86_400)
        within("tries_max", self.tries_max, 1, 1_000_000)


class Breaker(Value):
    """How often in a row it failed, and what follows from that."""

    failures: int = 0
    opened: float | None = None
    """The tick at which it opened last; None while it is closed."""
    tries: int = 0
    """Let through since it is half open, and not heard of yet."""
    tried: float = 0.0
    """The tick at which the last of them was let through."""
    error: str = ""
    """Of the last failure."""


def state(breaker: Breaker, limits: Limits, tick: float) -> State:
    """What *breaker* is at *tick*."""
    if breaker.opened is None:
        return State.CLOSED
    return State.OPEN if tick < breaker.opened + limits.reset_seconds else State.HALF_OPEN


def would_allow(breaker: Breaker, limits: Limits, tick: float) -> bool:
    """Whether a try would be let through now; takes nothing."""
    match state(breaker, limits, tick):
        case State.CLOSED:
            return True
        case State.OPEN:
            return False
        case State.HALF_OPEN:
            # Who was let through and never told how it went keeps its place no longer than the breaker stays open.
            return breaker.tries < limits.tries_max or tick >= breaker.tried + limits.reset_seconds


def allow(breaker: Breaker, limits: Limits, tick: float) -> tuple[Breaker, bool]:
    """Whether a try is let through now, and the breaker behind it: while it is half open each try takes a place."""
    if not would_allow(breaker, limits, tick):
        return breaker, False
    if state(breaker, limits, tick) is State.HALF_OPEN:
        tries = breaker.tries if breaker.tries < limits.tries_max else 0
        breaker = msgspec.structs.replace(breaker, tries=tries + 1, tried=tick)
    return breaker, True


def succeeded(breaker: Breaker) -> Breaker:
    """A try went well: nothing is left of earlier failures, whenever that try began."""
    return Breaker(error=breaker.error)


def failed(breaker: Breaker, limits: Limits, tick: float, error: str = "") -> Breaker:
    """A try failed: at the limit, and on each failure while it is half open, it opens.

    What fails late while it is open has begun before and does not make it stay open longer.
    """
    failures = breaker.failures + 1
    now = state(breaker, limits, tick)
    if now is State.OPEN or (now is State.CLOSED and failures < limits.failures_max):
        return msgspec.structs.replace(breaker, failures=failures, error=error)
    return Breaker(failures=failures, opened=tick, error=error)


def undecided(breaker: Breaker) -> Breaker:
    """A try that was let through told neither way: its place is free again."""
    return msgspec.structs.replace(breaker, tries=max(breaker.tries - 1, 0))


def seconds_left(breaker: Breaker, limits: Limits, tick: float) -> float:
    """How long it stays open; 0 if it is not."""
    if breaker.opened is None:
        return 0.0
    return max(breaker.opened + limits.reset_seconds - tick, 0.0)
