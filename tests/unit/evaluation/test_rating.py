"""Ratings are the same to the last bit in any order of results, near the truth, and as uncertain as stated."""

import math
from collections.abc import Sequence
from random import Random

import pytest

from ringrift.evaluation.rating import _ELO_PER_NAT, _PRIOR_DRAWS, Rating, fit, rate
from ringrift.evaluation.tally import BlockScore, Player, Tally, add
from unit.evaluation.league import VARIANTS, block, difference, league, player

RING = [(place, (place + 1) % 5) for place in range(5)]
NATS = (0.0, 0.4, -0.3, 0.9, 0.2)
ANCHORS = {player(0): 0.0}


def bits(ratings: Sequence[Rating]) -> list[tuple[str, Player, list[str]]]:
    """*ratings* with every number to its last bit."""
    return [(each.variant, each.player, [number.hex() for number in numbers(each)]) for each in ratings]


def numbers(rating: Rating) -> tuple[float, float, float]:
    """Its value and bounds."""
    return rating.elo.value, rating.elo.lower, rating.elo.upper


@pytest.mark.parametrize("seed", range(10))
def test_the_order_of_arrival_leaves_no_bit(seed: int) -> None:
    """Blocks shuffled and added in parts give the ratings of one pass over all, bit for bit."""
    random = Random(seed)
    pairs = [*RING, (0, 2), (1, 4), (7, 8)]
    nats = [random.gauss(0, 1) for _ in range(9)]
    blocks = [each for seats in (2, 3, 4) for each in league(random, nats, pairs, 6, seats)]
    whole = rate(fit(add(Tally(), blocks), ANCHORS))

    random.shuffle(blocks)
    tally = Tally()
    while blocks:
        part = random.randint(1, 20)
        tally, blocks = add(tally, blocks[:part]), blocks[part:]
        partly = rate(fit(tally, ANCHORS))

    assert bits(partly) == bits(whole)


def test_the_bits_are_the_same_everywhere() -> None:
    """A small league has these bits on any machine and any version of Python."""
    tally = add(Tally(), league(Random(1), NATS, RING, 20, 4))

    actual = {each.player: tuple(number.hex() for number in numbers(each)) for each in rate(fit(tally, ANCHORS))}

    assert actual[player(3)] == ("0x1.51de9f95a1b6dp+7", "0x1.884941a0d8d53p+6", "0x1.df989e5ad7030p+7")


def won(points: int, blocks: int = 1, one: int = 1, other: int = 0) -> list[BlockScore]:
    """Blocks of two seats in which *one* got so many of four points."""
    return [
        BlockScore(variant=VARIANTS[2], one=player(one), other=player(other), points=points, comparisons=2)
    ] * blocks


def test_two_players_are_apart_by_the_odds_of_their_results() -> None:
    """Seventy of a hundred, with each player's one drawn comparison among them."""
    _, actual = rate(fit(add(Tally(), [*won(4, 35), *won(0, 15)]), ANCHORS))

    drawn = _PRIOR_DRAWS * 2 / 2
    assert actual.elo.value == pytest.approx(400 * math.log10((70 + drawn) / (30 + drawn)))
    assert actual.blocks == 50


@pytest.mark.parametrize("seats", [2, 3, 4])
def test_strengths_are_recovered_from_games_of_any_number(seats: int) -> None:
    """From many blocks, ratings come near the strengths that games of two, three or four were drawn with."""
    tally = add(Tally(), league(Random(seats), NATS, [*RING, (0, 3)], 1500, seats))

    for rating, nats in zip(rate(fit(tally, ANCHORS)), NATS, strict=True):
        assert rating.elo.value == pytest.approx(nats * _ELO_PER_NAT, abs=20.0)
        assert rating.elo.upper - rating.elo.lower < 60.0


def test_anchors_stay_where_they_are_pinned() -> None:
    """Results do not move them; every other player is rated from there."""
    tally = add(Tally(), [*won(2, 50, 1, 0), *won(2, 50, 2, 1)])

    zero, one, two = rate(fit(tally, {player(0): 100.0, player(2): 300.0}))

    assert numbers(zero) == pytest.approx((100.0, 100.0, 100.0))
    assert numbers(two) == pytest.approx((300.0, 300.0, 300.0))
    assert one.elo.value == pytest.approx(200.0)
    assert one.elo.lower < 200.0 < one.elo.upper


def test_an_unconnected_player_is_rated_within_its_group() -> None:
    """Without a chain of blocks to an anchor, the group's first player is at 0 and every rating is marked so."""
    tally = add(Tally(), [*won(4, 10, 1, 0), *won(4, 10, 6, 5), *won(3, 10, 7, 6)])

    actual = {each.player: each for each in rate(fit(tally, ANCHORS))}

    assert actual[player(1)].reference is None
    assert {actual[player(number)].reference for number in (5, 6, 7)} == {player(5)}
    assert actual[player(5)].elo.value == 0.0
    assert actual[player(7)].elo.value > actual[player(6)].elo.value > 0.0


def test_other_settings_and_other_variants_are_apart() -> None:
    """The same weights that search longer are another player, and games of one variant do not count for another."""
    random = Random(2)
    slow = player(1, "sims=64")
    two = [block(random, player(1), player(0), 0.0, 2) for _ in range(30)]
    more = [block(random, slow, player(0), 2.0, 2) for _ in range(30)]
    four = [block(random, player(1), player(0), 1.0, 4) for _ in range(30)]
    alone = rate(fit(add(Tally(), two), ANCHORS))

    actual = {(each.variant, each.player): each for each in rate(fit(add(Tally(), [*two, *more, *four]), ANCHORS))}

    assert len(actual) == 5
    assert actual[VARIANTS[2], slow].elo.lower > actual[VARIANTS[2], player(1)].elo.upper
    # Both meet the anchor only, but a player that met two shares its drawn comparison among them.
    assert actual[VARIANTS[2], player(1)].elo.value == pytest.approx(alone[1].elo.value, abs=5.0)


@pytest.mark.parametrize("points", [4, 0])
def test_a_player_without_losses_or_wins_has_a_wide_and_finite_interval(points: int) -> None:
    """More such blocks raise the distance, but a hundred of them are not certainty."""
    few, many = (rate(fit(add(Tally(), won(points, blocks)), ANCHORS))[1].elo for blocks in (10, 100))

    assert abs(few.value) < abs(many.value) < 2000.0
    assert many.upper - many.lower > 300.0
    assert min(abs(many.lower), abs(many.upper)) > 300.0


def test_a_difference_to_the_anchor_is_the_rating() -> None:
    """Both ways to the same bounds agree, and the other way round they are mirrored."""
    tally = add(Tally(), league(Random(4), NATS, RING, 30, 2))
    (group,) = fit(tally, ANCHORS)
    rating = rate(fit(tally, ANCHORS))[3]

    actual, back = difference(group, player(3), player(0)), difference(group, player(0), player(3))

    assert (actual.value, actual.lower, actual.upper) == pytest.approx(numbers(rating))
    assert (back.value, back.lower, back.upper) == pytest.approx((-actual.value, -actual.upper, -actual.lower))


def test_nothing_played_is_nothing_rated() -> None:
    """An empty tally has no ratings."""
    assert rate(fit(Tally(), ANCHORS)) == ()
