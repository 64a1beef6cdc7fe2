"""Leases and batches follow the measured durations of jobs, each within its bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringrift.kernel.value import changed
from ringrift.work.durations import (
    _BATCH_FACTOR_MAX,
    JobLoad,
    JobRun,
    _Durations,
    _lease_seconds,
    _load,
    _with_run,
    batch_size,
)

SECONDS = st.floats(0, 1e6)


def measured(*runs: tuple[float, float]) -> _Durations:
    """The durations of jobs with 10 games each, from (seconds, silence)."""
    durations = _Durations()
    for seconds, silence in runs:
        run = JobRun(kind="play", variant="v", seconds=seconds, silence=silence, size=10)
        durations = _with_run(durations, run, 1e6)
    return durations


def test_without_measurements_the_settings_hold() -> None:
    """A lease has its least length, and a batch its usual games; so too while no length of batches is set."""
    assert _lease_seconds(None, 30.0, 600.0) == 30.0
    assert batch_size(None, 100, 20.0) == 100
    assert batch_size(measured((1, 1), (1, 1), (1, 1)), 100, 0.0) == 100


def test_jobs_that_are_silent_for_long_get_longer_leases() -> None:
    """Four times the longest silence of the last jobs, between the two bounds."""
    assert _lease_seconds(measured((60, 5)), 30.0, 600.0) == 30.0
    assert _lease_seconds(measured((60, 15), (60, 2)), 30.0, 600.0) == 60.0
    assert _lease_seconds(measured((900, 300)), 30.0, 600.0) == 600.0
    assert _lease_seconds(measured((900, 300)), 30.0, 10.0) == 30.0


def test_old_measurements_are_forgotten() -> None:
    """After 32 quick jobs a slow one does not count any more."""
    durations = measured((60, 15), *[(1.0, 0.1)] * 32)

    assert _lease_seconds(durations, 30.0, 600.0) == 30.0
    assert len(durations.silences) == len(durations.unit_seconds) == 32


def test_batches_take_about_the_time_that_is_set() -> None:
    """0.2 s a game make 100 games in 20 s; one slow job among many changes little, and two jobs are too few to tell."""
    assert batch_size(measured((2, 0), (2, 0), (2, 0), (900, 0)), 60, 20.0) == 100
    assert batch_size(measured((2, 0), (2, 0)), 60, 20.0) == 60


@pytest.mark.parametrize(("seconds", "games"), [(0.001, 60 * _BATCH_FACTOR_MAX), (9000.0, 60 // _BATCH_FACTOR_MAX)])
def test_batches_stay_within_their_bounds(seconds: float, games: int) -> None:
    """From a quarter of the games of the settings to four times as many."""
    assert batch_size(measured(*[(seconds, 0.0)] * 3), 60, 20.0) == games


@given(st.lists(st.tuples(SECONDS, SECONDS), max_size=40), st.integers(1, 10**6), SECONDS, SECONDS, SECONDS)
def test_no_measurement_leads_out_of_the_bounds(
    runs: list[tuple[float, float]], games: int, target: float, low: float, high: float
) -> None:
    """Whatever was measured."""
    durations = measured(*runs)

    assert low <= _lease_seconds(durations, low, high) <= max(low, high)
    assert max(games // _BATCH_FACTOR_MAX, 1) <= batch_size(durations, games, target) <= games * _BATCH_FACTOR_MAX


def test_a_job_counts_in_every_minute_that_it_lasted() -> None:
    """By its share; so that a long one is not all in the minute of its end, and what is long ago is forgotten."""
    run = JobRun(kind="play", variant="v", seconds=90.0, size=30, cpu_seconds=180.0)

    durations = _with_run(_Durations(), run, 6_030.0)
    long = _with_run(_Durations(), changed(run, seconds=6_000.0, size=100), 12_000.0)

    rows = [(row.number, row.cpu_seconds, row.units) for row in durations.minutes]
    assert rows == [(99, pytest.approx(120.0), pytest.approx(20.0)), (100, pytest.approx(60.0), pytest.approx(10.0))]
    assert [row.number for row in long.minutes] == list(range(190, 200))
    assert sum(row.units for row in long.minutes) == pytest.approx(10.0)


def test_what_was_done_lately_is_that_of_the_last_minutes() -> None:
    """Since the first job where that is later; nothing of an hour ago."""
    run = JobRun(kind="play", variant="v", seconds=30.0, size=30, cpu_seconds=15.0)
    durations = _with_run(_Durations(), run, 6_030.0)

    assert _load(durations, 6_060.0) == JobLoad(seconds=60.0, cpu_seconds=15.0, units=30.0)
    assert _load(durations, 9_660.0) == JobLoad(seconds=600.0, cpu_seconds=0.0, units=0.0)
    assert len(_with_run(durations, run, 9_660.0).minutes) == 1
