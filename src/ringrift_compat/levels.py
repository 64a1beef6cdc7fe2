"""The documented enumerations of levels, queues, recoveries, tasks and boards: ordered where they look ordered."""

from enum import Enum, StrEnum
from typing import Any

from ringrift.work.pressure import FACTORS


class Ordered(StrEnum):
    """Members compare by their order in the class, not by their letters."""

    def __ge__(self, other: str) -> bool:
        return self._rank() >= self._of(other)._rank()

    def __gt__(self, other: str) -> bool:
        return self._rank() > self._of(other)._rank()

    def __le__(self, other: str) -> bool:
        return self._rank() <= self._of(other)._rank()

    def __lt__(self, other: str) -> bool:
        return self._rank() < self._of(other)._rank()

    def _rank(self) -> int:
        return list(type(self)).index(self)

    def _of(self, other: str) -> "Ordered":
        """*other* as one of ours.  Raises TypeError for a member of another scale, ValueError for an unknown word."""
        if isinstance(other, Enum) and not isinstance(other, type(self)):
            raise TypeError(f"{other!r} is no {type(self).__name__}: the two scales have nothing in common")
        return type(self)(other)


class BackpressureLevel(Ordered):
    """How hard a queue presses back, from not at all to a stop."""

    NONE = "none"
    LOW = "low"
    SOFT = "soft"
    MEDIUM = "medium"
    HARD = "hard"
    HIGH = "high"
    CRITICAL = "critical"
    STOP = "stop"

    @property
    def factor(self) -> float:
        """The share of its usual pace that production keeps at this level."""
        return FACTORS[self.value]

    def should_throttle(self) -> bool:
        """Whether production is to slow down."""
        return self > BackpressureLevel.NONE

    def should_stop(self) -> bool:
        """Whether production is to stop."""
        return self is BackpressureLevel.STOP


class QueueType(StrEnum):
    """The queues of the documents."""

    TRAINING_DATA = "training_data"
    PENDING_GAMES = "pending_games"
    EVALUATION = "evaluation"
    PROMOTION = "promotion"
    SYNC = "sync"
    EXPORT = "export"


class RecoveryAction(StrEnum):
    """What can be done about trouble with a job or a node."""

    RESTART_JOB = "restart_job"
    KILL_JOB = "kill_job"
    RESTART_NODE_SERVICES = "restart_node_services"
    REBOOT_NODE = "reboot_node"
    REMOVE_NODE = "remove_node"
    ESCALATE_HUMAN = "escalate_human"
    NONE = "none"


class ErrorSeverity(Ordered):
    """How bad an error is."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


class SystemHealthLevel(Ordered):
    """How the system is, from the worst to the best."""

    CRITICAL = "critical"
    UNHEALTHY = "unhealthy"
    DEGRADED = "degraded"
    HEALTHY = "healthy"


class TaskType(StrEnum):
    """The kinds of task of the documents."""

    SELFPLAY = "selfplay"
    GPU_SELFPLAY = "gpu_selfplay"
    HYBRID_SELFPLAY = "hybrid_selfplay"
    TRAINING = "training"
    EVALUATION = "evaluation"
    EXPORT = "export"
    SYNC = "sync"
    TOURNAMENT = "tournament"
    PARITY = "parity"
    CMAES = "cmaes"
    PIPELINE = "pipeline"
    IMPROVEMENT_LOOP = "improvement_loop"
    BACKGROUND_LOOP = "background_loop"
    UNKNOWN = "unknown"


class BoardType(StrEnum):
    """The boards of the documents, also under their short names."""

    HEX8 = "hex8"
    SQUARE8 = "square8"
    SQUARE19 = "square19"
    HEXAGONAL = "hexagonal"

    @classmethod
    def _missing_(cls, value: object) -> Any:
        return _SHORT.get(str(value).lower())


_SHORT = {
    "hexsmall": BoardType.HEX8,
    "sq8": BoardType.SQUARE8,
    "sq19": BoardType.SQUARE19,
    "hexlarge": BoardType.HEXAGONAL,
}
