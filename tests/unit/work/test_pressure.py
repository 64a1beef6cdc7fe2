"""How hard a queue presses back follows from its depth alone."""

from itertools import pairwise

import pytest

from ringrift.work.pressure import BOUNDS, FACTORS, Bounds, Depth, depths, drain_seconds, hardest, level, trend

BOUND = Bounds(soft=20, hard=100, target=10, drain=10)


@pytest.mark.parametrize(
    ("depth", "word"),
    [
        (0, "none"), (9, "none"), (10, "low"), (14, "low"), (15, "soft"), (19, "soft"), (20, "medium"), (49, "medium"),
        (50, "hard"), (74, "hard"), (75, "high"), (89, "high"), (90, "critical"), (99, "critical"), (100, "stop"),
        (10**9, "stop"), (None, "stop"),
    ],
)  # fmt: skip
def test_each_level_begins_at_its_share_of_a_bound(depth: int | None, word: str) -> None:
    """Shares of the soft bound come first, then of the hard one; what could not be measured stops."""
    assert level(depth, BOUND) == word


@pytest.mark.parametrize("queue", BOUNDS)
def test_a_deeper_queue_never_presses_less(queue: str) -> None:
    """Every level is reached on the way to the hard bound, in order, and each keeps less of the pace."""
    bounds, order = BOUNDS[queue], list(FACTORS)
    found = [level(depth * bounds.hard // 1000, bounds) for depth in range(1001)]

    assert all(order.index(before) <= order.index(after) for before, after in pairwise(found))
    assert set(found) == set(order)
    assert all(FACTORS[before] > FACTORS[after] for before, after in pairwise(order))


def test_a_queue_holds_what_waits_and_not_what_is_done() -> None:
    """Only ready jobs of the queue's own kinds count; games and batches are counted by the lines."""
    tally = {
        ("match", "ready"): 3, ("verify", "ready"): 1, ("match", "claimed"): 50, ("sync", "ready"): 7,
        ("distribute", "ready"): 2, ("play", "ready"): 99, ("export", "dead"): 5,
    }  # fmt: skip

    assert depths(tally, fresh=400, pending=6) == {
        "training_data": 400, "pending_games": 6, "evaluation": 4, "promotion": 2, "sync": 7, "export": 0,
    }  # fmt: skip
    assert depths({}, 0, 0).keys() == BOUNDS.keys()


def test_the_hardest_of_many_counts() -> None:
    """The order is that of the levels and not of the alphabet, and without any there is a stop."""
    assert hardest(["low", "critical", "none"]) == "critical"
    assert hardest([]) == "stop"


@pytest.mark.parametrize(
    ("ages", "word"),
    [((), "unknown"), ((10.0, 299.0, 601.0), "unknown"), ((300.0,), "rising"), ((600.0,), "rising")],
)
def test_a_trend_needs_somebody_who_looked_then(ages: tuple[float, ...], word: str) -> None:
    """It compares with five to ten minutes ago, and with nothing else."""
    assert trend([Depth(tick=1000.0 - age, depth=100) for age in ages], 111, 1000.0) == word


def test_a_trend_is_a_tenth_up_or_down() -> None:
    """Less than that is stable."""
    seen = [Depth(tick=600.0, depth=90), Depth(tick=650.0, depth=110)]

    assert [trend(seen, depth, 1000.0) for depth in (89, 91, 109, 111)] == ["falling", "stable", "stable", "rising"]


def test_draining_goes_down_to_the_target() -> None:
    """At or below it nothing is left to wait for."""
    assert [drain_seconds(depth, BOUND) for depth in (0, 10, 20)] == [0.0, 0.0, 3600.0]
