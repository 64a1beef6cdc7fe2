"""Tally: how often each outcome of a block occurred between two players, in whole numbers.

It is all that ratings are made of.  Whole numbers add up the same in any order, so the order of arrival leaves no
trace; and since outcomes are counted by block, what hangs together within a block stays together.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from ringrift.kernel.errors import Unranked
from ringrift.kernel.value import Value

_SLACK = 1e-6  #: How far a score may be from a whole number of half wins: sums of floats, no more.


class Player(Value, order=True, gc=False):
    """A rated player: weights (a model's hash, a baseline's name) and search settings; other settings, other player."""

    weights: str
    settings: str


class BlockScore(Value, gc=False):
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


def score_block(variant: str, one: Player, other: Player, scores: Sequence[float]) -> BlockScore:
    """The block in which *one* got these rank *scores*, seat by seat, while *other* held all other seats."""
    opponents = len(scores) - 1
    halves = [2.0 * score * opponents for score in scores]
    whole = all(abs(half - round(half)) < _SLACK for half in halves)
    if opponents < 1 or not whole or not all(0.0 <= score <= 1.0 for score in scores):
        raise Unranked(scores)
    points = sum(round(each) for each in halves)
    return BlockScore(variant=variant, one=one, other=other, points=points, comparisons=len(scores) * opponents)


def add(tally: Tally, blocks: Iterable[BlockScore]) -> Tally:
    """*tally* and *blocks*, in any order.

    Each block must come once: the caller keeps blocks as records by variant, players and number, and hands on those
    that were not there before.  A block of a player against itself says nothing and is left out.
    """
    fresh = []
    for block in blocks:
        one, other, points = block.one, block.other, block.points
        if other < one:
            one, other, points = other, one, 2 * block.comparisons - points
        if one != other:
            outcomes = ((block.comparisons, points, 1),)
            fresh.append(Meeting(variant=block.variant, one=one, other=other, outcomes=outcomes))
    return sum_meetings((*tally.meetings, *fresh))


def sum_meetings(meetings: Iterable[Meeting]) -> Tally:
    """The tally of all *meetings*, of which several may be of the same two players."""
    sums: dict[tuple[str, Player, Player], Counter[tuple[int, int]]] = {}
    for meeting in meetings:
        counts = sums.setdefault((meeting.variant, meeting.one, meeting.other), Counter())
        for comparisons, points, times in meeting.outcomes:
            counts[comparisons, points] += times
    rows = []
    for (variant, one, other), counts in sorted(sums.items()):
        outcomes = tuple(sorted((*outcome, times) for outcome, times in counts.items()))
        rows.append(Meeting(variant=variant, one=one, other=other, outcomes=outcomes))
    return Tally(meetings=tuple(rows))
