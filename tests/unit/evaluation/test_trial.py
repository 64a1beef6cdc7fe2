"""Simulated matches are as stated: players as strong, blocks as common, orders as random."""

from collections import Counter
from itertools import islice
from random import Random

import pytest

from ringrift.evaluation.gate import _plain, expected
from ringrift.evaluation.trial import (
    _DRAWS,
    Contest,
    Fleet,
    Order,
    Season,
    _drawn,
    _Flight,
    _in_turn,
    _paces,
    outcomes,
    rates,
    season,
    trials,
)
from ringrift.kernel.settings import Budget, Gate


def mean(table: tuple[float, ...]) -> float:
    """The mean of a table's entries."""
    return sum(table) / len(table)


def variance(table: tuple[float, ...]) -> float:
    """The variance of a table's entries."""
    return sum(entry * entry for entry in table) / len(table) - mean(table) ** 2


@pytest.mark.parametrize("players", [2, 3, 4])
@pytest.mark.parametrize("elo", [-50.0, 0.0, 35.0, 200.0])
def test_the_mean_score_is_that_of_the_stated_difference(players: int, elo: float) -> None:
    """Whatever the values of seats and openings, the mean rank score over all of them is that of the Elo difference."""
    table = outcomes(Contest(elo=elo, players=players), Random(1))

    assert len(table) == _DRAWS
    assert mean(table) == pytest.approx(expected(elo, 2), abs=1e-4)


@pytest.mark.parametrize("players", [2, 3, 4])
def test_without_effects_blocks_are_plain(players: int) -> None:
    """Where seats and openings are worth nothing, a block of equals has plain variance; where they are, it has less."""
    contest = Contest(elo=0.0, players=players, seat_elo=0.0, opening_elo=0.0)
    common = Contest(elo=0.0, players=players, seat_elo=100.0, opening_elo=200.0)

    assert variance(outcomes(contest, Random(1))) == pytest.approx(_plain(players, ranked=True), rel=1e-3)
    assert variance(outcomes(common, Random(1))) < 0.9 * _plain(players, ranked=True)


@pytest.mark.parametrize("players", [3, 4])
def test_wins_only_are_wins(players: int) -> None:
    """Single games have the scores 0 and 1, and equals win one in as many as there are players."""
    table = outcomes(Contest(elo=0.0, players=players, rotated=False), Random(1))

    assert set(table) == {0.0, 1.0}
    assert mean(table) == pytest.approx(1 / players, abs=1e-4)


def test_draws_follow_the_table() -> None:
    """Each score comes as often as the table has it."""
    table = outcomes(Contest(elo=35.0), Random(1))

    seen = Counter(islice(_drawn(table, Random(2)), 50_000))

    for score, count in Counter(table).items():
        assert seen[score] / 50_000 == pytest.approx(count / _DRAWS, abs=0.01)


def test_durations_have_the_mean_and_the_spread_of_their_games() -> None:
    """A block takes 1 on average, and two games spread less than one."""
    one, two = _paces(1, Random(1)), _paces(2, Random(1))

    assert mean(one) == pytest.approx(1.0, rel=0.02)
    assert variance(one) == pytest.approx(1 / 4, rel=0.05)
    assert variance(two) == pytest.approx(1 / 8, rel=0.05)


def flight(scores: list[float], lasting: list[float], fleet: Fleet) -> _Flight:
    """Blocks with these scores and durations on their way."""
    return _Flight(iter(scores), iter(lasting), fleet)


def test_arrivals_are_sorted_by_the_time_they_take() -> None:
    """Two at once: the quick second arrives first, and the next to start overtakes the slow first."""
    arrived = list(flight([0.1, 0.2, 0.3, 0.4], [5.0, 1.0, 1.0, 9.0], Fleet(in_flight=2)))

    assert arrived == [(1, 0.2), (2, 0.3), (0, 0.1), (3, 0.4)]


def test_losses_are_slower_by_the_ratio() -> None:
    """With the same base time a lost block arrives after a won one, and not if both are as quick."""
    assert [number for number, _ in flight([0.0, 1.0], [1.0, 1.5], Fleet(in_flight=2, slow=2.0))] == [1, 0]
    assert [number for number, _ in flight([0.0, 1.0], [1.0, 1.5], Fleet(in_flight=2))] == [0, 1]


def test_in_turn_is_dispatch_order() -> None:
    """In any order of arrival, blocks are reported in the order of their numbers, none before all earlier ones."""
    log = _in_turn([(1, 0.2), (2, 0.3), (0, 0.1), (3, 0.4)])

    assert list(log) == [0.1, 0.2, 0.3, 0.4]
    assert list(_in_turn([(1, 0.2), (2, 0.3)])) == []


def test_surplus_counts_needless_blocks() -> None:
    """One block in flight leaves none; fifty leave about fifty or more, and never more than the cap allows."""
    gate, contest = Gate(), Contest(elo=35.0, players=4)

    def trial(in_flight: int) -> list[tuple[int, int]]:
        fleet = Fleet(in_flight=in_flight, slow=1.3)
        return [(trial.blocks, trial.surplus) for trial in islice(trials(contest, gate, fleet, Random(4)), 20)]

    assert all(surplus == 0 for _, surplus in trial(1))
    assert all(surplus >= 49 for _, surplus in trial(50))
    assert all(blocks + surplus <= gate.blocks_max for blocks, surplus in trial(5000))


def test_the_same_seed_plays_the_same_matches() -> None:
    """A figure can be measured again, to the last digit."""
    fleet = Fleet(in_flight=20, slow=2.0, order=Order.ARRIVAL)
    contest = Contest(elo=10.0, players=3)

    first, second = (rates(islice(trials(contest, Gate(), fleet, Random(9)), 20), contest) for _ in range(2))

    assert first == second
    assert first.trials == 20


def test_a_season_counts_the_outcomes_of_its_tests() -> None:
    """All equal: every promotion is false; none equal: none is, and nearly all are promoted."""
    tables = (outcomes(Contest(elo=0.0, players=4), Random(1)), outcomes(Contest(elo=35.0, players=4), Random(1)))

    def one(null: float, budget: Budget | None) -> Season:
        return season(tables, Gate(), players=4, tests=200, null=null, budget=budget, open_max=5, rng=Random(2))

    equal, stronger = one(1.0, None), one(0.0, Budget())
    assert (equal.stronger, equal.promoted) == (0, equal.false)
    assert 0 < equal.false < 30
    assert equal.false_share == 1.0
    assert (stronger.stronger, stronger.false, stronger.false_share) == (200, 0, 0.0)
    assert stronger.promoted > 180
    assert one(1.0, Budget()).false < equal.false
