"""Health: one result type for every part and for the whole; unknown is not healthy."""

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import IntEnum

from ringrift.kernel.value import Value

_REASONS_MAX = 8  # reasons that the health of a whole repeats


class Status(IntEnum):
    """Ordered from worst to best, so that the worst of many is their minimum."""

    UNHEALTHY = 0
    UNKNOWN = 1
    DEGRADED = 2
    HEALTHY = 3

    @classmethod
    def _missing_(cls, value: object) -> "Status":
        """A node of another version may report a status that this one does not have: its record stays readable."""
        return cls.UNKNOWN


class Health(Value, omit_defaults=True):
    """How one part is, and a reason that a person can act on."""

    part: str
    status: Status
    reason: str = ""
    since: float | None = None  # wall time from which on it has been like this; None if not recorded
    mean: float | None = None  # of a whole: the mean points of its parts

    @property
    def points(self) -> float:
        """1 for healthy, ½ for degraded, 0 for the rest: unknown does not count as good."""
        if self.mean is not None:
            return self.mean
        return {Status.HEALTHY: 1.0, Status.DEGRADED: 0.5}.get(self.status, 0.0)


class ProbeResult(Value):
    """The result of a probe, with the reasons if it is false."""

    ok: bool
    reasons: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.ok


def worst(parts: Iterable[Health]) -> Status:
    """The worst status among *parts*; UNKNOWN if there are none."""
    return min((part.status for part in parts), default=Status.UNKNOWN)


def _score(parts: Iterable[Health]) -> float:
    """Mean points of *parts*; 0 if there are none."""
    points = [part.points for part in parts]
    return sum(points) / len(points) if points else 0.0


def whole(name: str, parts: Sequence[Health]) -> Health:
    """The health of *name*, which is made of *parts*: as its worst one, with the reasons of all that are not healthy.

    It has been like this since the first of its worst parts became so.
    """
    if not parts:
        return Health(part=name, status=Status.UNKNOWN, reason="nothing reports its health", mean=0.0)
    status = worst(parts)
    unwell = sorted((part for part in parts if part.status is not Status.HEALTHY), key=lambda part: part.status)
    reasons = [_reason(part) for part in unwell[:_REASONS_MAX]]
    if len(unwell) > _REASONS_MAX:
        reasons.append(f"and {len(unwell) - _REASONS_MAX} more")
    since = min((part.since for part in parts if part.status is status and part.since is not None), default=None)
    return Health(part=name, status=status, reason="; ".join(reasons), since=since, mean=_score(parts))


def liveness(parts: Iterable[Health], critical: Collection[str]) -> ProbeResult:
    """Whether the process should go on: false when a *critical* part is unhealthy or reports nothing.

    A part that has only just started is unknown, which is no reason to end the process.
    """
    return _probe(parts, critical, lambda status: status is not Status.UNHEALTHY)


def readiness(parts: Iterable[Health], critical: Collection[str]) -> ProbeResult:
    """Whether the process can accept work: false unless every *critical* part is healthy or at least degraded."""
    return _probe(parts, critical, lambda status: status >= Status.DEGRADED)


def _probe(parts: Iterable[Health], critical: Collection[str], is_good: Callable[[Status], bool]) -> ProbeResult:
    reporting = {part.part: part for part in parts if part.part in critical}
    reasons = [_reason(part) for part in reporting.values() if not is_good(part.status)]
    reasons += [f"{name}: reports nothing" for name in sorted(set(critical) - set(reporting))]
    return ProbeResult(ok=not reasons, reasons=tuple(reasons[:_REASONS_MAX]))


def _reason(part: Health) -> str:
    return f"{part.part}: {part.reason or part.status.name.lower()}"
