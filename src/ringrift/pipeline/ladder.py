"""Ladder: matches on a schedule that promote no model and only make ratings more certain, as pure functions.

The pairs are those that the last ratings would learn most from.  Every round has openings of its own: players do the
same in the same position, so the same opening twice would be no new evidence.
"""

from itertools import pairwise

from ringrift.events.evaluation import Pair
from ringrift.jobs import ORDINARY, Match, Purpose, match_jobs
from ringrift.kernel.ids import seed_of
from ringrift.kernel.settings import Policy
from ringrift.kernel.value import Value, changed
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import Line, needed_models
from ringrift.pipeline.ratings import LineRatings, is_baseline, strength
from ringrift.store.records import Records
from ringrift.work.pressure import LOW, QueuePressure, require_room

_PRIORITY = ORDINARY - 20  #: Behind everything that a line or an operator waits for, self-play too.
_UNCERTAIN_ELO = 20.0  #: Half the width of the champion's bounds above which matches for ratings alone pay.
_PAIRS_PER_ROUND = 4


class Ladder(Value):
    """The rounds of one line's ladder."""

    variant: str
    round: int = 0


LADDERS = Records("ladder", Ladder, id="variant")


def may_climb(
    line: Line, ratings: LineRatings, policy: Policy, *, is_due: bool, pressure: QueuePressure, live: int, at: float
) -> Verdict:
    """Whether to ask for another round of *line*: it is due, the ratings are uncertain, and no other job is delayed.

    These matches are the first to wait, at any level of *pressure*.  *live* jobs are left of an earlier round.
    """
    room = require_room("ladder", pressure, LOW, at)
    rating = strength(ratings, line.champion or "")
    half = _UNCERTAIN_ELO if rating is None else (rating.upper - rating.lower) / 2.0
    rules = (
        (bool(policy.ladder_seconds), "a schedule: policy.ladder_seconds", policy.ladder_seconds, 1.0),
        (bool(_pairs(line, ratings)), "pairs that ratings would learn from", len(ratings.summary.pairs), 1.0),
        (not live, "jobs of an earlier round", live, 0.0),
        (room.allowed, room.rule, room.value, room.limit),
        (half >= _UNCERTAIN_ELO, "Elo that the champion's rating may be off by", half, _UNCERTAIN_ELO),
        (is_due, "seconds since the last round", 0.0, policy.ladder_seconds),
    )
    allowed, rule, value, limit = next((answer for answer in rules if not answer[0]), rules[-1])
    return Verdict(gate="ladder", allowed=allowed, rule=rule, value=value, limit=limit, since=at)


def _pairs(line: Line, ratings: LineRatings) -> tuple[Pair, ...]:
    """Those of the pairs of the last ratings who can still meet, the first of each a model."""
    models = needed_models(line)
    playable = []
    for pair in ratings.summary.pairs:
        first, second = (pair.other, pair.one) if is_baseline(pair.one) else (pair.one, pair.other)
        if first in models and (second in models or is_baseline(second)):
            playable.append(Pair(one=first, other=second))
    return tuple(playable[:_PAIRS_PER_ROUND])


def climb(line: Line, ratings: LineRatings, ladder: Ladder, policy: Policy) -> tuple[Ladder, tuple[Match, ...]]:
    """The ladder and the matches of its next round: the blocks of the policy, shared among the pairs."""
    ladder = Ladder(variant=line.variant, round=ladder.round + 1)
    seed = seed_of(policy.seed, line.variant, Purpose.LADDER, ladder.round)
    chosen = _pairs(line, ratings)
    ends = [policy.ladder_blocks * (place + 1) // len(chosen) for place in range(len(chosen))]
    jobs: list[Match] = []
    for pair, (begin, end) in zip(chosen, pairwise((0, *ends)), strict=True):
        champion, baseline = ("", pair.other) if is_baseline(pair.other) else (pair.other, "")
        match = Match(variant=line.variant, candidate=pair.one, champion=champion, baseline=baseline, first=0, count=1)
        match = changed(match, seed=seed, purpose=Purpose.LADDER, priority=_PRIORITY)
        jobs += match_jobs(match, 0, end - begin, policy.blocks_per_job)
    return ladder, tuple(jobs)
