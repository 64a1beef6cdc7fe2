"""The documented shapes of health: a result that is true only when healthy, the states that it names, and checks."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

import msgspec

from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import RingriftError
from ringrift.kernel.health import Health, Status

UNREAD = (RingriftError, OSError, msgspec.MsgspecError)
"""What comes of a store that cannot be opened, read or understood."""
GRACE_SECONDS = 30.0
DEPTH_MAX = 1000
ERROR_RATE_MAX = 0.5
AGE_SECONDS_MAX = 300.0
MEMORY_MEGABYTES_MAX = 1024.0
Checked = tuple[bool, str]
"""Whether all is well, and a sentence about it."""


class CoordinatorStatus(StrEnum):
    """What a part is doing."""

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


_STATUSES = {
    Status.HEALTHY: CoordinatorStatus.RUNNING,
    Status.DEGRADED: CoordinatorStatus.DEGRADED,
    Status.UNHEALTHY: CoordinatorStatus.ERROR,
    Status.UNKNOWN: CoordinatorStatus.STOPPED,  # nobody sees it run
}


@dataclass
class HealthCheckResult:
    """How a part is, as it says itself.

    ``HealthCheckResult.healthy()``, on the class, makes one that is well; on an instance ``healthy`` is the field.
    """

    healthy: bool
    status: CoordinatorStatus = CoordinatorStatus.RUNNING
    message: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    timestamp: float = field(default_factory=SystemClock().now)

    def __bool__(self) -> bool:
        return bool(self.healthy)

    @classmethod
    def unhealthy(
        cls, message: str = "", status: CoordinatorStatus = CoordinatorStatus.ERROR, **details: Any
    ) -> "HealthCheckResult":
        """One that is not well, for this reason."""
        return cls(healthy=False, status=status, message=message, details=details)

    @classmethod
    def degraded(cls, message: str = "", **details: Any) -> "HealthCheckResult":
        """One that works worse than it should, which is not healthy."""
        return cls(healthy=False, status=CoordinatorStatus.DEGRADED, message=message, details=details)

    @classmethod
    def from_checks(cls, checks: Iterable[Checked], **details: Any) -> "HealthCheckResult":
        """What several checks come to: healthy if each is, and there is one."""
        found = list(checks)
        wrong = [message for ok, message in found if not ok]
        if not found:
            wrong = ["nothing was checked"]
        status = CoordinatorStatus.DEGRADED if wrong else CoordinatorStatus.RUNNING
        return cls(healthy=not wrong, status=status, message="; ".join(wrong), details=details)

    @classmethod
    def from_health(cls, health: Health, **details: Any) -> "HealthCheckResult":
        """Ours, in the documented shape."""
        return cls(
            healthy=health.status is Status.HEALTHY, status=_STATUSES[health.status], message=health.reason,
            details=details,
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """The same as plain words and numbers."""
        return asdict(self) | {"status": str(self.status)}


class _Well:
    """What ``healthy`` is on the class: a way to make a result that is well.  An instance has its own field instead."""

    def __get__(self, instance: object, owner: type[HealthCheckResult]) -> Any:
        def healthy(message: str = "", **details: Any) -> HealthCheckResult:
            return owner(healthy=True, message=message, details=details)

        return healthy


# Behind the decorator, which would take it for the default of the field.
type.__setattr__(HealthCheckResult, "healthy", _Well())


def read_result(found: object) -> HealthCheckResult:
    """What a user's ``health_check()`` answered, whatever class it is of: only its fields count, or its truth.

    None, and what has no ``healthy`` and is no bool, says nothing: that is not healthy.
    """
    if isinstance(found, HealthCheckResult):
        return found
    if isinstance(found, bool):
        return HealthCheckResult(
            healthy=found, status=CoordinatorStatus.RUNNING if found else CoordinatorStatus.ERROR
        )  # fmt: skip
    fields: dict[str, Any] = found if isinstance(found, dict) else {
        name: getattr(found, name) for name in ("healthy", "status", "message", "details") if hasattr(found, name)
    }  # fmt: skip
    if not isinstance(fields.get("healthy"), bool):
        return HealthCheckResult.unhealthy(f"says nothing of its health: {found!r:.80}")
    well: bool = fields["healthy"]
    return HealthCheckResult(
        healthy=well, status=_status(fields.get("status"), well), message=str(fields.get("message") or ""),
        details=dict(fields.get("details") or {}),
    )  # fmt: skip


def _status(word: object, well: bool) -> CoordinatorStatus:
    """The status that *word* means, a member of any enumeration or a word; else what fits."""
    text = str(getattr(word, "value", word)).lower()
    known = {status.value: status for status in CoordinatorStatus}
    return known.get(text, CoordinatorStatus.RUNNING if well else CoordinatorStatus.ERROR)


@runtime_checkable
class CoordinatorProtocol(Protocol):
    """Whatever can tell how it is."""

    def health_check(self) -> HealthCheckResult:
        """How it is now."""


@runtime_checkable
class DaemonProtocol(CoordinatorProtocol, Protocol):
    """Whatever can be started and stopped, and can tell how it is."""

    async def start(self) -> None:
        """Begin."""

    async def stop(self) -> None:
        """End."""


class HealthCheckHelper:
    """Checks that health checks are made of.  Each answers whether all is well; what is not known yet is not well."""

    @staticmethod
    def check_error_rate(errors: int, cycles: int, threshold: float = ERROR_RATE_MAX) -> Checked:
        """Whether at most *threshold* of the *cycles* failed.  Before the first cycle nobody knows, so it is not ok."""
        if cycles <= 0:
            return False, f"the error rate is unknown: {errors} errors and no cycle yet"
        rate = errors / cycles
        text = f"error rate {rate:.1%}: {errors} errors in {cycles} cycles, at most {threshold:.1%}"
        return 0 <= rate <= threshold, text

    @staticmethod
    def check_uptime_grace(
        start_time: float | None, grace_period: float = GRACE_SECONDS, *, clock: Clock | None = None
    ) -> Checked:
        """Whether the grace period is over, so that the other checks count: ok once the part is up for that long.

        Within its grace a part is starting and not known to be well, so it is not ok yet; nor is one that has not
        started.  *start_time* may be wall time or monotonic time.
        """
        if not start_time or not math.isfinite(start_time):
            return False, "has not started"
        up = _since(start_time, clock or SystemClock())
        if up < 0:
            return False, f"starts in {-up:.0f} s: its start time lies in the future"
        if up < grace_period:
            return False, f"starting: up for {up:.0f} s of {grace_period:g} s grace, too early to tell"
        return True, f"up for {up:.0f} s, past its grace of {grace_period:g} s"

    @staticmethod
    def check_queue_depth(depth: int, max_depth: int = DEPTH_MAX) -> Checked:
        """Whether at most *max_depth* wait."""
        return 0 <= depth <= max_depth, f"queue depth {depth}, at most {max_depth}"

    @staticmethod
    def check_memory_usage(used_mb: float, max_mb: float = MEMORY_MEGABYTES_MAX) -> Checked:
        """Whether at most *max_mb* megabytes are in use."""
        return 0 <= used_mb <= max_mb, f"memory {used_mb:.0f} MB, at most {max_mb:.0f} MB"

    @staticmethod
    def check_last_activity(
        last_activity: float | None, max_age: float = AGE_SECONDS_MAX, *, clock: Clock | None = None
    ) -> Checked:
        """Whether something happened within *max_age* seconds.  If nothing ever did it is not ok."""
        if not last_activity or not math.isfinite(last_activity):
            return False, "the last activity is unknown: nothing has happened yet"
        age = max(_since(last_activity, clock or SystemClock()), 0.0)
        return age <= max_age, f"last activity {age:.0f} s ago, at most {max_age:g} s"

    check_staleness = check_last_activity

    @staticmethod
    def combine(*checks: Checked, **details: Any) -> HealthCheckResult:
        """What several checks come to."""
        return HealthCheckResult.from_checks(checks, **details)


def _since(moment: float, clock: Clock) -> float:
    """Seconds since *moment*.  What is not above the monotonic clock was read from it: wall time is decades above."""
    tick = clock.tick()
    return tick - moment if moment <= tick else clock.now() - moment
