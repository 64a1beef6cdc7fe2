"""The analytic variances equal those of simulation."""

import math
from random import Random
from statistics import fmean

import pytest

from ringrift.evaluation.rating import _Shake, _variances
from unit.evaluation.league import variance_between


def stage(random: Random, size: int) -> tuple[list[list[float]], list[_Shake]]:
    """A symmetric inverse of *size* free players, and shakes among them and one pinned player."""
    inverse = [[0.0] * size for _ in range(size)]
    for one in range(size):
        for other in range(one + 1):
            inverse[one][other] = inverse[other][one] = random.uniform(-0.3, 0.3) + (one == other) * 2.0
    pairs = [(one, other) for other in range(size + 1) for one in range(other)]
    return inverse, [(one, other, random.expovariate(1.0)) for one, other in pairs]


def moved(random: Random, inverse: list[list[float]], shakes: list[_Shake]) -> list[float]:
    """One replicate: every meeting pushes its two players apart at random."""
    push = [0.0] * (len(inverse) + 1)
    for one, other, variance in shakes:
        by = random.gauss(0.0, math.sqrt(variance))
        push[one] += by
        push[other] -= by
    return [math.fsum(map(float.__mul__, row, push)) for row in inverse]


def test_endless_replicates_are_not_needed() -> None:
    """The mean square of four thousand drawn replicates agrees with the closed form within its own error."""
    random, count = Random(5), 4000
    inverse, shakes = stage(random, 6)

    drawn = [moved(random, inverse, shakes) for _ in range(count)]

    for place, variance in enumerate(_variances(inverse, shakes)):
        # The mean of squares of a normal has a relative error of √(2 / count); four of them.
        assert fmean(each[place] ** 2 for each in drawn) == pytest.approx(variance, rel=4 * math.sqrt(2 / count))


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_packed_numbers_lose_nothing_that_counts(scale: float) -> None:
    """For numbers of any size, lanes give the results of floats, for a player and the pinned one."""
    inverse, shakes = stage(Random(7), 9)
    inverse = [[value * scale for value in row] for row in inverse]

    actual = _variances(inverse, shakes)

    assert actual == pytest.approx([variance_between(inverse, shakes, place, 9) for place in range(9)], rel=1e-7)


def test_a_difference_has_no_variance_with_itself() -> None:
    """A player compared with itself is certain, and no other pair is."""
    inverse, shakes = stage(Random(8), 4)

    assert variance_between(inverse, shakes, 2, 2) == 0.0
    assert variance_between(inverse, shakes, 2, 3) == variance_between(inverse, shakes, 3, 2) > 0.0


def test_only_pinned_players_are_no_error() -> None:
    """Where all players are pinned there is nothing to vary."""
    assert _variances([], [(0, 1, 2.0)]) == []
