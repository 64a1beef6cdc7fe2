"""One number for the system: its measures, its level, and the pause that it requires."""

import pytest

from ringrift.cluster.score import (
    _ERRORS_MAX,
    _WEIGHTS,
    Measures,
    PauseState,
    error_measure,
    level,
    next_pause_state,
    points,
    share,
)

ALL = Measures(nodes=1.0, circuits=1.0, errors=1.0, recoveries=1.0)


@pytest.mark.parametrize(("name", "weight"), _WEIGHTS.items())
def test_each_measure_counts_by_its_weight(name: str, weight: float) -> None:
    """Alone it brings its weight, all together a hundred, and an unknown measure nothing."""
    assert points(Measures(**{name: 1.0})) == pytest.approx(100 * weight)
    assert points(ALL) == 100.0
    assert points(Measures()) == 0.0


@pytest.mark.parametrize(
    ("score", "word"),
    [
        (100, "healthy"),
        (80, "healthy"),
        (79.9, "degraded"),
        (60, "degraded"),
        (59.9, "unhealthy"),
        (40, "unhealthy"),
        (39.9, "critical"),
        (0, "critical"),
    ],
)
def test_each_level_has_its_minimum_score(score: float, word: str) -> None:
    """From eighty on healthy, from sixty degraded, from forty unhealthy."""
    assert level(score, broken=False, idle=False) == word


def test_good_points_do_not_hide_a_failure() -> None:
    """Finding 7: with a failed part it is not healthy, and with no running node not even degraded."""
    assert level(100.0, broken=True, idle=False) == "degraded"
    assert level(100.0, broken=False, idle=True) == "unhealthy"
    assert level(30.0, broken=True, idle=True) == "critical"


def test_errors_and_failures_take_from_their_measure() -> None:
    """No trouble leaves all of it, much trouble nothing, and never less."""
    assert [error_measure(count) for count in (0, _ERRORS_MAX // 2, _ERRORS_MAX, 10 * _ERRORS_MAX)] == [
        1.0,
        0.5,
        0.0,
        0.0,
    ]
    assert [share(0, 0), share(1, 4), share(0, 3)] == [1.0, 0.25, 0.0]


def test_a_pause_begins_at_once_and_ends_when_all_has_been_well_for_a_while() -> None:
    """Below forty it pauses; it resumes after two minutes at sixty or more, which begin anew with each relapse."""
    state, paused = PauseState(), []
    for tick, score in ((0, 50), (1, 39), (2, 50), (10, 60), (129, 60), (129.5, 59), (130, 60), (249, 60), (250, 60)):
        state = next_pause_state(state, float(score), float(tick))
        paused.append(state.paused)

    assert paused == [False, True, True, True, True, True, True, True, False]
    assert state == PauseState()
