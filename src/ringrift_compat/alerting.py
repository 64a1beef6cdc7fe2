"""The documented alerts: something that a person should see, published as our alert events."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from ringrift.events import alert
from ringrift.kernel.clock import SystemClock
from ringrift_compat.ambient import Pending
from ringrift_compat.events import get_router
from ringrift_compat.levels import Ordered
from ringrift_compat.router_event import RouterEvent


class AlertSeverity(Ordered):
    """How bad it is."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"

    @property
    def level(self) -> str:
        """Our word for it."""
        return "severe" if self is AlertSeverity.ERROR else self.value


class AlertCategory(StrEnum):
    """What it concerns."""

    SYSTEM = "system"
    NODE = "node"
    DAEMON = "daemon"
    HEALTH = "health"
    RESOURCE = "resource"
    DATA = "data"
    SYNC = "sync"
    TRAINING = "training"
    EVALUATION = "evaluation"
    QUALITY = "quality"
    PIPELINE = "pipeline"


@dataclass
class Alert:
    """Trouble of one category about one subject: the same again is the same alert, and open until it is cleared."""

    message: str
    severity: AlertSeverity = AlertSeverity.WARNING
    category: AlertCategory = AlertCategory.SYSTEM
    source: str = ""
    node_id: str = ""
    subject: str = ""
    """What is in trouble; without it, the node, or the source."""
    details: dict[str, Any] = field(default_factory=dict)
    timestamp: float = field(default_factory=lambda: SystemClock().now())

    def __post_init__(self) -> None:
        self.severity, self.category = AlertSeverity(self.severity), AlertCategory(self.category)

    @property
    def about(self) -> str:
        """What is in trouble."""
        return self.subject or self.node_id or self.source

    def publish(self) -> Pending[RouterEvent]:
        """Raise it; awaiting what is returned is the durable acknowledgement."""
        said = {"level": self.severity.level, "detail": self.message, "details": self.details, "node_id": self.node_id}
        return get_router().publish(alert.Raised.name(), self._named() | said, source=self.source)

    def clear(self, detail: str = "") -> Pending[RouterEvent]:
        """Say that it is over."""
        return get_router().publish(alert.Cleared.name(), self._named() | {"detail": detail}, source=self.source)

    def _named(self) -> dict[str, Any]:
        # With its moment: what is raised, cleared and raised again in the same words is no repetition.
        return {"kind": self.category.value, "subject": self.about, "timestamp": self.timestamp,
                "said_at": SystemClock().now()}  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """It as plain values."""
        return asdict(self) | {"severity": self.severity.value, "category": self.category.value}
