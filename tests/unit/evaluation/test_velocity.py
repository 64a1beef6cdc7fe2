"""Velocity is the slope through ratings, bounded as often as stated, and promises nothing that it cannot know."""

import math
from random import Random

import pytest

from ringrift.evaluation.interval import _HOUR, _POINTS_MAX, Interval, _Point, eta, velocity

TRIALS = 1000
REACH = 1.959964


def point(hours: float, elo: float, error: float) -> _Point:
    """A rating with this standard error."""
    return 1.7e9 + hours * _HOUR, Interval(value=elo, lower=elo - REACH * error, upper=elo + REACH * error)


def test_points_on_a_line_have_its_slope() -> None:
    """Twelve Elo an hour, however unevenly the points lie and count."""
    actual = velocity([point(hours, 100 + 12 * hours, 5 + hours) for hours in (0.0, 0.5, 3.0, 4.0)])

    assert actual is not None
    assert actual.value == pytest.approx(12.0)
    assert actual.lower < 12.0 < actual.upper


def test_the_order_of_points_does_not_matter() -> None:
    """The same points shuffled give the same bits."""
    random = Random(1)
    points = [point(hours, random.gauss(0, 30), 10.0) for hours in range(20)]

    assert velocity(points) == velocity(random.sample(points, 20))


def test_a_wide_rating_counts_for_little() -> None:
    """One point that is far off with a wide interval hardly bends the line."""
    line = [point(hours, 10.0 * hours, 5.0) for hours in range(5)]

    actual = velocity([*line, point(5.0, 500.0, 1000.0)])

    assert actual is not None
    assert actual.value == pytest.approx(10.0, abs=0.1)


@pytest.mark.parametrize("beyond", [1.0, 4.0])
def test_the_true_velocity_lies_within_the_bounds(beyond: float) -> None:
    """At least 95 % of simulated lines hold it, also where points scatter four times as much as their bounds."""
    random, lease_of = Random(f"{beyond}"), 0
    for _ in range(TRIALS):
        actual = velocity([point(hours, random.gauss(7 * hours, beyond * 20), 20.0) for hours in range(8)])
        assert actual is not None
        lease_of += actual.lower <= 7.0 <= actual.upper

    assert lease_of / TRIALS >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / TRIALS)


@pytest.mark.parametrize("hours", [(), (1.0,), (1.0, 2.0), (3.0, 3.0, 3.0)])
def test_too_few_points_show_no_line(hours: tuple[float, ...]) -> None:
    """Less than three, or all at one moment."""
    assert velocity([point(at, 10.0 * at, 5.0) for at in hours]) is None


def test_old_points_are_forgotten() -> None:
    """Beyond the limit only the newest count."""
    old = [point(hours / 100, 1000.0, 1.0) for hours in range(50)]
    recent = [point(100 + hours / 100, hours / 10, 1.0) for hours in range(_POINTS_MAX)]

    assert velocity([*old, *recent]) == velocity(recent)


def test_pinned_points_do_not_outweigh_all() -> None:
    """A rating without any spread, as an anchor's, is taken with a small one."""
    actual = velocity([point(0.0, 0.0, 0.0), point(1.0, 10.0, 5.0), point(2.0, 20.0, 5.0)])

    assert actual is not None
    assert actual.value == pytest.approx(10.0)


def test_an_arrival_is_foretold_only_on_evidence() -> None:
    """Half of the way in an hour's pace is half an hour; an unsure or falling pace foretells nothing."""
    sure, unsure = Interval(value=20.0, lower=5.0, upper=35.0), Interval(value=20.0, lower=-5.0, upper=45.0)
    falling = Interval(value=-20.0, lower=-30.0, upper=-10.0)

    assert eta(100.0, sure, 110.0) == pytest.approx(_HOUR / 2)
    assert eta(100.0, unsure, 110.0) is None
    assert eta(100.0, falling, 110.0) is None
    assert eta(100.0, None, 110.0) is None
    assert eta(110.0, unsure, 110.0) == 0.0
