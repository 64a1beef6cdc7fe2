"""Daemon types: the documented enumerations and shapes around daemons, and the twelve values of a manager."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ringrift.kernel.errors import SettingsError, require_range
from ringrift.kernel.health import Status
from ringrift.kernel.ids import check_name
from ringrift.supervision.spec import CHECK_SECONDS_MIN, Restart
from ringrift.supervision.status import DaemonStatus
from ringrift_compat.daemons.duties import DUTIES
from ringrift_compat.extensible_enum import ExtensibleEnum, declare
from ringrift_compat.health.protocols import CoordinatorStatus, HealthCheckResult

_RESTART_WINDOW_SECONDS = 3600.0
"""A daemon that has worked so long since its last failure has a clean record."""
_RESTART_PAUSE_SECONDS_MAX = 30.0
"""Pauses double up to this, or stay at the cooldown where that is longer."""


class DaemonType(StrEnum, metaclass=ExtensibleEnum):
    """Every daemon that the documents and the earlier system name, and ours."""

    _ignore_ = ["name", "members"]
    members = vars()
    for name in DUTIES:
        members[name] = name.lower()

    @classmethod
    def _missing_(cls, value: object) -> Any:
        return cls.__members__.get(str(value).upper())

    @classmethod
    def declare(cls, name: str) -> "DaemonType":
        """The member *name*, which is made if there is none: a daemon of your own.  Raises InvalidId."""
        return declare(cls, check_name("daemon", name))


class DaemonState(StrEnum):
    """The state of a daemon."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    FAILED = "failed"
    RESTARTING = "restarting"
    IMPORT_FAILED = "import_failed"
    """Its duty is not built yet."""
    DEGRADED = "degraded"


_STATES = {
    "resting": DaemonState.STOPPED,
    "stopped": DaemonState.STOPPED,
    "starting": DaemonState.STARTING,
    "pausing": DaemonState.RESTARTING,
    "waiting": DaemonState.RESTARTING,
    "failed": DaemonState.FAILED,
}


def state_of(status: DaemonStatus) -> DaemonState:
    """The documented state of a daemon of the supervisor."""
    if status.state == "stopped" and status.health.status is Status.UNHEALTHY:
        return DaemonState.STOPPING  # it was asked to stop, and has not ended
    if status.state == "running":
        if not status.ready:
            return DaemonState.STARTING
        return DaemonState.RUNNING if status.health.status is Status.HEALTHY else DaemonState.DEGRADED
    return _STATES[status.state]


@dataclass(frozen=True)
class DaemonInfo:
    """The status of one daemon."""

    daemon_type: DaemonType
    state: DaemonState
    duty: str
    """The part that does it: our daemon, a part of every node, the user's own, or in words the work that brings it."""
    category: str = "other"
    critical: bool = False
    depends_on: tuple[DaemonType, ...] = ()
    healthy: bool = False
    health: str = "unknown"
    reason: str = ""
    """Why it does not run or is not healthy."""
    uptime_seconds: float = 0.0
    restart_count: int = 0
    last_error: str = ""
    max_restarts: int = 0
    health_check_interval: float | None = None

    @property
    def is_running(self) -> bool:
        """Whether its duty is being done."""
        return self.state in (DaemonState.RUNNING, DaemonState.DEGRADED)

    def to_result(self) -> HealthCheckResult:
        """The same as the result of a health check."""
        try:
            status = CoordinatorStatus(self.state.value)
        except ValueError:
            restarts = self.state is DaemonState.RESTARTING
            status = CoordinatorStatus.DEGRADED if restarts else CoordinatorStatus.ERROR
        details = {"duty": self.duty, "restart_count": self.restart_count, "last_error": self.last_error}
        return HealthCheckResult(self.healthy, status, self.reason, details)


@dataclass(frozen=True)
class DaemonManagerConfig:
    """How a manager starts, watches and ends what it starts; times in seconds.  Raises SettingsError."""

    auto_start: bool = False
    """Start everything when the manager is made."""
    enable_coordination_wiring: bool = True
    """Subscribe the events that a user's daemon object handles while it runs."""
    dependency_wait_timeout: float = 30.0
    dependency_poll_interval: float = 0.5
    health_check_interval: float = 30.0
    shutdown_timeout: float = 30.0
    """Time to stop in good order, all daemons together."""
    force_kill_timeout: float = 5.0
    """Further time for those that have not ended by then."""
    auto_restart_failed: bool = True
    strict_registry_validation: bool = False
    """Raise where dependencies are unknown or go in a circle; otherwise the daemon does not start, with the reason."""
    max_restart_attempts: int = 5
    recovery_cooldown: float = 10.0
    critical_daemon_health_interval: float = 15.0

    def __post_init__(self) -> None:
        for name, value in self.__dict__.items():
            if isinstance(value, float):
                require_range(name, value, CHECK_SECONDS_MIN if "interval" in name else 0.0, 86_400.0)
        if not 0 <= self.max_restart_attempts <= 10_000:
            raise SettingsError("max_restart_attempts", self.max_restart_attempts, "must lie between 0 and 10000")

    def restart(self, times: int | None = None, *, again: bool = True) -> Restart:
        """How often a daemon of this manager may fail; *times* and *again* are the daemon's own."""
        times = self.max_restart_attempts if times is None else times
        first, window = self.recovery_cooldown, _RESTART_WINDOW_SECONDS
        longest = max(first, _RESTART_PAUSE_SECONDS_MAX)
        times = times if again and self.auto_restart_failed else 0
        return Restart(times=times, seconds=window, first_seconds=first, seconds_max=longest)

    def check_seconds(self, critical: bool, own: float | None = None) -> float:
        """Seconds between two health checks of a daemon; *own* is what it asks for itself."""
        if own is not None:
            return own
        return self.critical_daemon_health_interval if critical else self.health_check_interval
