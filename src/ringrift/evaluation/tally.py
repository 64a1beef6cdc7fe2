"""Tally: how often each outcome of a block occurred between two players, in whole numbers.

It is all that ratings are made of.  Whole numbers add up the same in any order, so the order of arrival leaves no
trace; and since outcomes are counted by block, what hangs together within a block stays together.
"""

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


_Players = tuple[str, Player, Player]  #: Variant and the two of a meeting, in order.
_Outcomes = dict[tuple[int, int], int]  #: (comparisons, points) → blocks.


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
    fresh: dict[_Players, _Outcomes] = {}
    for block in blocks:
        one, other, points = block.one, block.other, block.points
        if one == other:
            continue
        if other < one:
            one, other, points = other, one, 2 * block.comparisons - points
        counts = fresh.setdefault((block.variant, one, other), {})
        counts[block.comparisons, points] = counts.get((block.comparisons, points), 0) + 1
    # Most meetings have no new block and stay as they are.
    meetings = {(meeting.variant, meeting.one, meeting.other): meeting for meeting in tally.meetings}
    for key, counts in fresh.items():
        for comparisons, points, times in meetings[key].outcomes if key in meetings else ():
            counts[comparisons, points] = counts.get((comparisons, points), 0) + times
        meetings[key] = _meeting(key, counts)
    return Tally(meetings=tuple(meetings[key] for key in sorted(meetings)))


def sum_meetings(meetings: Iterable[Meeting]) -> Tally:
    """The tally of all *meetings*, of which several may be of the same two players."""
    sums: dict[_Players, _Outcomes] = {}
    for meeting in meetings:
        counts = sums.setdefault((meeting.variant, meeting.one, meeting.other), {})
        for comparisons, points, times in meeting.outcomes:
            counts[comparisons, points] = counts.get((comparisons, points), 0) + times
    return Tally(meetings=tuple(_meeting(key, sums[key]) for key in sorted(sums)))


def _meeting(key: _Players, counts: _Outcomes) -> Meeting:
    outcomes = tuple(sorted((*outcome, times) for outcome, times in counts.items()))
    return Meeting(variant=key[0], one=key[1], other=key[2], outcomes=outcomes)
