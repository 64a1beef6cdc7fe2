"""The documented shapes of health: a result that is true only when healthy, its statuses, and reusable checks."""

import inspect
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

import msgspec

from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import RingriftError
from ringrift.kernel.health import Health, Status

UNREAD = (RingriftError, OSError, msgspec.MsgspecError)
"""The errors of a store that cannot be opened, read or understood."""


class CoordinatorStatus(StrEnum):
    """The state of a part."""

    INITIALIZING = "initializing"
    STARTING = "starting"
    READY = "ready"
    RUNNING = "running"
    PAUSED = "paused"
    DRAINING = "draining"
    STOPPING = "stopping"
    STOPPED = "stopped"
    ERROR = "error"
    DEGRADED = "degraded"


@dataclass
class HealthCheckResult:
    """The health of a part; true only when healthy."""

    healthy: bool
    status: CoordinatorStatus = CoordinatorStatus.RUNNING
    message: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    timestamp: float = field(default_factory=SystemClock().now)

    def __bool__(self) -> bool:
        return bool(self.healthy)

    @classmethod
    def from_problems(cls, problems: Iterable[str], **details: Any) -> "HealthCheckResult":
        """Healthy without *problems*, else degraded with all of them as its message."""
        message = "; ".join(problems)
        status = CoordinatorStatus.DEGRADED if message else CoordinatorStatus.RUNNING
        return cls(healthy=not message, status=status, message=message, details=details)


def read_health(part: str, result: Any) -> Health:
    """The health that a user's ``health_check()`` returned: a bool, a dictionary or an object with such fields.

    A result without a bool ``healthy`` is unknown, which is not healthy.
    """
    if isinstance(result, Health):
        return result
    healthy = result if isinstance(result, bool) else _field(result, "healthy")
    if not isinstance(healthy, bool) or inspect.isawaitable(result):
        return Health(part=part, status=Status.UNKNOWN, reason=f"its health_check() returned {result!r:.100}")
    status = _field(result, "status")
    word = str(getattr(status, "value", status) or "").lower()
    judged = Status.HEALTHY if healthy else Status.UNHEALTHY
    judged = Status.DEGRADED if word == "degraded" else judged
    default = "" if judged is Status.HEALTHY else f"its health_check() returned {word or 'unhealthy'}"
    return Health(part=part, status=judged, reason=str(_field(result, "message") or default))


def _field(result: Any, name: str) -> Any:
    return result.get(name) if isinstance(result, dict) else getattr(result, name, None)


@runtime_checkable
class CoordinatorProtocol(Protocol):
    """Any part that reports its health."""

    def health_check(self) -> HealthCheckResult:
        """The health now."""


@runtime_checkable
class DaemonProtocol(CoordinatorProtocol, Protocol):
    """Any part that can be started and stopped, and reports its health."""

    async def start(self) -> None:
        """Begin."""

    async def stop(self) -> None:
        """End."""


class HealthCheckHelper:
    """Checks that health checks are made of; each returns whether all is well, and a sentence about it.

    What is not known yet is not well.
    """

    @staticmethod
    def check_error_rate(errors: int, cycles: int, threshold: float = 0.5) -> tuple[bool, str]:
        """Whether at most *threshold* of the *cycles* failed; False before the first cycle."""
        if cycles <= 0:
            return False, f"the error rate is unknown: {errors} errors and no cycle yet"
        rate = errors / cycles
        text = f"error rate {rate:.1%}: {errors} errors in {cycles} cycles, at most {threshold:.1%}"
        return 0 <= rate <= threshold, text

    @staticmethod
    def check_uptime_grace(
        start_time: float | None, grace_period: float = 30.0, *, clock: Clock | None = None
    ) -> tuple[bool, str]:
        """Whether the part has been up for *grace_period* seconds, so that the other checks count.

        *start_time* may be wall time or monotonic time.
        """
        if not start_time or not math.isfinite(start_time):
            return False, "has not started"
        uptime = _seconds_since(start_time, clock or SystemClock())
        if uptime < 0:
            return False, f"starts in {-uptime:.0f} s: its start time lies in the future"
        if uptime < grace_period:
            return False, f"starting: up for {uptime:.0f} s of {grace_period:g} s grace"
        return True, f"up for {uptime:.0f} s, past its grace of {grace_period:g} s"

    @staticmethod
    def check_queue_depth(depth: int, max_depth: int = 1000) -> tuple[bool, str]:
        """Whether at most *max_depth* wait."""
        return 0 <= depth <= max_depth, f"queue depth {depth}, at most {max_depth}"


def _seconds_since(moment: float, clock: Clock) -> float:
    """Seconds since *moment*: not above the monotonic clock it was read from that, for wall time is decades above."""
    tick = clock.tick()
    return tick - moment if moment <= tick else clock.now() - moment
