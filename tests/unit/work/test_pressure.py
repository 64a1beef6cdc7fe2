"""The pressure of a queue follows from the seconds it takes to drain, or from counts where no rate is known."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringrift.work.pressure import (
    _FALL_SHARE,
    _LEVELS,
    _SAMPLES_MAX,
    BOUNDS,
    HARD,
    NONE,
    STOP,
    DrainWindow,
    QueuePressure,
    QueueReading,
    _rank,
    change,
    hardest,
    judge,
    read_jobs,
    require_room,
    scaled,
)

ORDER = list(_LEVELS)
WINDOW, TICK = 600.0, 10.0
QUEUES = st.sampled_from(list(BOUNDS))


def soft_seconds(queue: str) -> float:
    """The seconds of drain at which *queue* begins to slow down what fills it."""
    return 3600.0 * BOUNDS[queue].soft / BOUNDS[queue].per_hour


def hard_seconds(queue: str) -> float:
    """The seconds of drain at which *queue* stops what fills it."""
    return 3600.0 * BOUNDS[queue].hard / BOUNDS[queue].per_hour


def pressure(queue: str = "export", level: str = NONE, rate: float | None = None) -> QueuePressure:
    """Return a pressure as it may be stored."""
    return QueuePressure(
        queue=queue, depth=0, drain_seconds=None, level=level, trend="steady", since=1.0, limit=100.0, rate=rate
    )


def by_count(queue: str, depth: int, before: QueuePressure | None = None) -> QueuePressure:
    """Judge a queue that was never drained."""
    return judge(queue, QueueReading(depth=depth, drained=0), before, patience=1.0, now=5.0)


def by_rate(queue: str, seconds: float, before: str = NONE, patience: float = 1.0) -> QueuePressure:
    """Judge a queue that takes *seconds* to drain; its depth alone would stop everything."""
    depth = 10**9
    old = pressure(queue, before, rate=depth / seconds)
    return judge(queue, QueueReading(depth=depth, drained=0), old, patience=patience, now=5.0)


class Observed:
    """A queue under observation, ten seconds after ten seconds."""

    def __init__(self, queue: str, rate: float | None = None) -> None:
        self.queue, self.window, self.first_rate = queue, DrainWindow(seconds=WINDOW), rate
        self.tick, self.drained = 1000.0, 0
        self.pressure: QueuePressure | None = None
        self.levels: list[str] = []

    def look(self, depth: int, drained: int = 0, *, running: int = 0, idle: int = 0) -> str:
        """Let *drained* items leave the queue and *depth* be left ten seconds later."""
        self.tick, self.drained = self.tick + TICK, self.drained + drained
        reading = QueueReading(depth=depth, drained=self.drained, running=running, idle=idle)
        self.window = self.window.after(reading, self.tick, self.first_rate)
        self.pressure = judge(self.queue, reading, self.pressure, patience=1.0, now=self.tick, window=self.window)
        self.levels.append(self.pressure.level)
        return self.pressure.level

    @property
    def changes(self) -> int:
        return sum(before != after for before, after in pairwise(self.levels))


# -- levels ------------------------------------------------------------------------------------------------------------


BY_COUNT = "0 9 none, 10 14 low, 15 19 soft, 20 49 medium, 50 74 hard, 75 89 high, 90 99 critical, 100 999 stop"


@pytest.mark.parametrize(("first", "last", "level"), [row.split() for row in BY_COUNT.split(",")])
def test_without_a_rate_each_level_begins_at_its_share_of_a_count(first: str, last: str, level: str) -> None:
    """Shares of the soft bound come first, then of the hard one."""
    for depth in map(int, (first, last)):
        after = by_count("export", depth)
        assert (after.level, after.drain_seconds, after.limit) == (level, None, 100)
        assert require_room("gate", after, "stop", 0.0).value == depth


@pytest.mark.parametrize("queue", BOUNDS)
def test_with_a_rate_the_levels_lie_between_the_soft_and_the_hard_seconds(queue: str) -> None:
    """Below the soft seconds nothing slows down, at the hard ones everything stops, and every level lies between."""
    soft, hard = soft_seconds(queue), hard_seconds(queue)
    levels = [by_rate(queue, soft + (hard - soft) * step / 100).level for step in range(101)]

    assert by_rate(queue, soft * 0.999).level == NONE
    assert levels[0] == "low"
    assert levels[-1] == STOP
    assert levels[-2] != STOP
    assert set(levels) == set(ORDER[1:])


def test_patience_multiplies_the_seconds() -> None:
    """With twice the patience the same queue may take twice as long."""
    seconds = 1.5 * soft_seconds("sync")

    assert by_rate("sync", seconds).level != NONE
    assert by_rate("sync", seconds, patience=2.0).level == NONE
    assert by_rate("sync", 1.0, patience=1e-4).level != NONE


def test_each_level_keeps_less_of_the_pace() -> None:
    """The factors are those of the documents and fall from level to level; anything left of one job is one job."""
    assert list(_LEVELS.values()) == [1.0, 0.75, 0.5, 0.25, 0.1, 0.05, 0.01, 0.0]
    assert [scaled(4, pressure(level=level)) for level in ORDER] == [4, 3, 2, 1, 1, 1, 1, 0]
    assert scaled(1, pressure(level="medium")) == 1


@given(QUEUES, st.floats(0.001, 1e9), st.floats(0.001, 1e9), st.sampled_from(ORDER))
def test_a_longer_drain_never_presses_less(queue: str, one: float, other: float, before: str) -> None:
    """Whatever the level before, levels are monotone in the seconds of drain."""
    shorter, longer = sorted((one, other))

    assert _rank(by_rate(queue, shorter, before).level) <= _rank(by_rate(queue, longer, before).level)


@given(QUEUES, st.integers(0, 10**7), st.integers(0, 10**7), st.sampled_from(ORDER))
def test_a_deeper_queue_never_presses_less(queue: str, one: int, other: int, before: str) -> None:
    """The same for counts, where no rate is known."""
    less, more = sorted((one, other))
    old = pressure(queue, before)

    assert _rank(by_count(queue, less, old).level) <= _rank(by_count(queue, more, old).level)


@given(QUEUES, st.floats(0.0, 3.0), st.sampled_from(ORDER), st.booleans())
def test_a_constant_queue_changes_its_level_at_most_once(queue: str, share: float, before: str, has_rate: bool) -> None:
    """Whatever the level before, a queue that stays as it is never flaps."""
    levels = [before]
    for _ in range(4):
        if has_rate:
            levels.append(by_rate(queue, max(share * hard_seconds(queue), 1e-3), levels[-1]).level)
        else:
            levels.append(by_count(queue, int(share * BOUNDS[queue].hard), pressure(queue, levels[-1])).level)

    assert len(set(levels[1:])) == 1


@given(QUEUES, st.floats(0.01, 3.0), st.lists(st.floats(0.0, 0.15), min_size=2, max_size=30))
def test_a_queue_that_trembles_does_not_flap(queue: str, share: float, tremors: list[float]) -> None:
    """While the seconds stay within a sixth of each other, the level only rises."""
    levels = [NONE]
    for tremor in tremors:
        levels.append(by_rate(queue, share * hard_seconds(queue) * (1.0 - tremor), levels[-1]).level)

    assert all(_rank(before) <= _rank(after) for before, after in pairwise(levels))


def test_a_level_falls_only_clearly_below_its_bound_and_keeps_its_date() -> None:
    """Just below the bound it stays; below the share of it that lets it fall, it falls; *since* tells when."""
    full = by_count("export", 100)

    stays = by_count("export", 99, full)
    assert (stays.level, stays.since) == (STOP, full.since)
    assert by_count("export", int(100 * _FALL_SHARE) + 1, full).level == STOP
    after = judge("export", QueueReading(depth=int(100 * _FALL_SHARE) - 1, drained=0), full, patience=1.0, now=9.0)
    assert (after.level, after.since) == ("critical", 9.0)
    assert by_count("export", 0, full).level == NONE


# -- rates -------------------------------------------------------------------------------------------------------------


def test_three_thousand_games_a_second_are_never_throttled_while_export_keeps_up() -> None:
    """Millions of games wait, far beyond every count, and each export takes all of them: the pressure stays none."""
    games, per_export, round_ticks = 3000, 1_800_000, 120
    queue, fresh, free_at = Observed("training_data"), 0, 0
    for number in range(2000):
        fresh += int(games * TICK)
        drained = fresh if fresh >= per_export and number >= free_at else 0
        free_at = number + round_ticks if drained else free_at  # the line trains and tests for twenty minutes
        fresh -= drained
        queue.look(fresh, drained, idle=fresh if fresh < per_export else 0)

    assert max(sample.depth for sample in queue.window.samples) > 5 * BOUNDS["training_data"].hard
    assert set(queue.levels) == {NONE}


def test_a_queue_that_drains_within_its_soft_seconds_is_never_throttled() -> None:
    """Ten thousand jobs that are done within the hour press on nothing, although their count alone would stop all."""
    queue = Observed("sync")
    levels = [queue.look(10_000, 40, running=2) for _ in range(100)]

    assert levels[0] == STOP, "no rate is known before the first look"
    assert set(levels[1:]) == {NONE}
    assert queue.pressure is not None
    assert queue.pressure.drain_seconds == pytest.approx(10_000 / 4.0)


def test_a_queue_that_stands_still_goes_up_to_stop_and_comes_back_by_itself() -> None:
    """It was drained well once; then nothing is drained while ten items wait, and at last it is drained again."""
    queue = Observed("export")
    for _ in range(100):
        queue.look(1, 1, running=1)
    assert set(queue.levels) == {NONE}

    while queue.look(10, 0, running=1) != STOP:
        assert len(queue.levels) < 20_000, "it never stops"
    stalled = queue.levels[100:]
    assert stalled == sorted(stalled, key=_rank), "on the way up it never falls"
    assert set(stalled) == set(ORDER)
    assert len(queue.window.samples) <= _SAMPLES_MAX

    for depth in range(9, -1, -1):
        queue.look(depth, 1, running=1)
    assert queue.levels[-1] == NONE
    assert queue.changes <= 2 * (len(ORDER) - 1)


def test_a_growing_queue_without_any_drain_stops_by_its_count() -> None:
    """Nothing was ever drained: the counts of the documents hold."""
    queue = Observed("export")
    levels = [queue.look(depth) for depth in range(101)]

    assert set(levels) == set(ORDER)
    assert levels[99:] == ["critical", STOP]
    assert queue.pressure is not None
    assert queue.pressure.drain_seconds is None


def test_idle_time_is_no_drain_time() -> None:
    """After an idle hour one job was done at once: two hundred new ones are judged by its speed, not by the hour."""
    queue = Observed("evaluation")
    for _ in range(360):
        queue.look(0)
    queue.look(0, 1)

    assert queue.look(200) == NONE
    assert queue.pressure is not None
    assert queue.pressure.rate == pytest.approx(1 / TICK)


def test_a_job_that_runs_is_drain_time() -> None:
    """Nothing waits while one job runs for half an hour: that is how long each of the next ones takes."""
    queue = Observed("export")
    for _ in range(180):
        queue.look(0, running=1)
    queue.look(0, 1)

    queue.look(20)

    assert queue.pressure is not None
    assert queue.pressure.drain_seconds == pytest.approx(20 * 1800, rel=0.02)


def test_games_that_wait_for_more_games_press_on_nothing() -> None:
    """A line that collects slowly has a deep queue for days: nothing would ever drain it if self-play were slowed."""
    queue = Observed("training_data")
    for depth in range(0, 10**7, 10**5):
        queue.look(depth, idle=depth)

    assert set(queue.levels) == {NONE}
    assert queue.pressure is not None
    assert queue.pressure.depth == 9_900_000


def test_a_new_observer_goes_on_with_the_rate_before() -> None:
    """Its clock is another one and its window empty; while nothing is drained the rate falls as it would have."""
    queue = Observed("export", rate=0.1)

    queue.look(10)
    assert queue.pressure is not None
    assert queue.pressure.drain_seconds == pytest.approx(100.0)
    while queue.look(10) == NONE:
        assert len(queue.levels) < 10_000
    assert queue.pressure.rate is not None
    assert queue.pressure.rate < 0.1


def test_the_window_slides() -> None:
    """A rate of long ago is forgotten once the window is full of newer ones."""
    queue = Observed("sync")
    for _ in range(100):
        queue.look(5, 100)
    for _ in range(70):
        queue.look(5, 10)

    assert queue.window.rate == pytest.approx(1.0)
    assert queue.window.samples[-1].tick - queue.window.samples[0].tick <= WINDOW + 2 * TICK


@pytest.mark.parametrize(
    ("depths", "trend"),
    [([10] * 60, "steady"), ([*range(10, 70)], "rising"), ([*range(70, 10, -1)], "falling"), ([5], "steady")],
    ids=["steady", "rising", "falling", "one look"],
)
def test_the_trend_compares_with_the_older_half_of_the_window(depths: list[int], trend: str) -> None:
    """A depth within a tenth of the mean is steady."""
    queue = Observed("sync")
    for depth in depths:
        queue.look(depth)

    assert queue.window.trend == trend


# -- readings, events, verdicts ----------------------------------------------------------------------------------------


def test_a_queue_counts_waiting_jobs_and_not_finished_ones() -> None:
    """Only ready jobs of the queue's own kinds wait; those that are done or given up were drained."""
    tally = {
        ("match", "ready"): 3,
        ("verify", "ready"): 1,
        ("match", "claimed"): 50,
        ("match", "done"): 7,
        ("sync", "ready"): 7,
        ("sync", "cancelled"): 9,
        ("distribute", "ready"): 2,
        ("play", "ready"): 99,
        ("export", "dead"): 5,
    }

    assert read_jobs(tally) == {
        "evaluation": QueueReading(depth=4, drained=7, running=50),
        "promotion": QueueReading(depth=2, drained=0),
        "sync": QueueReading(depth=7, drained=0),
        "export": QueueReading(depth=0, drained=5),
    }
    assert {*read_jobs({}), "training_data", "pending_games"} == set(BOUNDS)


