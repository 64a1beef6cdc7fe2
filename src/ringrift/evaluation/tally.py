"""Tally: how often each outcome of a block occurred between two players, in whole numbers.

It is all that ratings are made of.  Whole numbers add up the same in any order, so the order of arrival leaves no
trace; and since outcomes are counted by block, what hangs together within a block stays together.
"""

from collections.abc import Iterable, Sequence

from ringrift.kernel.errors import Unranked
from ringrift.kernel.value import Value

SLACK = 1e-6
"""How far a score may be from a whole number of half wins: sums of floats, no more."""


class Player(Value, order=True, gc=False):
    """Who is rated: weights (a model's hash, a baseline's name) and how they searched; other settings, other player."""

    weights: str
    settings: str


class Observed(Value, gc=False):
    """One block: *one* got so many *points*, half wins, in so many *comparisons* with *other*; two points to each."""

    variant: str
    one: Player
    other: Player
    points: int
    comparisons: int


class Meeting(Value, gc=False):
    """All blocks of two players: (comparisons, points of *one*, blocks with this outcome), sorted; *one* < *other*."""

    variant: str
    one: Player
    other: Player
    outcomes: tuple[tuple[int, int, int], ...]


class Tally(Value):
    """All meetings, sorted by variant and players; equal blocks make equal tallies."""

    meetings: tuple[Meeting, ...] = ()


def observed(variant: str, one: Player, other: Player, scores: Sequence[float]) -> Observed:
    """The block in which *one* got these rank *scores*, seat by seat, while *other* held all other seats."""
    opponents = len(scores) - 1
    halves = [2.0 * score * opponents for score in scores]
    if opponents < 1 or not all(abs(each - round(each)) < SLACK and 0.0 <= score <= 1.0
                                for each, score in zip(halves, scores, strict=True)):  # fmt: skip
        raise Unranked(scores)
    points = sum(round(each) for each in halves)
    return Observed(variant=variant, one=one, other=other, points=points, comparisons=len(scores) * opponents)


def add(tally: Tally, blocks: Iterable[Observed]) -> Tally:
    """*tally* and *blocks*, in any order.

    Each block must come once: the caller keeps blocks as records by variant, players and number, and hands on those
    that were not there before.  A block of a player against itself says nothing and is left out.
    """
    fresh: dict[tuple[str, Player, Player], dict[tuple[int, int], int]] = {}
    for block in blocks:
        one, other, points = block.one, block.other, block.points
        if one == other:
            continue
        if other < one:
            one, other, points = other, one, 2 * block.comparisons - points
        counts = fresh.setdefault((block.variant, one, other), {})
        outcome = (block.comparisons, points)
        counts[outcome] = counts.get(outcome, 0) + 1
    known = {(each.variant, each.one, each.other): each for each in tally.meetings}
    for key, counts in fresh.items():
        if key in known:
            for comparisons, points, times in known[key].outcomes:
                counts[comparisons, points] = counts.get((comparisons, points), 0) + times
        outcomes = tuple(sorted((*outcome, times) for outcome, times in counts.items()))
        known[key] = Meeting(variant=key[0], one=key[1], other=key[2], outcomes=outcomes)
    return Tally(meetings=tuple(known[key] for key in sorted(known)))
