"""The documented shapes of health: a result that is true only when healthy, and the states that it names."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable


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


@dataclass
class HealthCheckResult:
    """How a part is, as it says itself."""

    healthy: bool
    status: CoordinatorStatus = CoordinatorStatus.RUNNING
    message: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    timestamp: float = 0.0

    def __bool__(self) -> bool:
        return self.healthy


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