@pytest.mark.parametrize(
    ("before", "after", "backpressure"),
    [
        ("none", "soft", ""),
        ("medium", "hard", "activated"),
        ("none", "stop", "activated"),
        ("hard", "critical", ""),
        ("stop", "hard", ""),
        ("high", "medium", "released"),
        ("stop", "none", "released"),
    ],
)
def test_an_event_says_whether_backpressure_began_or_ended(before: str, after: str, backpressure: str) -> None:
    """It begins where a queue comes to hard or above, and ends where it falls below; all else only changes levels."""
    event = change(pressure(level=before), pressure(level=after))

    assert event is not None
    assert (event.queue, event.before, event.level, event.backpressure) == ("export", before, after, backpressure)
    assert event.limit == 100


def test_an_unchanged_level_is_no_event() -> None:
    """Nor is the first look at an empty queue."""
    assert change(pressure(level="soft"), pressure(level="soft")) is None
    assert change(None, pressure(level=NONE)) is None
    assert change(None, pressure(level=HARD)) is not None


def test_a_verdict_names_the_queue_its_seconds_and_the_limit() -> None:
    """It is refused from the level on that the gate names."""
    full = by_rate("export", 40_000.0)

    verdict = require_room("fill", full, HARD, 7.0)

    assert str(verdict) == "fill: waits — the queue export is at stop, seconds until it is drained: 40000 of 36000"
    assert verdict.since == 7.0
    assert require_room("fill", pressure(level="medium"), HARD, 7.0).allowed
    assert not require_room("fill", pressure(level=HARD), HARD, 7.0).allowed
    assert require_room("fill", pressure(level="critical"), STOP, 7.0).allowed
    assert "items that wait" in require_room("fill", by_count("export", 100), HARD, 7.0).rule


def test_the_hardest_of_many_counts() -> None:
    """The order is that of the levels and not of the alphabet; before the first measurement nothing presses."""
    assert hardest(pressure(level=level) for level in ("low", "critical", "none")).level == "critical"
    assert hardest([]).level == NONE
    assert require_room("fill", hardest([]), HARD, 7.0).allowed
