"""The documented thresholds: values that follow how often what they judge goes well, by the rule of the kernel."""

import threading
from collections import deque
from collections.abc import Mapping
from typing import Any

from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import SettingsError, UnknownName
from ringrift.kernel.threshold import Strategy, Threshold, adjusted
from ringrift_compat.ambient import ambient

KEPT = "thresholds"
THRESHOLDS_MAX = 1000
BUILT_IN: Mapping[str, tuple[float, float, float, bool]] = {
    "handler_timeout": (30.0, 5.0, 120.0, True),
    "heartbeat": (60.0, 20.0, 300.0, True),
    "plateau_window": (10.0, 5.0, 30.0, True),
    "memory": (0.8, 0.5, 0.95, True),
}
"""Name → initial, least and greatest value, and whether a higher one lets more pass."""
AdjustmentStrategy = Strategy


class DynamicThreshold:
    """One value between *min* and *max* that is told outcomes and moves so that the wanted share of them is good.

    Outcomes under a former value say nothing of the present one, so each change begins a new window.
    Raises SettingsError for bounds, shares and times that make no sense.
    """

    def __init__(
        self, name: str, initial: float, min: float, max: float, target_success_rate: float = 0.95,
        strategy: Strategy | str = Strategy.ADAPTIVE, factor: float = 0.1, window: int = 100, cooldown: float = 60.0,
        higher_is_more_permissive: bool = True, *, clock: Clock | None = None,
    ) -> None:  # fmt: skip
        if strategy not in tuple(Strategy):
            raise SettingsError("threshold.strategy", strategy, f"must be one of {', '.join(Strategy)}")
        self.name = name
        self.rule = Threshold(
            low=min, high=max, target=target_success_rate, strategy=Strategy(strategy), factor=factor, window=window,
            cooldown_seconds=cooldown, permissive_high=higher_is_more_permissive,
        )  # fmt: skip
        if not min <= initial <= max:
            raise SettingsError("threshold.initial", initial, f"must lie between {min:g} and {max:g}")
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._initial = self._value = float(initial)
        self._since = self._clock.tick()
        self._outcomes: deque[bool] = deque(maxlen=window)
        self._adjustments = 0

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
        """Take in one outcome; the value behind it."""
        with self._lock:
            self._outcomes.append(bool(success))
            tick = self._clock.tick()
            moved = adjusted(self.rule, self._value, tuple(self._outcomes), tick - self._since)
            if moved != self._value:
                self._value, self._since = moved, tick
                self._outcomes.clear()
                self._adjustments += 1
            return self._value

    def reset(self) -> None:
        """Go back to the initial value and forget all outcomes."""
        with self._lock:
            self._value, self._since, self._adjustments = self._initial, self._clock.tick(), 0
            self._outcomes.clear()

    def get_stats(self) -> dict[str, Any]:
        """How it stands."""
        return {
            "name": self.name, "value": self._value, "initial": self._initial, "min": self.rule.low,
            "max": self.rule.high, "target_success_rate": self.rule.target, "success_rate": self.success_rate,
            "outcomes": len(self._outcomes), "adjustments": self._adjustments, "strategy": self.rule.strategy.value,
        }  # fmt: skip


class ThresholdManager:
    """Thresholds by their names; the four built-in ones are there from the start and follow what they are told."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._all: dict[str, DynamicThreshold] = {}
        for name, (initial, low, high, permissive) in BUILT_IN.items():
            self.register(
                DynamicThreshold(name, initial, low, high, higher_is_more_permissive=permissive, clock=self._clock)
            )

    def register(self, threshold: DynamicThreshold) -> DynamicThreshold:
        """Add *threshold*, in place of one of the same name."""
        assert len(self._all) < THRESHOLDS_MAX or threshold.name in self._all, "thresholds are registered without end"
        self._all[threshold.name] = threshold
        return threshold

    def get(self, name: str) -> DynamicThreshold:
        """The threshold *name*.  Raises UnknownName."""
        if name not in self._all:
            raise UnknownName("threshold", name, self._all)
        return self._all[name]

    get_threshold = get

    def get_value(self, name: str) -> float:
        """The value of *name* now.  Raises UnknownName."""
        return self.get(name).value

    def record_outcome(self, name: str, success: bool) -> float:
        """Tell *name* of one outcome; its value behind it.  Raises UnknownName."""
        return self.get(name).record_outcome(success)

    def get_stats(self) -> dict[str, dict[str, Any]]:
        """How each of them stands."""
        return {name: threshold.get_stats() for name, threshold in self._all.items()}


def get_threshold_manager() -> ThresholdManager:
    """The thresholds of this program, for as long as its node is open."""
    kept = ambient.node().kept
    found: ThresholdManager = kept.get(KEPT) or kept.setdefault(KEPT, ThresholdManager())
    return found


def get_threshold(name: str) -> DynamicThreshold:
    """The threshold *name* of this program.  Raises UnknownName."""
    return get_threshold_manager().get(name)
