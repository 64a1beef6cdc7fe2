"""Score: one number for how the whole system is, the word for it, and whether the loop should pause."""

from ringrift.kernel.value import Value

WEIGHTS = {"nodes": 0.40, "circuits": 0.25, "errors": 0.20, "recoveries": 0.15}
"""What each measure counts for."""
LEVELS = (("healthy", 80.0), ("degraded", 60.0), ("unhealthy", 40.0))
"""The least points of each word; below them all it is critical."""
CRITICAL = "critical"
DIGITS = 6
PAUSE_BELOW, RESUME_FROM = 40.0, 60.0
RESUME_SECONDS = 120.0
"""How long the points must be good again before a pause ends."""
ERRORS_MAX = 20
"""Errors at which nothing is left of their measure."""


class Measures(Value):
    """How the parts of the system are, each from 0 to 1; what nobody knows is 0."""

    nodes: float = 0.0
    """The mean points of all nodes."""
    circuits: float = 0.0
    """The share of circuits that are not open."""
    errors: float = 0.0
    recoveries: float = 0.0
    """The share of recent recoveries that helped."""


class Pausing(Value):
    """Whether the loop is paused, and since which tick the points are good again."""

    paused: bool = False
    well_since: float | None = None


def points(measures: Measures) -> float:
    """From 0 to 100, rounded so that sums of shares do not fall just short of a limit."""
    return round(100.0 * sum(weight * float(getattr(measures, name)) for name, weight in WEIGHTS.items()), DIGITS)


def level(found: float, *, broken: bool, idle: bool) -> str:
    """The word for so many points.

    While something is *broken* it is at best degraded, and while no node is known to work (*idle*) at best unhealthy,
    however well the rest is.
    """
    words = [word for word, _ in LEVELS]
    earned = next((place for place, (_, least) in enumerate(LEVELS) if found >= least), len(LEVELS))
    place = max(earned, words.index("unhealthy") if idle else words.index("degraded") if broken else 0)
    return words[place] if place < len(words) else CRITICAL


def share(good: int, of: int) -> float:
    """The share that is *good*; if there was nothing, nothing was bad."""
    return good / of if of else 1.0


def spared(errors: int) -> float:
    """What so many *errors* leave of their measure."""
    return 1.0 - min(errors, ERRORS_MAX) / ERRORS_MAX


def pausing(before: Pausing, found: float, tick: float) -> Pausing:
    """Whether to pause at *tick*: from bad points on, until they have been good for a while."""
    if found < PAUSE_BELOW:
        return Pausing(paused=True)
    if not before.paused:
        return before
    if found < RESUME_FROM:
        return Pausing(paused=True)
    since = tick if before.well_since is None else before.well_since
    return Pausing() if tick - since >= RESUME_SECONDS else Pausing(paused=True, well_since=since)
