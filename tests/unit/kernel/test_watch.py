"""A watch finds what stands still, on its owner's clock alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringrift.kernel.watch import Seen, Watch, recent


def lease(mark: int = 1, name: str = "job", seconds: float = 10.0) -> Seen:
    """Something under watch."""
    return Seen(name=name, mark=mark, seconds=seconds)


def test_what_stands_still_for_its_time_is_overdue() -> None:
    """It is overdue exactly when its seconds have passed since it was first seen, not before."""
    watch = Watch()

    found = [watch.overdue([lease()], tick) for tick in (100.0, 109.9, 110.0, 150.0)]

    assert found == [[], [], [lease()], [lease()]]


def test_a_changed_mark_gets_its_full_time_again() -> None:
    """Whatever moves its mark is alive, and may stand still for all its seconds from then on."""
    watch = Watch()
    watch.overdue([lease(1)], 100.0)

    found = [watch.overdue([lease(2)], tick) for tick in (109.0, 118.9, 119.0)]

    assert found == [[], [], [lease(2)]]


def test_a_mark_that_goes_back_counts_as_a_change() -> None:
    """Marks are compared, not ordered: a counter that began anew is alive."""
    watch = Watch()
    watch.overdue([lease(7)], 100.0)

    assert watch.overdue([lease(0)], 111.0) == []


def test_what_is_no_longer_listed_is_forgotten() -> None:
    """Something that was away and comes back has its full time, even with the same mark."""
    watch = Watch()
    watch.overdue([lease()], 100.0)
    watch.overdue([], 105.0)

    found = [watch.overdue([lease()], tick) for tick in (111.0, 120.9, 121.0)]

    assert found == [[], [], [lease()]]


def test_after_a_restart_everything_has_its_full_time() -> None:
    """A new observer knows nothing of the past, so it takes nothing away early."""
    old = Watch()
    old.overdue([lease()], 100.0)

    restarted = Watch()

    assert restarted.overdue([lease()], 109.0) == []
    assert restarted.overdue([lease()], 118.0) == []
    assert restarted.overdue([lease()], 119.0) == [lease()]


def test_things_are_watched_apart() -> None:
    """One that moves does not help one that does not."""
    watch = Watch()
    watch.overdue([lease(1, "a"), lease(1, "b")], 0.0)

    late = watch.overdue([lease(2, "a"), lease(1, "b")], 10.0)

    assert late == [lease(1, "b")]


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.floats(min_value=0.0, max_value=8.0), st.booleans()), min_size=1, max_size=30),
    st.floats(min_value=0.5, max_value=10.0),
)
def test_nothing_is_overdue_before_it_stood_still_for_its_time(steps: list[tuple[float, bool]], seconds: float) -> None:
    """Whatever the rhythm of looks and changes, overdue means that the last change is at least its seconds old."""
    watch, tick, mark, changed = Watch(), 0.0, 0, 0.0
    watch.overdue([lease(mark, seconds=seconds)], tick)

    for step, moves in steps:
        tick += step
        if moves:
            mark, changed = mark + 1, tick
        late = watch.overdue([lease(mark, seconds=seconds)], tick)

        assert bool(late) == (tick - changed >= seconds)


@pytest.mark.parametrize(
    ("tick", "kept"), [(10.0, (1.0, 5.0, 9.0)), (11.0, (5.0, 9.0)), (19.0, ()), (14.9, (5.0, 9.0))]
)
def test_recent_keeps_the_last_seconds(tick: float, kept: tuple[float, ...]) -> None:
    """Only what lies less than the window back is recent; exactly the window back is not."""
    assert recent((1.0, 5.0, 9.0), tick, 10.0) == kept
