"""Probe: how a daemon is, judged by its progress and never by its existence."""

from ringrift.kernel.health import Health, Status
from ringrift.kernel.value import Value

LATE_TICKS = 3


class Seen(Value):
    """What the supervisor knows of one daemon."""

    name: str
    state: str
    progress: float | None
    """Tick of the last success, None before the first."""
    started: float
    patience: float
    """Seconds it may go without progress."""
    failures: int
    error: str = ""


def judge(seen: Seen, tick: float) -> Health:
    """How the daemon is at *tick*."""
    if seen.state == "failed":
        return Health(part=seen.name, status=Status.UNHEALTHY, reason=f"given up: {seen.error}")
    if seen.state == "stopped":
        return Health(part=seen.name, status=Status.UNKNOWN, reason="stopped")
    silent = tick - (seen.progress if seen.progress is not None else seen.started)
    if silent > seen.patience:
        return Health(part=seen.name, status=Status.UNHEALTHY, reason=f"no progress for {silent:.0f} s")
    if seen.progress is None:
        return Health(part=seen.name, status=Status.UNKNOWN, reason="not ready yet")
    if seen.failures:
        reason = f"{seen.failures} recent failures, last: {seen.error}"
        return Health(part=seen.name, status=Status.DEGRADED, reason=reason)
    return Health(part=seen.name, status=Status.HEALTHY)
