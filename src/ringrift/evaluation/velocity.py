"""Velocity: how many Elo a line gains in an hour, with bounds, and when it will reach a target at that pace."""

import math
from collections.abc import Sequence
from statistics import NormalDist

from ringrift.evaluation.interval import Interval, quantile
from ringrift.kernel.value import Value

HOUR = 3600.0
POINTS_MIN = 3
"""Two points lie on a line whatever they are: only a third can say that they do not."""
POINTS_MAX = 1000
ERROR_MIN = 0.1
"""Standard error, in Elo, that is granted to any rating: a pinned one would otherwise outweigh all others."""


class Point(Value):
    """A rating and when it held, in seconds; the bounds have the same confidence in all points."""

    at: float
    elo: Interval


def velocity(points: Sequence[Point], confidence: float = 0.95) -> Interval | None:
    """Elo gained in an hour: the slope of the weighted line through the last of *points*; None if they show no line.

    Each counts by the inverse of its variance.  Where they scatter more than their bounds allow, the bounds of the
    slope grow by as much.  An error that all points share, such as the anchor's, moves the line and not its slope.
    """
    last = sorted(points, key=lambda point: (point.at, point.elo.value))[-POINTS_MAX:]
    if len(last) < POINTS_MIN or last[0].at == last[-1].at:
        return None
    reach = NormalDist().inv_cdf((1.0 + confidence) / 2.0)
    errors = [max((point.elo.upper - point.elo.lower) / (2.0 * reach), ERROR_MIN) for point in last]
    weights = [1.0 / error**2 for error in errors]
    hours = [(point.at - last[0].at) / HOUR for point in last]
    total = math.fsum(weights)
    centre = _weighed(weights, hours) / total
    level = _weighed(weights, [point.elo.value for point in last]) / total
    away = [hour - centre for hour in hours]
    gained = [point.elo.value - level for point in last]
    spread = _weighed(weights, [by * by for by in away])
    slope = _weighed(weights, [by * elo for by, elo in zip(away, gained, strict=True)]) / spread
    freedom = len(last) - 2
    scatter = _weighed(weights, [(elo - slope * by) ** 2 for by, elo in zip(away, gained, strict=True)]) / freedom
    # The bounds of the points are trusted as far as they go; only scatter beyond them is an estimate with few degrees.
    half = max(reach, quantile(confidence, freedom) * math.sqrt(scatter)) / math.sqrt(spread)
    return Interval(value=slope, lower=slope - half, upper=slope + half)


def eta(current: float, pace: Interval | None, target: float) -> float | None:
    """Seconds until *target* at this *pace*; 0 if it is reached, None if the pace may as well be none or backwards."""
    if current >= target:
        return 0.0
    if pace is None or pace.lower <= 0.0:
        return None
    return (target - current) / pace.value * HOUR


def _weighed(weights: Sequence[float], values: Sequence[float]) -> float:
    return math.fsum(weight * value for weight, value in zip(weights, values, strict=True))
