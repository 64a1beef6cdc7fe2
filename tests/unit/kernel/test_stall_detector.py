"""A watch finds what stands still, on its owner's clock alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringrift.kernel.stall_detector import Observation, StallDetector, recent


def lease(mark: int = 1, name: str = "job", seconds: float = 10.0) -> Observation:
    """Something under watch."""
    return Observation(name=name, counter=mark, seconds=seconds)


def test_an_unchanged_mark_is_overdue_after_its_time() -> None:
    """It is overdue exactly when its seconds have passed since it was first observed, not before."""
    detector = StallDetector()

    results = [detector.stalled([lease()], tick) for tick in (100.0, 109.9, 110.0, 150.0)]

    assert results == [[], [], [lease()], [lease()]]


def test_a_changed_mark_gets_its_full_time_again() -> None:
    """An item that moves its mark is alive, and may stand still for all its seconds from then on."""
    detector = StallDetector()
    detector.stalled([lease(1)], 100.0)

    results = [detector.stalled([lease(2)], tick) for tick in (109.0, 118.9, 119.0)]

    assert results == [[], [], [lease(2)]]


def test_a_mark_that_goes_back_counts_as_a_change() -> None:
    """Marks are compared, not ordered: a counter that began anew is alive."""
    detector = StallDetector()
    detector.stalled([lease(7)], 100.0)

    assert detector.stalled([lease(0)], 111.0) == []


def test_an_unlisted_item_is_forgotten() -> None:
    """An item that was away and returns has its full time, even with the same mark."""
    detector = StallDetector()
    detector.stalled([lease()], 100.0)
    detector.stalled([], 105.0)

    results = [detector.stalled([lease()], tick) for tick in (111.0, 120.9, 121.0)]

    assert results == [[], [], [lease()]]


def test_after_a_restart_everything_has_its_full_time() -> None:
    """A new observer has no earlier observations, so it takes nothing away early."""
    before_restart = StallDetector()
    before_restart.stalled([lease()], 100.0)

    restarted = StallDetector()

    assert restarted.stalled([lease()], 109.0) == []
    assert restarted.stalled([lease()], 118.0) == []
    assert restarted.stalled([lease()], 119.0) == [lease()]


def test_things_are_watched_apart() -> None:
    """One that moves does not help one that does not."""
    detector = StallDetector()
    detector.stalled([lease(1, "a"), lease(1, "b")], 0.0)

    late = detector.stalled([lease(2, "a"), lease(1, "b")], 10.0)

    assert late == [lease(1, "b")]


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.floats(min_value=0.0, max_value=8.0), st.booleans()), min_size=1, max_size=30),
    st.floats(min_value=0.5, max_value=10.0),
)
def test_nothing_is_overdue_before_it_stood_still_for_its_time(steps: list[tuple[float, bool]], seconds: float) -> None:
    """For every rhythm of observations and changes, overdue means that the last change is at least its seconds old."""
    detector, tick, mark, changed = StallDetector(), 0.0, 0, 0.0
    detector.stalled([lease(mark, seconds=seconds)], tick)

    for step, moves in steps:
        tick += step
        if moves:
            mark, changed = mark + 1, tick
        late = detector.stalled([lease(mark, seconds=seconds)], tick)

        assert bool(late) == (tick - changed >= seconds)


@pytest.mark.parametrize(
    ("tick", "expected"), [(10.0, (1.0, 5.0, 9.0)), (11.0, (5.0, 9.0)), (19.0, ()), (14.9, (5.0, 9.0))]
)
def test_recent_keeps_the_last_seconds(tick: float, expected: tuple[float, ...]) -> None:
    """Only times less than the window ago are recent; exactly the window ago is not."""
    assert recent((1.0, 5.0, 9.0), tick, 10.0) == expected
