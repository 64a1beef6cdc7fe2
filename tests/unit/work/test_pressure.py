"""The pressure level of a queue follows from its depth alone."""

from itertools import pairwise

import pytest

from ringrift.work.limits import _FACTORS, BOUNDS, _Bounds, depths, hardest, level

BOUND = _Bounds(soft=20, hard=100)


@pytest.mark.parametrize(
    ("depth", "name"),
    [
        (0, "none"),
        (9, "none"),
        (10, "low"),
        (14, "low"),
        (15, "soft"),
        (19, "soft"),
        (20, "medium"),
        (49, "medium"),
        (50, "hard"),
        (74, "hard"),
        (75, "high"),
        (89, "high"),
        (90, "critical"),
        (99, "critical"),
        (100, "stop"),
        (10**9, "stop"),
        (None, "stop"),
    ],
)
def test_each_level_begins_at_its_share_of_a_bound(depth: int | None, name: str) -> None:
    """Shares of the soft bound come first, then of the hard one; an unmeasured depth stops."""
    assert level(depth, BOUND) == name


@pytest.mark.parametrize("queue", BOUNDS)
def test_a_deeper_queue_never_presses_less(queue: str) -> None:
    """Every level is reached on the way to the hard bound, in order, and each keeps less of the pace."""
    bounds, order = BOUNDS[queue], list(_FACTORS)
    levels = [level(depth * bounds.hard // 1000, bounds) for depth in range(1001)]

    assert all(order.index(before) <= order.index(after) for before, after in pairwise(levels))
    assert set(levels) == set(order)
    assert all(_FACTORS[before] > _FACTORS[after] for before, after in pairwise(order))


def test_a_queue_counts_waiting_jobs_and_not_finished_ones() -> None:
    """Only ready jobs of the queue's own kinds count; games and batches are counted by the lines."""
    tally = {
        ("match", "ready"): 3,
        ("verify", "ready"): 1,
        ("match", "claimed"): 50,
        ("sync", "ready"): 7,
        ("distribute", "ready"): 2,
        ("play", "ready"): 99,
        ("export", "dead"): 5,
    }

    assert depths(tally, fresh=400, pending=6) == {
        "training_data": 400,
        "pending_games": 6,
        "evaluation": 4,
        "promotion": 2,
        "sync": 7,
        "export": 0,
    }
    assert depths({}, 0, 0).keys() == BOUNDS.keys()


def test_the_hardest_of_many_counts() -> None:
    """The order is that of the levels and not of the alphabet, and without any there is a stop."""
    assert hardest(["low", "critical", "none"]) == "critical"
    assert hardest([]) == "stop"
