"""Interval: between which bounds a score lies, and so an Elo difference, and how many Elo a line gains in an hour.

The unit is the block: games of one opening hang together, so they count as one observation.  The bounds are those of
Student's t on the block means, and never narrower than they would be with four prior blocks of a plain coin among them:
a hundred equal results are much, but not certainty.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist

from ringrift.evaluation.gate import elo
from ringrift.kernel.value import Value

PRIOR_BLOCKS = 4  #: Blocks' worth of a plain coin's variance that are added.
_BLOCKS_MIN = 8  #: Below it nothing is claimed: the expansion of Student's t is not exact there.
_NORMAL, _HOUR = NormalDist(), 3600.0
_POINTS_MIN = 3  #: Two points lie on a line whatever they are: only a third can say that they do not.
_POINTS_MAX = 1000
_ERROR_MIN = 0.1  #: Standard error, in Elo, that any rating is granted: a pinned one would outweigh all others.


class Interval(Value):
    """A number and the bounds between which it lies with the stated confidence."""

    value: float
    lower: float
    upper: float


def quantile(confidence: float, freedom: int) -> float:
    """How many standard errors from the mean the two bounds lie: Student's t, by its expansion around the normal."""
    z = _NORMAL.inv_cdf((1.0 + confidence) / 2.0)
    first = (z**3 + z) / 4.0
    second = (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0
    third = (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0
    return z + first / freedom + second / freedom**2 + third / freedom**3


def of_score(means: Sequence[float], players: int, confidence: float) -> Interval:
    """The mean of the block means *means* with its two-sided bounds.  Too few blocks say nothing: 0 … 1."""
    count, parity = len(means), 1.0 / players
    total = math.fsum(means)
    mean = total / count if count else parity
    if count < _BLOCKS_MIN:
        return Interval(value=mean, lower=0.0, upper=1.0)
    squares = math.fsum((score - mean) ** 2 for score in means)
    plain = math.sqrt(squares / (count - 1) / count)
    more = count + PRIOR_BLOCKS
    # The prior blocks score parity: what they pull the mean by is what a lopsided few may be wrong by.
    centre = (total + PRIOR_BLOCKS * parity) / more
    spread = squares + count * (mean - centre) ** 2 + PRIOR_BLOCKS * ((parity - centre) ** 2 + _coin(parity, players))
    careful = math.sqrt(spread / (more - 1) / more)
    reach = quantile(confidence, count - 1)
    lower = min(mean - reach * plain, centre - reach * careful)
    upper = max(mean + reach * plain, centre + reach * careful)
    return Interval(value=mean, lower=max(lower, 0.0), upper=min(upper, 1.0))


def _coin(score: float, players: int) -> float:
    """The variance of a block mean if every seat were an independent coin that wins with *score*."""
    return score * (1.0 - score) / players


def in_elo(score: Interval, players: int) -> Interval:
    """The same interval in Elo over *players* - 1 equal opponents."""
    return Interval(value=elo(score.value, players), lower=elo(score.lower, players), upper=elo(score.upper, players))


def of_match(score: float, blocks: int, players: int, confidence: float) -> Interval:
    """The gain over the opponent by the *score* of one match alone, where only the number of its blocks is known.

    Rough, and rather too high if the match stopped when it looked good: see docs/why/ratings.md, *One Elo*.
    """
    gain = elo(score, players)
    # Laplace's rule keeps a score of 0 or 1 from looking certain.
    inner = (score * blocks + 1.0) / (blocks + 2.0)
    slope = 400.0 / (math.log(10.0) * inner * (1.0 - inner))
    reach = _NORMAL.inv_cdf((1.0 + confidence) / 2.0) * slope * math.sqrt(_coin(inner, players) / blocks)
    return Interval(value=gain, lower=gain - reach, upper=gain + reach)


_Point = tuple[float, Interval]
"""When, in seconds, and the rating that held then; the bounds have the same confidence in all points."""


def velocity(points: Sequence[_Point], confidence: float = 0.95) -> Interval | None:
    """Elo gained in an hour: the slope of the weighted line through the last of *points*; None if they show no line.

    Each counts by the inverse of its variance.  Where they scatter more than their bounds allow, the bounds of the
    slope grow by as much.  An error that all points share, such as the anchor's, moves the line and not its slope.
    """
    last = sorted(points, key=lambda point: (point[0], point[1].value))[-_POINTS_MAX:]
    if len(last) < _POINTS_MIN or last[0][0] == last[-1][0]:
        return None
    reach = _NORMAL.inv_cdf((1.0 + confidence) / 2.0)
    errors = [max((elo.upper - elo.lower) / (2.0 * reach), _ERROR_MIN) for _, elo in last]
    weights = [1.0 / error**2 for error in errors]
    hours = [(seconds - last[0][0]) / _HOUR for seconds, _ in last]
    total = math.fsum(weights)
    centre = _weighed(weights, hours) / total
    level = _weighed(weights, [elo.value for _, elo in last]) / total
    away = [hour - centre for hour in hours]
    gained = [elo.value - level for _, elo in last]
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
    return (target - current) / pace.value * _HOUR


def _weighed(weights: Sequence[float], values: Sequence[float]) -> float:
    return math.fsum(weight * value for weight, value in zip(weights, values, strict=True))
