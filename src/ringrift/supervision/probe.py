"""Probe: how a daemon is, judged by its progress and never by its existence."""

from ringrift.kernel.health import Health, Status
from ringrift.kernel.value import Value

LATE_TICKS = 3


class Vitals(Value):
    """What the supervisor knows of one daemon."""

    name: str
    state: str
    """resting before its first start, starting, running, pausing after a failure, waiting for room, stopped, or failed
    when it was given up."""
    progress: float | None
    """Tick of the last success, None before the first."""
    started: float
    """Tick from which on silence counts."""
    patience: float
    """Seconds it may go without progress."""
    failures: int
    error: str = ""
    waits: str = ""
    """What it waits for, where waiting is not its failure."""
    left: bool = False
    """It was stopped, and still runs."""
    stall: str = ""
    """How it held up everybody else, if it did lately."""
    said: tuple[Health, ...] = ()
    """What it says of itself, and what its check says."""


def silent(seen: Vitals, tick: float) -> float:
    """Seconds without progress at *tick*."""
    return tick - max(seen.started, seen.progress if seen.progress is not None else seen.started)


def hangs(seen: Vitals, tick: float) -> bool:
    """Whether it runs and has been silent for longer than it may."""
    return seen.state == "running" and silent(seen, tick) > seen.patience


def judge(seen: Vitals, tick: float) -> Health:
    """How the daemon is at *tick*."""
    if seen.state == "failed":
        return _health(seen, Status.UNHEALTHY, f"given up: {seen.error}")
    if seen.state == "resting":
        return _health(seen, Status.UNKNOWN, "nobody has started it")
    if seen.state == "stopped":
        if seen.left:
            return _health(seen, Status.UNHEALTHY, "was told to stop and still runs: only a restart of the node helps")
        return _health(seen, Status.UNKNOWN, "stopped")
    if seen.waits:
        return _health(seen, Status.DEGRADED, f"waits: {seen.waits}")
    if hangs(seen, tick):
        return _health(seen, Status.UNHEALTHY, f"no progress for {silent(seen, tick):.0f} s")
    if seen.progress is None:
        if seen.failures:
            return _health(seen, Status.UNHEALTHY, f"fails at its start: {seen.error}")
        return _health(seen, Status.UNKNOWN, "not ready yet")
    return min(_complaints(seen), key=lambda one: one.status, default=_health(seen, Status.HEALTHY))


def _complaints(seen: Vitals) -> list[Health]:
    """What is wrong with a daemon that makes progress, the worst to be chosen."""
    found = [_health(seen, one.status, one.reason) for one in seen.said if one.status is not Status.HEALTHY]
    if seen.stall:
        found.append(_health(seen, Status.DEGRADED, seen.stall))
    if seen.failures:
        found.append(_health(seen, Status.DEGRADED, f"{seen.failures} recent failures, last: {seen.error}"))
    return found


def _health(seen: Vitals, status: Status, reason: str = "") -> Health:
    return Health(part=seen.name, status=status, reason=reason)
