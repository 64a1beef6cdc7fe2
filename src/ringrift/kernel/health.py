"""Health: one result type for every part and for the whole; unknown is not healthy."""

from collections.abc import Collection, Iterable, Sequence
from enum import IntEnum

from ringrift.kernel.value import Value

HEALTHY_MIN, DEGRADED_MIN = 0.8, 0.6
REASONS_MAX = 8
"""Reasons that the health of a whole repeats."""


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
    since: float | None = None
    """Wall time from which on it has been like this, None where nobody wrote it down."""
    mean: float | None = None
    """Of a whole: the mean points of its parts."""

    @property
    def points(self) -> float:
        """1 for healthy, ½ for degraded, 0 for the rest: what nobody knows is not counted as good."""
        if self.mean is not None:
            return self.mean
        return {Status.HEALTHY: 1.0, Status.DEGRADED: 0.5}.get(self.status, 0.0)


class Answer(Value):
    """What a probe answers: true only when it is so, with the reasons when it is not."""

    ok: bool
    reasons: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.ok


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


def whole(name: str, parts: Sequence[Health]) -> Health:
    """The health of *name*, which is made of *parts*: as its worst one, for the reasons of all that are not well.

    It has been like this since the first of its worst parts became so.
    """
    if not parts:
        return Health(part=name, status=Status.UNKNOWN, reason="nothing reports its health", mean=0.0)
    status = worst(parts)
    wrong = sorted((part for part in parts if part.status is not Status.HEALTHY), key=lambda part: part.status)
    reasons = [_told(part) for part in wrong[:REASONS_MAX]]
    if len(wrong) > REASONS_MAX:
        reasons.append(f"and {len(wrong) - REASONS_MAX} more")
    since = [part.since for part in parts if part.status is status and part.since is not None]
    return Health(
        part=name, status=status, reason="; ".join(reasons), since=min(since, default=None), mean=score(parts)
    )


def liveness(parts: Iterable[Health], critical: Collection[str]) -> Answer:
    """Whether it makes sense to let this go on: false when a *critical* part is unhealthy or reports nothing.

    One that has only just started is not known yet, which is no reason to end it.
    """
    found = {part.part: part for part in parts if part.part in critical}
    wrong = [_told(part) for part in found.values() if part.status is Status.UNHEALTHY]
    return _answer([*wrong, *_missing(found, critical)])


def readiness(parts: Iterable[Health], critical: Collection[str]) -> Answer:
    """Whether this can be given work: false unless every *critical* part is known to be well, or at least degraded."""
    found = {part.part: part for part in parts if part.part in critical}
    wrong = [_told(part) for part in found.values() if part.status < Status.DEGRADED]
    return _answer([*wrong, *_missing(found, critical)])


def _missing(found: Collection[str], critical: Collection[str]) -> list[str]:
    return [f"{name}: reports nothing" for name in sorted(set(critical) - set(found))]


def _answer(wrong: Sequence[str]) -> Answer:
    return Answer(ok=not wrong, reasons=tuple(wrong[:REASONS_MAX]))


def _told(part: Health) -> str:
    return f"{part.part}: {part.reason or part.status.name.lower()}"
