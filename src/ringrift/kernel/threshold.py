"""Threshold: a limit that follows how often what it judges goes well, as a pure function of the recent outcomes."""

from collections.abc import Sequence
from enum import StrEnum

from ringrift.kernel.errors import SettingsError, within
from ringrift.kernel.value import Value

OUTCOMES_MIN = 10
"""Outcomes that say something about a value; a shorter window needs to be full."""
TOLERANCE = 0.01
"""How far the rate may lie from its target without a change."""
STEP_SHARE_MIN = 0.01
"""Of the range: what a step is measured against at least, so that a value at 0 can leave it."""


class Strategy(StrEnum):
    """How large the step is."""

    LINEAR = "linear"
    """The factor's share of the whole range."""
    EXPONENTIAL = "exponential"
    """The factor's share of the present value."""
    ADAPTIVE = "adaptive"
    """As exponential, and the smaller the nearer the rate is to its target."""


class Threshold(Value):
    """Between which bounds a value moves, what for, how far at once and how often."""

    low: float
    high: float
    target: float = 0.95
    """The share of outcomes that should be good."""
    strategy: Strategy = Strategy.ADAPTIVE
    factor: float = 0.1
    window: int = 100
    cooldown_seconds: float = 60.0
    permissive_high: bool = True
    """Whether a higher value lets more go well."""

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise SettingsError("threshold.high", self.high, f"must be above low = {self.low:g}")
        within("threshold.target", self.target, 0.01, 1.0)
        within("threshold.factor", self.factor, 0.001, 1.0)
        within("threshold.window", self.window, 1, 100_000)
        within("threshold.cooldown_seconds", self.cooldown_seconds, 0, 7 * 86_400)


def adjusted(rule: Threshold, value: float, outcomes: Sequence[bool], seconds: float) -> float:
    """The value that follows *value*, which had these *outcomes* and has stood for *seconds*; the same if none does.

    Too few good ones make it more permissive, more good ones than wanted make it stricter.
    """
    assert rule.low <= value <= rule.high
    if len(outcomes) < min(OUTCOMES_MIN, rule.window) or seconds < rule.cooldown_seconds:
        return value
    rate = sum(outcomes) / len(outcomes)
    if abs(rate - rule.target) <= TOLERANCE:
        return value
    looser = rate < rule.target
    step = _step(rule, value, _distance(rate, rule.target))
    moved = value + step if looser == rule.permissive_high else value - step
    return min(max(moved, rule.low), rule.high)


def _distance(rate: float, target: float) -> float:
    """How far *rate* lies from *target*, as a share of how far it could on this side."""
    return (target - rate) / target if rate < target else (rate - target) / (1.0 - target)


def _step(rule: Threshold, value: float, distance: float) -> float:
    span = rule.high - rule.low
    match rule.strategy:
        case Strategy.LINEAR:
            return rule.factor * span
        case Strategy.EXPONENTIAL:
            return rule.factor * max(abs(value), STEP_SHARE_MIN * span)
        case Strategy.ADAPTIVE:
            return rule.factor * max(abs(value), STEP_SHARE_MIN * span) * distance
