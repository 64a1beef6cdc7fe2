"""The bounds of ratings hold as often as stated, over hundreds of simulated leagues."""

import math
from random import Random
from statistics import stdev

import pytest

from ringrift.evaluation.rating import _CONFIDENCE, _ELO_PER_NAT, fit, rate
from ringrift.evaluation.tally import Meeting, Tally, add
from unit.evaluation.league import difference, league, player

RING = [(seat, (seat + 1) % 5) for seat in range(5)]
NATS = (0.0, 0.4, -0.3, 0.9, 0.2)
ANCHORS = {player(0): 0.0}
TRIALS = 600


def resampled(random: Random, tally: Tally) -> Tally:
    """The blocks of *tally* drawn anew, with repetition, meeting by meeting."""
    drawn = []
    for meeting in tally.meetings:
        blocks = [(met, won) for met, won, times in meeting.outcomes for _ in range(times)]
        counts: dict[tuple[int, int], int] = {}
        for outcome in random.choices(blocks, k=len(blocks)):
            counts[outcome] = counts.get(outcome, 0) + 1
        outcomes = tuple((*outcome, times) for outcome, times in sorted(counts.items()))
        drawn.append(Meeting(variant=meeting.variant, one=meeting.one, other=meeting.other, outcomes=outcomes))
    return Tally(meetings=tuple(drawn))


@pytest.mark.parametrize(("seats", "mood"), [(2, 0.0), (2, 1.5), (4, 0.0)])
def test_the_linearised_bootstrap_is_as_wide_as_the_full_one(seats: int, mood: float) -> None:
    """Bounds without drawing agree with the spread of four hundred refits of blocks drawn anew."""
    random, replicates, blocks = Random(seats), 400, 60
    tally = add(Tally(), league(random, NATS, RING, blocks, seats, mood))

    refits = [rate(fit(resampled(random, tally), ANCHORS)) for _ in range(replicates)]

    for index, rating in enumerate(rate(fit(tally, ANCHORS))[1:], start=1):
        spread = stdev(refit[index].elo.value for refit in refits)
        # Student's t at twice 60 blocks; the spread of replicates has an error of 3.5 %, and three of these are 11 %.
        assert (rating.elo.upper - rating.elo.lower) / 2 / 1.98 == pytest.approx(spread, rel=0.11)


@pytest.mark.parametrize(
    ("seats", "blocks", "nats", "mood"),
    [(2, 12, NATS, 0.0), (2, 60, NATS, 0.0), (3, 25, NATS, 0.0), (4, 25, NATS, 0.0), (2, 40, (0.0,) * 5, 2.0)],
)
def test_differences_lie_within_their_bounds_as_often_as_stated(
    seats: int, blocks: int, nats: tuple[float, ...], mood: float
) -> None:
    """Over simulated leagues 95 % of intervals contain the truth, also where the games of a block are correlated."""
    random = Random(f"{seats} {blocks} {mood}")
    covered = [0, 0]
    for _ in range(TRIALS):
        (group,) = fit(add(Tally(), league(random, nats, RING, blocks, seats, mood)), ANCHORS)
        for number, (one, other) in enumerate(((2, 0), (3, 1))):
            interval = difference(group, player(one), player(other))
            covered[number] += interval.lower <= (nats[one] - nats[other]) * _ELO_PER_NAT <= interval.upper

    # Three deviations of a share of so many trials, to either side.
    slack = 3 * math.sqrt(_CONFIDENCE * (1 - _CONFIDENCE) / TRIALS)
    assert [count / TRIALS for count in covered] == pytest.approx([_CONFIDENCE] * 2, abs=slack)


def test_the_likelihood_alone_would_claim_too_much() -> None:
    """Where the games of a block are correlated, bounds from its curvature contain the truth far too rarely."""
    random, covered = Random(6), 0
    for _ in range(TRIALS // 2):
        (group,) = fit(add(Tally(), league(random, (0.0,) * 5, RING, 40, 4, 2.0)), ANCHORS)
        index = group.players.index(player(2))
        covered += abs(group.nats[index]) <= 1.96 * math.sqrt(group.inverse[index][index])

    assert covered / (TRIALS // 2) < 0.75
