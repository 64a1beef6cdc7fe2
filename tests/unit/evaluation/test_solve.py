"""The solver reaches the maximum of the likelihood, for any graph of meetings, and its inverse is exact."""

import math
from random import Random

import pytest

from ringrift.evaluation.solve import (
    _CLOSE,
    _NATS_MAX,
    _STEPS_MAX,
    Link,
    _factored,
    _inverted,
    _narrow,
    _Solution,
    solve,
)


def links(random: Random, players: int, pairs: list[tuple[int, int]]) -> list[Link]:
    """Random results of *pairs*, lopsided as they come, with half a comparison drawn."""
    actual = []
    for one, other in pairs:
        met = random.randint(1, 40)
        actual.append(Link(one=one, other=other, comparisons=met + 1.0, won=random.randint(0, met) + 0.5))
    return actual


CHAIN = [(place, place + 1) for place in range(11)]
STAR = [(0, place) for place in range(1, 12)]
ALL = [(one, other) for other in range(12) for one in range(other)]


def pushes(actual: _Solution, inputs: list[Link]) -> list[float]:
    """The slope of the likelihood for each player."""
    slopes = [0.0] * len(actual.nats)
    for link in inputs:
        expected = link.comparisons / (1.0 + math.exp(actual.nats[link.other] - actual.nats[link.one]))
        slopes[link.one] += link.won - expected
        slopes[link.other] -= link.won - expected
    return slopes


@pytest.mark.parametrize("pairs", [CHAIN, STAR, ALL], ids=["chain", "star", "all"])
@pytest.mark.parametrize("pinned", [(0.0,), (1.0, -2.0, 0.5)])
@pytest.mark.parametrize("seed", range(5))
def test_the_slope_at_the_solution_is_zero(pairs: list[tuple[int, int]], pinned: tuple[float, ...], seed: int) -> None:
    """No free player has won more or less than its strength predicts, and pinned ones do not move."""
    inputs, free = links(Random(seed), 12, pairs), 12 - len(pinned)

    actual = solve(inputs, free, pinned)

    assert actual.nats[free:] == pinned
    assert max(map(abs, pushes(actual, inputs)[:free])) < 1e-7


def test_the_most_lopsided_results_are_solved() -> None:
    """A chain in which each player always beat the next, ten thousand times, converges."""
    inputs = [Link(one=one, other=other, comparisons=10_001.0, won=10_000.5) for one, other in CHAIN]

    actual = solve(inputs, 11, [0.0])

    apart = math.log(10_000.5 / 0.5)
    assert actual.nats == pytest.approx([apart * (11 - place) for place in range(12)], abs=100 * _CLOSE)


@pytest.mark.parametrize("seed", range(20))
def test_results_that_contradict_the_anchors_are_solved(seed: int) -> None:
    """Lopsided results between players pinned far apart in another order do not lead the solver astray."""
    random = Random(seed)
    inputs = [
        Link(one=one, other=other, comparisons=met + 0.2, won=random.choice([0, met]) + 0.1)
        for one, other in [*CHAIN, (2, 7), (5, 11)]
        for met in [random.choice([1, 5, 100, 1000])]
    ]

    actual = solve(inputs, 10, [8.0, -8.0])

    assert actual.steps < _STEPS_MAX
    assert max(map(abs, pushes(actual, inputs)[:10])) < 1e-6


def test_extreme_strengths_stay_finite() -> None:
    """Where two hundred in a row never lost, strengths end at the limit, in order."""
    inputs = [Link(one=place, other=place + 1, comparisons=301.0, won=300.5) for place in range(199)]

    actual = solve(inputs, 199, [0.0])

    assert max(actual.nats) == _NATS_MAX
    assert list(actual.nats) == sorted(actual.nats, reverse=True)
    assert all(math.isfinite(value) for row in actual.inverse for value in row)


@pytest.mark.parametrize("pairs", [CHAIN, STAR, ALL], ids=["chain", "star", "all"])
def test_the_inverse_is_that_of_the_information(pairs: list[tuple[int, int]]) -> None:
    """Information times inverse is one, to within the precision of the stored factor."""
    inputs = links(Random(1), 12, pairs)
    actual = solve(inputs, 11, [0.0])
    information = [[0.0] * 12 for _ in range(12)]
    for link in inputs:
        share = 1.0 / (1.0 + math.exp(actual.nats[link.other] - actual.nats[link.one]))
        weight = link.comparisons * share * (1.0 - share)
        for one, other, sign in ((0, 0, 1), (1, 1, 1), (0, 1, -1), (1, 0, -1)):
            ends = (link.one, link.other)
            information[ends[one]][ends[other]] += sign * weight

    for one in range(11):
        for other in range(11):
            product = sum(information[one][by] * actual.inverse[by][other] for by in range(11))
            assert product == pytest.approx(float(one == other), abs=0.05)


def test_a_factor_may_begin_late_in_a_row() -> None:
    """Rows without their leading zeros give the factor and inverse of the whole matrix."""
    thin = [[4.0], [-1.0, 3.0], [5.0], [-1.0, 0.5, 6.0]]
    whole = [[4.0], [-1.0, 3.0], [0.0, 0.0, 5.0], [0.0, -1.0, 0.5, 6.0]]

    assert _inverted(_factored(thin)) == _inverted(_factored(whole))
    full = [[whole[max(one, other)][min(one, other)] for other in range(4)] for one in range(4)]
    for one, row in enumerate(_inverted(_factored(thin))):
        assert [math.fsum(map(float.__mul__, row, column)) for column in full] == pytest.approx(
            [float(one == other) for other in range(4)]
        )


def test_a_chain_stays_thin_whatever_its_numbers() -> None:
    """Neighbours of a shuffled chain are put next to each other."""
    place = Random(3).sample(range(50), 50)
    inputs = [Link(one=place[number], other=place[number + 1], comparisons=2.0, won=1.0) for number in range(49)]

    order = _narrow(inputs, 50)

    assert sorted(order) == list(range(50))
    assert max(abs(order.index(link.one) - order.index(link.other)) for link in inputs) == 1
