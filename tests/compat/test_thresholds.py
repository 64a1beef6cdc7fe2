"""The documented dynamic thresholds, with a clock that is moved by hand."""

import threading

import pytest

from compat.ears import home
from ringrift.kernel.errors import SettingsError, UnknownName
from ringrift_compat.thresholds import BUILT_IN, DynamicThreshold, ThresholdManager, get_threshold_manager

__all__ = ["home"]


class Hands:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def tick(self) -> float:
        return self.seconds


def test_it_moves_once_in_a_cooldown_and_then_judges_anew() -> None:
    """Failures loosen it after the cooldown, and what happened under the old value does not count for the next one."""
    clock = Hands()
    threshold = DynamicThreshold("timeout", 30.0, 5.0, 120.0, cooldown=60, clock=clock)

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
    assert threshold.get_stats()["adjustments"] == 2
    threshold.reset()
    assert (threshold.value, threshold.get_stats()["adjustments"]) == (30.0, 0)


def test_the_window_forgets() -> None:
    """Only the last outcomes count."""
    clock = Hands()
    threshold = DynamicThreshold("share", 0.8, 0.5, 0.95, window=20, cooldown=60, clock=clock)
    for success in (False,) * 20 + (True,) * 19:
        threshold.record_outcome(success)
    clock.seconds = 60.0

    assert threshold.success_rate == 0.95
    assert threshold.record_outcome(True) < 0.8


def test_the_built_in_ones_are_there() -> None:
    """The four documented ones with their values, and one's own beside them; another name is unknown."""
    manager = get_threshold_manager()
    manager.register(DynamicThreshold("mine", 1.0, 0.5, 2.0, strategy="linear"))

    assert {name: manager.get_value(name) for name in BUILT_IN} == {
        "handler_timeout": 30.0, "heartbeat": 60.0, "plateau_window": 10.0, "memory": 0.8,
    }  # fmt: skip
    assert get_threshold_manager().get_value("mine") == 1.0
    assert manager.record_outcome("mine", True) == 1.0
    assert manager.get_stats()["mine"]["outcomes"] == 1
    with pytest.raises(UnknownName, match="handler_timeout"):
        ThresholdManager().get("mine")


def test_what_makes_no_sense_is_refused() -> None:
    """A value outside its bounds and an unknown strategy raise."""
    with pytest.raises(SettingsError, match="initial"):
        DynamicThreshold("x", 3.0, 1.0, 2.0)
    with pytest.raises(SettingsError, match="adaptive"):
        DynamicThreshold("x", 1.0, 1.0, 2.0, strategy="wild")


def test_threads_lose_no_outcome() -> None:
    """Outcomes of many threads are all counted."""
    threshold = DynamicThreshold("x", 1.0, 0.5, 2.0, window=10_000)

    def record() -> None:
        for _ in range(500):
            threshold.record_outcome(True)

    threads = [threading.Thread(target=record) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert threshold.get_stats()["outcomes"] == 2000
