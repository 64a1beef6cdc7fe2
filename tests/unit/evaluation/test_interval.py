"""Bounds hold at their stated rate, also where blocks are few, equal or lopsided."""

import math
from collections.abc import Callable
from random import Random

import pytest

from ringrift.evaluation.gate import elo
from ringrift.evaluation.interval import _BLOCKS_MIN, PRIOR_BLOCKS, in_elo, of_match, of_score, quantile

RUNS = 1500


@pytest.mark.parametrize(
    ("confidence", "freedom", "state"),
    [(0.95, 7, 2.3646), (0.99, 7, 3.4995), (0.95, 15, 2.1314), (0.99, 30, 2.75), (0.99, 127, 2.6148)],
)
def test_quantiles_are_those_of_the_tables(confidence: float, freedom: int, state: float) -> None:
    """Student's t, two-sided, to within half a percent where it is used."""
    assert quantile(confidence, freedom) == pytest.approx(state, rel=5e-3)


def pairs(chance: float, tied: float) -> Callable[[Random], float]:
    """Blocks of two seats of which a share *tied* ends alike from both, as one opening may decide a game."""

    def block(rng: Random) -> float:
        first = float(rng.random() < chance)
        second = first if rng.random() < tied else float(rng.random() < chance)
        return (first + second) / 2

    return block


@pytest.mark.parametrize("confidence", [0.95, 0.99])
@pytest.mark.parametrize("blocks", [12, 128])
@pytest.mark.parametrize(("chance", "tied"), [(0.5, 0.0), (0.5, 0.9), (0.7, 0.5), (0.9, 0.0)])
def test_the_true_score_lies_above_the_lower_bound(confidence: float, blocks: int, chance: float, tied: float) -> None:
    """In simulated matches a lower bound is too high no more often than one side of the interval allows."""
    rng = Random(f"{confidence} {blocks} {chance} {tied}")
    draw = pairs(chance, tied)

    missed = sum(of_score([draw(rng) for _ in range(blocks)], 2, confidence).lower > chance for _ in range(RUNS))

    allowed = (1 - confidence) / 2
    # Three deviations of the count itself, and half as much again for the normal approximation of coarse scores.
    assert missed / RUNS <= 1.5 * allowed + 3 * math.sqrt(allowed / RUNS)


def test_games_of_a_block_hang_together() -> None:
    """Blocks that are won or lost as a whole make a wider interval than as many independent games."""
    together, apart = [1.0, 0.0] * 64, [0.5] * 64 + [1.0, 0.0] * 32

    assert width(together) > 1.3 * width(apart)


def width(means: list[float], players: int = 2) -> float:
    """Return the width of the 99 % interval."""
    actual = of_score(means, players, 0.99)
    return actual.upper - actual.lower


@pytest.mark.parametrize("players", [2, 3, 4])
def test_equal_results_are_not_certainty(players: int) -> None:
    """All blocks won still leaves what four blocks of a coin among them would leave, and less with every block more."""
    few, many = of_score([1.0] * 16, players, 0.99), of_score([1.0] * 128, players, 0.99)

    centre = (128 + PRIOR_BLOCKS / players) / (128 + PRIOR_BLOCKS)
    assert many.value == many.upper == 1.0
    assert few.lower < many.lower < centre


@pytest.mark.parametrize("count", range(_BLOCKS_MIN))
def test_few_blocks_claim_nothing(count: int) -> None:
    """The interval is the widest for any values."""
    actual = of_score([1.0] * count, 2, 0.95)

    assert (actual.lower, actual.upper) == (0.0, 1.0)


def test_an_interval_in_elo_is_the_elo_of_its_bounds() -> None:
    """On the scale of the number of players, with 0 at an equal share."""
    score = of_score([1 / 3, 2 / 3, 1 / 3, 1.0] * 16, 3, 0.95)

    actual = in_elo(score, 3)

    assert (actual.lower, actual.value, actual.upper) == (elo(score.lower, 3), elo(score.value, 3), elo(score.upper, 3))
    assert in_elo(of_score([1 / 3] * 100, 3, 0.95), 3).value == pytest.approx(0.0, abs=1e-9)


def test_the_gain_of_a_match_is_surer_with_more_blocks() -> None:
    """Its value is that of the score."""
    few, many = of_match(0.6, 50, 2, 0.95), of_match(0.6, 200, 2, 0.95)

    assert few.value == many.value == pytest.approx(elo(0.6, 2))
    assert few.upper - few.lower > many.upper - many.lower > 0


def test_a_match_won_in_every_game_has_bounds_too() -> None:
    """A score of 1 does not give a certain bound."""
    actual = of_match(1.0, 16, 2, 0.95)

    assert math.isfinite(actual.lower)
    assert actual.lower < actual.value < actual.upper
