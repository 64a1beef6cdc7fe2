"""Dynamic thresholds: the rule by which a value moves, and thresholds with a manual clock."""

import threading

import pytest

from ringrift.kernel.errors import SettingsError, UnknownName
from ringrift_compat.health.dynamic_thresholds import (
    DynamicThreshold,
    ThresholdManager,
    _adjust,
    _AdjustmentStrategy,
    _Rule,
)

RULE = _Rule(low=5.0, high=120.0)
BAD, GOOD = [False] * 10, [True] * 10
HALF = [True, False] * 5


@pytest.mark.parametrize("strategy", _AdjustmentStrategy)
def test_failures_loosen_and_successes_tighten(strategy: _AdjustmentStrategy) -> None:
    """Too few good outcomes raise the value where higher is more permissive, and only good ones lower it."""
    rule = _Rule(low=5.0, high=120.0, strategy=strategy)
    other = _Rule(low=5.0, high=120.0, strategy=strategy, permissive_high=False)

    assert _adjust(rule, 30.0, BAD, 60.0) > 30.0 > _adjust(rule, 30.0, GOOD, 60.0)
    assert _adjust(other, 30.0, BAD, 60.0) < 30.0 < _adjust(other, 30.0, GOOD, 60.0)


def test_the_strategy_is_the_size_of_the_step() -> None:
    """Linear counts the range, exponential the value, adaptive also how far the rate is from its target."""
    steps = {
        strategy: _adjust(_Rule(low=5.0, high=120.0, strategy=strategy), 30.0, HALF, 60.0) - 30.0
        for strategy in _AdjustmentStrategy
    }

    assert steps[_AdjustmentStrategy.LINEAR] == pytest.approx(11.5)
    assert steps[_AdjustmentStrategy.EXPONENTIAL] == pytest.approx(3.0)
    assert steps[_AdjustmentStrategy.ADAPTIVE] == pytest.approx(3.0 * 0.45 / 0.95)
    assert _adjust(RULE, 30.0, BAD, 60.0) == pytest.approx(33.0)
    assert _adjust(RULE, 30.0, GOOD, 60.0) == pytest.approx(27.0)


def test_a_value_waits_for_the_cooldown_and_for_enough_outcomes() -> None:
    """Within the cooldown, with few outcomes or at its target a value stays; a full short window is enough."""
    short = _Rule(low=5.0, high=120.0, window=3)

    assert _adjust(RULE, 30.0, BAD, 59.9) == 30.0
    assert _adjust(RULE, 30.0, BAD[1:], 60.0) == 30.0
    assert _adjust(RULE, 30.0, [True] * 95 + [False] * 5, 60.0) == 30.0
    assert _adjust(short, 30.0, BAD[:2], 60.0) == 30.0
    assert _adjust(short, 30.0, BAD[:3], 60.0) > 30.0


def test_a_value_stays_within_its_bounds() -> None:
    """A step never leads out of the range, and a value of 0 can be left."""
    around = _Rule(low=0.0, high=10.0)

    assert _adjust(RULE, 119.0, BAD, 60.0) == 120.0
    assert _adjust(RULE, 5.1, GOOD, 60.0) == 5.0
    assert 0.0 < _adjust(around, 0.0, BAD, 60.0) <= 10.0
    assert _adjust(_Rule(low=1.0, high=2.0, target=1.0), 1.5, GOOD, 60.0) == 1.5


_REFUSED = [("high", 1.0), ("target", 0.0), ("target", 1.1), ("factor", 0.0), ("window", 0), ("cooldown_seconds", -1.0)]


@pytest.mark.parametrize(("field", "value"), _REFUSED)
def test_a_rule_that_makes_no_sense_is_refused(field: str, value: float) -> None:
    """The error names the field."""
    with pytest.raises(SettingsError, match=field):
        _Rule(**{"low": 1.0, "high": 2.0, field: value})


class ManualClock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def tick(self) -> float:
        return self.seconds


def test_a_value_moves_once_per_cooldown() -> None:
    """Failures loosen it after the cooldown, and outcomes under the old value do not count for the next move."""
    clock = ManualClock()
    threshold = DynamicThreshold("timeout", 30.0, 5.0, 120.0, cooldown_seconds=60, clock=clock)

    for _ in range(50):
        threshold.record_outcome(False)
    assert threshold.value == 30.0
    clock.seconds = 60.0
    loosened = threshold.record_outcome(False)
    assert loosened == threshold.value > 30.0
    assert threshold.success_rate is None
    for _ in range(50):
        threshold.record_outcome(True)
    assert threshold.value == loosened
    clock.seconds = 120.0
    assert threshold.record_outcome(True) < loosened


def test_the_window_forgets() -> None:
    """Only the last outcomes count."""
    clock = ManualClock()
    threshold = DynamicThreshold("share", 0.8, 0.5, 0.95, window=20, cooldown_seconds=60, clock=clock)
    for success in (False,) * 20 + (True,) * 19:
        threshold.record_outcome(success)
    clock.seconds = 60.0

    assert threshold.success_rate == 0.95
    assert threshold.record_outcome(True) < 0.8


def test_a_manager_has_the_thresholds_that_were_registered() -> None:
    """By their names, the newest of a name, each moving by its own outcomes; another name is unknown."""
    clock, manager = ManualClock(), ThresholdManager()
    manager.register(DynamicThreshold("mine", 0.5, 0.5, 2.0, clock=clock))
    manager.register(DynamicThreshold("mine", 1.0, 0.5, 2.0, clock=clock))
    manager.register(DynamicThreshold("other", 1.0, 0.5, 2.0, clock=clock))
    clock.seconds += 60.0
    for _ in range(10):
        manager.get("mine").record_outcome(False)

    assert manager.get("mine").value > 1.0
    assert manager.get("other").value == 1.0
    with pytest.raises(UnknownName, match="mine"):
        manager.get("heartbeat")


def test_invalid_thresholds_are_refused() -> None:
    """A value outside its bounds and an unknown strategy raise."""
    with pytest.raises(SettingsError, match="initial"):
        DynamicThreshold("x", 3.0, 1.0, 2.0)
    with pytest.raises(SettingsError, match="adaptive"):
        DynamicThreshold("x", 1.0, 1.0, 2.0, strategy="wild")


def test_threads_lose_no_outcome() -> None:
    """Outcomes of many threads are all counted."""
    threshold = DynamicThreshold("x", 1.0, 0.5, 2.0, target_success_rate=0.5, window=4000, cooldown_seconds=86_400)

    def record() -> None:
        for _ in range(500):
            threshold.record_outcome(True)

    for _ in range(2000):
        threshold.record_outcome(False)
    threads = [threading.Thread(target=record) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert threshold.success_rate == 0.5
