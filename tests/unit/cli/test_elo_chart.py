"""Strength over time is drawn as it was decided."""

import pytest

from ringrift.cli import html_report
from ringrift.evaluation.gate import elo
from unit.cli.example_report import WIN, decisions


def test_strength_is_the_sum_of_what_promotions_gained() -> None:
    """It stays at a rejection, and its bounds grow with every promotion."""
    points = html_report._chart_points(decisions("square8_2p"), 2)

    gain = elo(WIN.score, 2)
    assert [one.elo.value for one in points] == pytest.approx([0.0, 0.0, gain, 2 * gain])
    assert [one.promoted for one in points] == [True, False, True, True]
    assert points[0].minute == 0.0
    assert points[3].elo.upper - points[3].elo.lower > points[2].elo.upper - points[2].elo.lower > 0


@pytest.mark.parametrize(("low", "high"), [(0.0, 100.0), (-40.0, 812.0), (0.0, 1.0), (0.0, 10.3), (-5.0, 0.01)])
def test_ticks_are_few_round_and_inside(low: float, high: float) -> None:
    """Whatever the range."""
    ticks = html_report._ticks(low, high)

    assert 2 <= len(ticks) <= 2 * html_report._TICKS
    assert all(low - 1e-9 <= one <= high + 1e-9 for one in ticks)


def test_nothing_decided_is_an_empty_drawing() -> None:
    """With its axes."""
    assert "polyline" not in html_report._strength_chart((), 2)
