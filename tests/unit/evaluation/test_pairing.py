"""Pairings: the most informative block comes first, lists are bounded, and ties are broken the same way every time."""

from random import Random

import pytest

from ringrift.evaluation.pairing import _PAIRS_MAX, _Pairing, informative
from ringrift.evaluation.rating import fit
from ringrift.evaluation.tally import BlockScore, Tally, add
from unit.evaluation.league import block, difference, player

ANCHORS = {player(0): 0.0}


def blocks(one: int, other: int, count: int, nats: float = 0.0) -> list[BlockScore]:
    """Return so many blocks of two players, by number."""
    random = Random(f"{one} {other}")
    return [block(random, player(one), player(other), nats, 2) for _ in range(count)]


def evenly(one: int, other: int, count: int) -> list[BlockScore]:
    """Return so many blocks in which each won once."""
    return [BlockScore(variant="hex8_2p", one=player(one), other=player(other), points=2, comparisons=2)] * count


def pairs(actual: tuple[_Pairing, ...]) -> list[tuple[int, int]]:
    """Pairings as numbers of players."""
    return [(int(each.one.weights), int(each.other.weights)) for each in actual]


def test_the_most_uncertain_pair_comes_first() -> None:
    """Among pairs of equal strength the one with the most uncertain difference comes first, the best known one last."""
    groups = fit(add(Tally(), [*blocks(0, 1, 400), *blocks(1, 2, 20), *blocks(0, 2, 20)]), ANCHORS)

    actual = informative(groups, [player(number) for number in range(3)], 10)

    assert len(actual) == 3
    assert pairs(actual)[-1] == (0, 1)
    assert [each.gain for each in actual] == sorted([each.gain or 0.0 for each in actual], reverse=True)


def test_a_predictable_result_has_little_gain() -> None:
    """Among two pairs whose differences are equally uncertain, the one whose result is open comes first."""
    even = [*evenly(0, 1, 40), *evenly(0, 2, 40), *evenly(4, 3, 40)]
    groups = fit(add(Tally(), [*even, *evenly(0, 4, 1)]), {player(0): 0.0, player(4): 1000.0})

    actual = informative(groups, [player(number) for number in (1, 2, 3)], 10)

    assert pairs(actual)[0] == (1, 2)
    assert [each.gain for each in actual][1:] == pytest.approx([4 * (actual[0].gain or 0.0) * 0.0031] * 2, rel=0.02)


def test_playing_the_first_pair_narrows_its_difference_most() -> None:
    """The gain predicts correctly: the first pair loses a larger share of its variance than the last."""
    inputs = [*blocks(0, 1, 100), *blocks(1, 2, 15), *blocks(2, 3, 15), *blocks(0, 3, 100)]
    (group,) = fit(add(Tally(), inputs), ANCHORS)
    actual = informative([group], list(group.players), 10)

    left = []
    for pairing in (actual[0], actual[-1]):
        more = blocks(int(pairing.one.weights), int(pairing.other.weights), 10)
        (after,) = fit(add(add(Tally(), inputs), more), ANCHORS)
        widths = [difference(each, pairing.one, pairing.other) for each in (group, after)]
        left.append((widths[1].upper - widths[1].lower) / (widths[0].upper - widths[0].lower))

    assert left[0] < left[1]


def test_bridges_come_before_everything() -> None:
    """Groups and newcomers without a link to the best known group get one each, to its most played member."""
    groups = fit(add(Tally(), [*blocks(0, 1, 30), *blocks(1, 2, 30), *blocks(5, 6, 50)]), ANCHORS)

    actual = informative(groups, [player(number) for number in (0, 1, 2, 5, 6, 9)], 20)

    assert pairs(actual)[:2] == [(1, 5), (1, 9)]
    assert [each.gain for each in actual[:2]] == [None, None]
    assert None not in [each.gain for each in actual[2:]]


def test_only_requested_players_are_paired() -> None:
    """Other players appear in no pair, though their results count."""
    groups = fit(add(Tally(), [*blocks(0, 1, 30), *blocks(1, 2, 30)]), ANCHORS)

    assert pairs(informative(groups, [player(0), player(2)], 5)) == [(0, 2)]
    assert informative(groups, [], 5) == ()


def test_ties_are_broken_by_name() -> None:
    """Pairs of equal gain come in the order of their players, and the list ends where it should."""
    groups = fit(add(Tally(), [*evenly(0, 1, 10), *evenly(0, 2, 10), *evenly(0, 3, 10)]), ANCHORS)

    actual = informative(groups, [player(number) for number in range(4)], 4)

    assert pairs(actual) == [(1, 2), (1, 3), (2, 3), (0, 1)]


def test_lists_are_bounded() -> None:
    """Neither the limit for each player nor the named one is exceeded."""
    players = [player(number) for number in range(60)]

    groups = fit(add(Tally(), [block for number in range(1, 60) for block in evenly(0, number, 1)]), ANCHORS)
    assert len(informative((), players, 7)) == 7
    assert len(informative(groups, players, 10)) == 10
    assert len(informative(groups, players, 10_000)) == _PAIRS_MAX
