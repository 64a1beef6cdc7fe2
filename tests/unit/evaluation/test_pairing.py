"""Pairings: the block that says most comes first, lists are bounded, and ties are broken the same way every time."""

from random import Random

import pytest

from ringrift.evaluation.pairing import PAIRS_MAX, Pairing, informative, ladder, tournament
from ringrift.evaluation.rating import difference, fit, rate
from ringrift.evaluation.tally import Observed, Player, Tally, add
from unit.evaluation.league import block, player

ANCHORS = {player(0): 0.0}


def blocks(one: int, other: int, count: int, nats: float = 0.0) -> list[Observed]:
    """So many blocks of two players, by number."""
    random = Random(f"{one} {other}")
    return [block(random, player(one), player(other), nats, 2) for _ in range(count)]


def evenly(one: int, other: int, count: int) -> list[Observed]:
    """So many blocks in which each won once."""
    return [Observed(variant="hex8_2p", one=player(one), other=player(other), points=2, comparisons=2)] * count


def pairs(found: tuple[Pairing, ...]) -> list[tuple[int, int]]:
    """Pairings as numbers of players."""
    return [(int(each.one.weights), int(each.other.weights)) for each in found]


def test_who_is_little_known_is_asked_first() -> None:
    """Of pairs of equal strength the one with the most uncertain difference comes first, the best known one last."""
    groups = fit(add(Tally(), [*blocks(0, 1, 400), *blocks(1, 2, 20), *blocks(0, 2, 20)]), ANCHORS)

    found = informative(groups, [player(number) for number in range(3)], 10)

    assert len(found) == 3
    assert pairs(found)[-1] == (0, 1)
    assert [each.gain for each in found] == sorted([each.gain or 0.0 for each in found], reverse=True)


def test_a_foregone_result_says_little() -> None:
    """Of two pairs whose differences are equally uncertain, the one whose result is open comes first."""
    even = [*evenly(0, 1, 40), *evenly(0, 2, 40), *evenly(4, 3, 40)]
    groups = fit(add(Tally(), [*even, *evenly(0, 4, 1)]), {player(0): 0.0, player(4): 1000.0})

    found = informative(groups, [player(number) for number in (1, 2, 3)], 10)

    assert pairs(found)[0] == (1, 2)
    assert [each.gain for each in found][1:] == pytest.approx([4 * (found[0].gain or 0.0) * 0.0031] * 2, rel=0.02)


def test_playing_the_first_pair_narrows_its_difference_most() -> None:
    """What the gain foretells happens: the pair it puts first loses a larger share of its variance than the last."""
    given = [*blocks(0, 1, 100), *blocks(1, 2, 15), *blocks(2, 3, 15), *blocks(0, 3, 100)]
    (group,) = fit(add(Tally(), given), ANCHORS)
    found = informative([group], list(group.players), 10)

    left = []
    for pairing in (found[0], found[-1]):
        more = blocks(int(pairing.one.weights), int(pairing.other.weights), 10)
        (after,) = fit(add(add(Tally(), given), more), ANCHORS)
        widths = [difference(each, pairing.one, pairing.other) for each in (group, after)]
        left.append((widths[1].upper - widths[1].lower) / (widths[0].upper - widths[0].lower))

    assert left[0] < left[1]


def test_bridges_come_before_everything() -> None:
    """Groups and newcomers without a link to the best known group get one each, to its most played member."""
    groups = fit(add(Tally(), [*blocks(0, 1, 30), *blocks(1, 2, 30), *blocks(5, 6, 50)]), ANCHORS)

    found = informative(groups, [player(number) for number in (0, 1, 2, 5, 6, 9)], 20)

    assert pairs(found)[:2] == [(1, 5), (1, 9)]
    assert [each.gain for each in found[:2]] == [None, None]
    assert None not in [each.gain for each in found[2:]]


def test_only_who_is_asked_for_is_paired() -> None:
    """Players that are not wanted appear in no pair, though they are part of what is known."""
    groups = fit(add(Tally(), [*blocks(0, 1, 30), *blocks(1, 2, 30)]), ANCHORS)

    assert pairs(informative(groups, [player(0), player(2)], 5)) == [(0, 2)]
    assert informative(groups, [], 5) == ()


def test_ties_are_broken_by_name() -> None:
    """Pairs that say equally much come in the order of their players, and the list ends where it should."""
    groups = fit(add(Tally(), [*evenly(0, 1, 10), *evenly(0, 2, 10), *evenly(0, 3, 10)]), ANCHORS)

    found = informative(groups, [player(number) for number in range(4)], 4)

    assert pairs(found) == [(1, 2), (1, 3), (2, 3), (0, 1)]


def test_a_ladder_pairs_neighbours_by_rating() -> None:
    """The strongest meets the next strongest, and so on; the second rung follows when the reach is two."""
    given = [*blocks(1, 0, 60, 1.0), *blocks(2, 1, 60, 1.0), *blocks(3, 0, 60, -1.0)]
    ratings = rate(add(Tally(), given), ANCHORS)

    steps = [(player(2), player(1)), (player(1), player(0)), (player(0), player(3))]
    assert ladder(ratings, 1, 10) == tuple(steps)
    assert ladder(ratings, 2, 10) == (*steps, (player(2), player(0)), (player(1), player(3)))
    assert ladder(ratings, 2, 2) == tuple(steps[:2])


@pytest.mark.parametrize("count", [0, 1, 2, 5, 8])
def test_in_a_tournament_everybody_meets_everybody_once(count: int) -> None:
    """Each pair once, and round by round nobody is ahead by more than one game."""
    players = [player(number) for number in range(count)]

    found = tournament(players, PAIRS_MAX)

    assert sorted(found) == [(one, other) for one in players for other in players if one < other]
    played: dict[Player, int] = dict.fromkeys(players, 0)
    per_round = count // 2
    for start in range(0, len(found), max(1, per_round)):
        for each in (one for pair in found[start : start + per_round] for one in pair):
            played[each] += 1
        assert max(played.values()) - min(played.values()) <= 1


def test_lists_are_bounded() -> None:
    """Neither everybody's limit nor the named one is exceeded."""
    players = [player(number) for number in range(60)]

    assert len(tournament(players, 10)) == 10
    assert len(tournament(players, 10_000)) == PAIRS_MAX
    assert len(informative((), players, 7)) == 7
