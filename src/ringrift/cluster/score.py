"""One number for the health of the whole system, the word for it, and whether the loop should pause."""

from ringrift.kernel.value import Value

_WEIGHTS = {"nodes": 0.40, "circuits": 0.25, "errors": 0.20, "recoveries": 0.15}  # the weight of each measure
_LEVELS = (("healthy", 80.0), ("degraded", 60.0), ("unhealthy", 40.0), ("critical", float("-inf")))
"""The least points of each word."""
PAUSE_BELOW, RESUME_FROM = 40.0, 60.0
_RESUME_SECONDS = 120.0  # how long the points must be good again before a pause ends
_ERRORS_MAX = 20  # errors at which the measure of errors is 0


class Measures(Value):
    """The health of the parts of the system, each from 0 to 1; unknown is 0."""

    nodes: float = 0.0  # the mean points of all nodes
    circuits: float = 0.0  # the share of circuits that are not open
    errors: float = 0.0
    recoveries: float = 0.0  # the share of recent recoveries that helped


class PauseState(Value):
    """Whether the loop is paused, and since which tick the points are good again."""

    paused: bool = False
    good_since: float | None = None


def points(measures: Measures) -> float:
    """From 0 to 100, rounded so that sums of shares do not fall just short of a limit."""
    return round(100.0 * sum(weight * float(getattr(measures, name)) for name, weight in _WEIGHTS.items()), 6)


def level(points: float, *, broken: bool, idle: bool) -> str:
    """The word for so many *points*.

    While something is *broken* it is at best degraded, and while no node is known to work (*idle*) at best unhealthy,
    however good the rest is.
    """
    earned = next(place for place, (_, least) in enumerate(_LEVELS) if points >= least)
    return _LEVELS[max(earned, 2 if idle else 1 if broken else 0)][0]


def share(good: int, of: int) -> float:
    """The share that is *good*; 1 of nothing."""
    return good / of if of else 1.0


def error_measure(errors: int) -> float:
    """The measure of so many *errors*."""
    return 1.0 - min(errors, _ERRORS_MAX) / _ERRORS_MAX


def next_pause_state(before: PauseState, points: float, tick: float) -> PauseState:
    """Whether to pause at *tick*: from bad points on, until they have been good for a while."""
    if points < PAUSE_BELOW:
        return PauseState(paused=True)
    if not before.paused:
        return before
    if points < RESUME_FROM:
        return PauseState(paused=True)
    since = tick if before.good_since is None else before.good_since
    return PauseState() if tick - since >= _RESUME_SECONDS else PauseState(paused=True, good_since=since)
