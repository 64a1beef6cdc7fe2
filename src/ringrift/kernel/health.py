"""Health: one result type for every part and for the whole; unknown is not healthy."""

from collections.abc import Collection, Iterable
from enum import IntEnum

from ringrift.kernel.value import Value

_REASONS_MAX = 8  # reasons that a probe repeats


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
    mean: float | None = None  # of a part with members: their mean points
    remedy: str = ""  # what a person can do about it

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


# What a probe requires.  A part that has only just started is unknown, which is no reason to end the process.
ALIVE, READY = Status.UNKNOWN, Status.DEGRADED


def probe(parts: Iterable[Health], critical: Collection[str], required: Status) -> ProbeResult:
    """Whether every *critical* part reports, and nothing worse than *required*: ALIVE to go on, READY for work."""
    reporting = {part.part: part for part in parts if part.part in critical}
    bad = [part for part in reporting.values() if part.status < required]
    reasons = [f"{part.part}: {part.reason or part.status.name.lower()}" for part in bad]
    reasons += [f"{name}: reports nothing" for name in sorted(set(critical) - set(reporting))]
    return ProbeResult(ok=not reasons, reasons=tuple(reasons[:_REASONS_MAX]))
