"""Daemon types: the documented enumerations and shapes around daemons, and the twelve values of a manager."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ringrift.kernel.errors import SettingsError
from ringrift.kernel.health import Status
from ringrift.kernel.ids import check_name
from ringrift.supervision.report import DaemonReport
from ringrift.supervision.spec import LOOK_SECONDS_MIN, Restart
from ringrift_compat.daemon_duties import DUTIES
from ringrift_compat.declaring import Declaring, declared

RESTARTS_MAX = 10_000
RESTART_WINDOW_SECONDS = 3600.0
"""A daemon that has worked so long since its last failure has a clean record."""
RESTART_PAUSE_SECONDS_MAX = 30.0
"""Pauses double up to this, or stay at the cooldown where that is longer."""
_SECONDS_MAX = 86_400.0


class DaemonType(StrEnum, metaclass=Declaring):
    """Every daemon that the documents and the earlier system name, and ours."""

    _ignore_ = ["word", "members"]
    members = vars()
    for word in DUTIES:
        members[word] = word.lower()

    @classmethod
    def _missing_(cls, value: object) -> Any:
        return cls.__members__.get(str(value).upper())

    @classmethod
    def declare(cls, name: str) -> "DaemonType":
        """The member *name*, which is made if there is none: a daemon of your own.  Raises InvalidId."""
        return declared(cls, check_name("daemon", name))


class DaemonState(StrEnum):
    """What a daemon is doing."""

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
    "resting": DaemonState.STOPPED, "stopped": DaemonState.STOPPED, "starting": DaemonState.STARTING,
    "pausing": DaemonState.RESTARTING, "waiting": DaemonState.RESTARTING, "failed": DaemonState.FAILED,
}  # fmt: skip


def state_of(report: DaemonReport) -> DaemonState:
    """The documented word for how the supervisor finds a daemon."""
    if report.state == "stopped" and report.health.status is Status.UNHEALTHY:
        return DaemonState.STOPPING  # it was told to, and has not ended
    if report.state == "running":
        if not report.ready:
            return DaemonState.STARTING
        return DaemonState.RUNNING if report.health.status is Status.HEALTHY else DaemonState.DEGRADED
    return _STATES[report.state]


@dataclass(frozen=True)
class DaemonInfo:
    """What is known of one daemon."""

    daemon_type: DaemonType
    state: DaemonState
    duty: str
    """Who does it: our daemon, a part of every node, the user's own, or in words what brings it."""
    category: str = "other"
    critical: bool = False
    depends_on: tuple[DaemonType, ...] = ()
    healthy: bool = False
    health: str = "unknown"
    reason: str = ""
    """Why it is not as it should be."""
    started_at: float | None = None
    """Wall time, while it runs."""
    uptime_seconds: float = 0.0
    restart_count: int = 0
    last_error: str = ""
    last_error_time: float | None = None
    import_error: str | None = None
    auto_restart: bool = True
    max_restarts: int = 0
    health_check_interval: float | None = None

    @property
    def is_running(self) -> bool:
        """Whether its duty is being done."""
        return self.state in (DaemonState.RUNNING, DaemonState.DEGRADED)


@dataclass(frozen=True)
class DaemonManagerConfig:
    """How a manager starts, watches and ends what it starts; times in seconds.  Raises SettingsError."""

    auto_start: bool = False
    """Start everything when the manager is made."""
    enable_coordination_wiring: bool = True
    """Subscribe what a user's daemon object listens to while it runs."""
    dependency_wait_timeout: float = 30.0
    dependency_poll_interval: float = 0.5
    health_check_interval: float = 30.0
    shutdown_timeout: float = 30.0
    """What stopping in good order may take, all daemons together."""
    force_kill_timeout: float = 5.0
    """What is given to those that have not ended by then."""
    auto_restart_failed: bool = True
    strict_registry_validation: bool = False
    """Raise where dependencies are unknown or go in a circle; otherwise the daemon does not start, with the reason."""
    max_restart_attempts: int = 5
    recovery_cooldown: float = 10.0
    critical_daemon_health_interval: float = 15.0

    def __post_init__(self) -> None:
        for name in _SECONDS:
            value, least = getattr(self, name), LOOK_SECONDS_MIN if "interval" in name else 0.0
            if not least <= value <= _SECONDS_MAX:
                raise SettingsError(name, value, f"must lie between {least:g} and {_SECONDS_MAX:g}")
        if not 0 <= self.max_restart_attempts <= RESTARTS_MAX:
            raise SettingsError("max_restart_attempts", self.max_restart_attempts, "must not be negative")

    def restart(self, times: int | None = None, *, again: bool = True) -> Restart:
        """How often what this manager starts may fail; *times* and *again* are a daemon's own."""
        times = self.max_restart_attempts if times is None else times
        return Restart(
            times=times if again and self.auto_restart_failed else 0, seconds=RESTART_WINDOW_SECONDS,
            first_seconds=self.recovery_cooldown,
            seconds_max=max(self.recovery_cooldown, RESTART_PAUSE_SECONDS_MAX),
        )  # fmt: skip

    def look_seconds(self, critical: bool, own: float | None = None) -> float:
        """Seconds between two looks at a daemon; *own* is what it asks for itself."""
        if own is not None:
            return own
        return self.critical_daemon_health_interval if critical else self.health_check_interval


_SECONDS = (
    "dependency_wait_timeout", "dependency_poll_interval", "health_check_interval", "shutdown_timeout",
    "force_kill_timeout", "recovery_cooldown", "critical_daemon_health_interval",
)  # fmt: skip
