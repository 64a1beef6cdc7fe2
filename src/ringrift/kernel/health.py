"""Health: one result type for every part; unknown is not healthy."""

from collections.abc import Iterable
from enum import IntEnum

from ringrift.kernel.value import Value

HEALTHY_MIN, DEGRADED_MIN = 0.8, 0.6


class Status(IntEnum):
    """Ordered from worst to best, so that the worst of many is their minimum."""

    UNHEALTHY = 0
    UNKNOWN = 1
    DEGRADED = 2
    HEALTHY = 3


class Health(Value):
    """How one part is, and a reason that a person can act on."""

    part: str
    status: Status
    reason: str = ""

    @property
    def points(self) -> float:
        """1 for healthy, ½ for degraded, 0 for the rest: what nobody knows is not counted as good."""
        return {Status.HEALTHY: 1.0, Status.DEGRADED: 0.5}.get(self.status, 0.0)


def worst(parts: Iterable[Health]) -> Status:
    """The worst status among *parts*; UNKNOWN if there are none."""
    return min((part.status for part in parts), default=Status.UNKNOWN)


def score(parts: Iterable[Health]) -> float:
    """Mean points of *parts*; 0 if there are none."""
    points = [part.points for part in parts]
    return sum(points) / len(points) if points else 0.0


def word(points: float) -> str:
    """The documented word for a score."""
    return "healthy" if points >= HEALTHY_MIN else "degraded" if points >= DEGRADED_MIN else "unhealthy"
