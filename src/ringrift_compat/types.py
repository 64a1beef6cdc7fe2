"""The documented enumerations of levels, queues, recoveries, tasks and boards: ordered where they look ordered."""

from enum import Enum, StrEnum
from typing import Any


class _Ordered(StrEnum):
    """Members compare by their order in the class, not by their letters."""

    def __ge__(self, other: str) -> bool:
        return self._compare(other) >= 0

    def __gt__(self, other: str) -> bool:
        return self._compare(other) > 0

    def __le__(self, other: str) -> bool:
        return self._compare(other) <= 0

    def __lt__(self, other: str) -> bool:
        return self._compare(other) < 0

    def _compare(self, other: str) -> int:
        """Raises TypeError for a member of another scale, ValueError for an unknown word."""
        scale = type(self)
        if isinstance(other, Enum) and not isinstance(other, scale):
            raise TypeError(f"{other!r} is not a {scale.__name__}: the two scales cannot be compared")
        members = list(scale)
        return members.index(self) - members.index(scale(other))


class BackpressureLevel(_Ordered):
    """How much a queue slows production down, from not at all to a stop."""

    NONE = "none"
    LOW = "low"
    SOFT = "soft"
    MEDIUM = "medium"
    HARD = "hard"
    HIGH = "high"
    CRITICAL = "critical"
    STOP = "stop"


class QueueType(StrEnum):
    """The queues of the documents."""

    TRAINING_DATA = "training_data"
    PENDING_GAMES = "pending_games"
    EVALUATION = "evaluation"
    PROMOTION = "promotion"
    SYNC = "sync"
    EXPORT = "export"


class RecoveryAction(StrEnum):
    """Actions against a problem with a job or a node."""

    RESTART_JOB = "restart_job"
    KILL_JOB = "kill_job"
    RESTART_NODE_SERVICES = "restart_node_services"
    REBOOT_NODE = "reboot_node"
    REMOVE_NODE = "remove_node"
    ESCALATE_HUMAN = "escalate_human"
    NONE = "none"


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
