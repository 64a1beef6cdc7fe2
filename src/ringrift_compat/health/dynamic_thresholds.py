"""Dynamic thresholds of a program: values that follow how often what they judge goes well.

The lengths of leases and batches follow measurements too; those are the core's own, in ``ringrift.work.durations``.
"""

import threading
from collections import deque
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import SettingsError, require_name, require_range
from ringrift.kernel.value import Value

_THRESHOLDS_MAX = 1000
_OUTCOMES_MIN = 10
"""Outcomes that say something about a value; a shorter window needs to be full."""
_TOLERANCE = 0.01
"""How far the rate may lie from its target without a change."""
_STEP_SHARE_MIN = 0.01
"""Share of the range that a step is measured against at least, so that a value at 0 can leave it."""


class _AdjustmentStrategy(StrEnum):
    """How large a step is."""

    LINEAR = "linear"
    """The factor's share of the whole range."""
    EXPONENTIAL = "exponential"
    """The factor's share of the present value."""
    ADAPTIVE = "adaptive"
    """As exponential, and the smaller the nearer the rate is to its target."""


class _Rule(Value):
    """The bounds of a value, the rate it aims for, how far it moves at once and how often."""

    low: float
    high: float
    target: float = 0.95
    """The share of outcomes that should be good."""
    strategy: _AdjustmentStrategy = _AdjustmentStrategy.ADAPTIVE
    factor: float = 0.1
    window: int = 100
    cooldown_seconds: float = 60.0
    permissive_high: bool = True
    """Whether a higher value lets more go well."""

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise SettingsError("threshold.high", self.high, f"must be above low = {self.low:g}")
        require_range("threshold.target", self.target, 0.01, 1.0)
        require_range("threshold.factor", self.factor, 0.001, 1.0)
        require_range("threshold.window", self.window, 1, 100_000)
        require_range("threshold.cooldown_seconds", self.cooldown_seconds, 0, 7 * 86_400)


def _adjust(rule: _Rule, value: float, outcomes: Sequence[bool], seconds: float) -> float:
    """The value that follows *value*, which had these *outcomes* and has stood for *seconds*.

    Too few good outcomes make it more permissive, more than the target make it stricter.
    """
    assert rule.low <= value <= rule.high
    if len(outcomes) < min(_OUTCOMES_MIN, rule.window) or seconds < rule.cooldown_seconds:
        return value
    rate = sum(outcomes) / len(outcomes)
    if abs(rate - rule.target) <= _TOLERANCE:
        return value
    is_low = rate < rule.target
    step = _step(rule, value, rate)
    return min(max(value + step if is_low == rule.permissive_high else value - step, rule.low), rule.high)


def _step(rule: _Rule, value: float, rate: float) -> float:
    span, target = rule.high - rule.low, rule.target
    if rule.strategy is _AdjustmentStrategy.LINEAR:
        return rule.factor * span
    step = rule.factor * max(abs(value), _STEP_SHARE_MIN * span)
    if rule.strategy is _AdjustmentStrategy.EXPONENTIAL:
        return step
    # How far the rate lies from its target, as a share of how far it could on this side.
    return step * ((target - rate) / target if rate < target else (rate - target) / (1.0 - target))


class DynamicThreshold:
    """One value between *min* and *max* that moves so that the target share of recorded outcomes is good.

    Outcomes under a former value say nothing of the present one, so each change begins a new window.
    Raises SettingsError for bounds, shares and times that make no sense.
    """

    def __init__(
        self,
        name: str,
        initial: float,
        min: float,
        max: float,
        target_success_rate: float = 0.95,
        strategy: _AdjustmentStrategy | str = _AdjustmentStrategy.ADAPTIVE,
        *,
        clock: Clock | None = None,
        **rule: Any,
    ) -> None:
        if strategy not in tuple(_AdjustmentStrategy):
            raise SettingsError("threshold.strategy", strategy, f"must be one of {', '.join(_AdjustmentStrategy)}")
        self.name = name
        word = _AdjustmentStrategy(strategy)
        self.rule = _Rule(low=min, high=max, target=target_success_rate, strategy=word, **rule)
        if not min <= initial <= max:
            raise SettingsError("threshold.initial", initial, f"must lie between {min:g} and {max:g}")
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._value = float(initial)
        self._since = self._clock.tick()
        self._outcomes: deque[bool] = deque(maxlen=self.rule.window)

    @property
    def value(self) -> float:
        """The value now."""
        return self._value

    @property
    def success_rate(self) -> float | None:
        """The share of good outcomes under the present value; None before the first."""
        with self._lock:
            return sum(self._outcomes) / len(self._outcomes) if self._outcomes else None

    def record_outcome(self, success: bool) -> float:
        """Record one outcome; the value after it."""
        with self._lock:
            self._outcomes.append(bool(success))
            tick = self._clock.tick()
            value = _adjust(self.rule, self._value, tuple(self._outcomes), tick - self._since)
            if value != self._value:
                self._value, self._since = value, tick
                self._outcomes.clear()
            return self._value


class ThresholdManager:
    """A program's own thresholds by their names.  The core has none here: nothing would obey them."""

    def __init__(self) -> None:
        self._thresholds: dict[str, DynamicThreshold] = {}

    def register(self, threshold: DynamicThreshold) -> DynamicThreshold:
        """Add *threshold*, in place of one of the same name."""
        assert len(self._thresholds) < _THRESHOLDS_MAX or threshold.name in self._thresholds, "too many thresholds"
        self._thresholds[threshold.name] = threshold
        return threshold

    def get(self, name: str) -> DynamicThreshold:
        """The threshold *name*.  Raises UnknownName."""
        require_name("threshold", name, self._thresholds)
        return self._thresholds[name]
