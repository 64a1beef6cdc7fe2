"""Ladder: matches on a schedule that promote nobody and only make ratings more certain, as pure functions.

Who meets whom is what the last ratings said would tell most.  Every round has openings of its own: players do the same
in the same position, so the same opening twice would be no new evidence.
"""

from collections.abc import Iterable
from itertools import pairwise

import msgspec

from ringrift.events.evaluation import Pair
from ringrift.jobs import ORDINARY, Match
from ringrift.kernel.ids import seed_of
from ringrift.kernel.settings import Policy
from ringrift.kernel.value import Value
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import Line, needed
from ringrift.pipeline.standing import Standing, never_trains, strength
from ringrift.store.ports import Put, Reads, Tx
from ringrift.work.limits import READY_SOFT, pressure

KIND, PURPOSE = "ladder", "ladder"
PRIORITY = ORDINARY - 20
"""Behind everything that somebody waits for, self-play too."""
UNCERTAIN_ELO = 20.0
"""Half the width of the champion's bounds above which it is worth to play for nothing but that."""
PAIRS_PER_ROUND = 4


class Ladder(Value):
    """What is remembered of one line's rounds."""

    variant: str
    round: int = 0
    time: float = 0.0
    """When the last one was asked for, or the line was first looked at."""


def may_climb(
    line: Line, standing: Standing, ladder: Ladder, policy: Policy, *, ready: int, under_way: int, at: float
) -> Verdict:
    """Whether another round of *line* may be asked for: it is time, its ratings are uncertain, and nobody is kept up.

    *ready* jobs wait in the queue, and *under_way* ones are left of an earlier round.
    """
    known = strength(standing, line.champion or "")
    half = UNCERTAIN_ELO if known is None else (known.upper - known.lower) / 2.0
    waited = max(at - ladder.time, 0.0)
    answers = (
        (bool(policy.ladder_seconds), "a schedule: policy.ladder_seconds", policy.ladder_seconds, 1.0),
        (bool(pairs(line, standing)), "pairs that ratings would like to see", len(standing.summary.pairs), 1.0),
        (not under_way, "jobs of an earlier round", under_way, 0.0),
        (pressure(ready) == "none", "jobs that wait in the queue", ready, READY_SOFT),
        (half >= UNCERTAIN_ELO, "Elo that the champion's rating may be off by", half, UNCERTAIN_ELO),
        (waited >= policy.ladder_seconds, "seconds since the last round", waited, policy.ladder_seconds),
    )
    allowed, rule, value, limit = next((one for one in answers if not one[0]), answers[-1])
    return Verdict(gate=KIND, allowed=allowed, rule=rule, value=value, limit=limit, since=at)


def pairs(line: Line, standing: Standing) -> tuple[Pair, ...]:
    """Those of the pairs that the last ratings asked for who can still meet, the first of each a model."""
    kept = {blob for blob, kind in needed(line).items() if kind == "model"}
    found = []
    for pair in standing.summary.pairs:
        one, other = (pair.other, pair.one) if never_trains(pair.one) else (pair.one, pair.other)
        if one in kept and (other in kept or never_trains(other)):
            found.append(Pair(one=one, other=other))
    return tuple(found[:PAIRS_PER_ROUND])


def climb(
    line: Line, standing: Standing, ladder: Ladder, policy: Policy, at: float
) -> tuple[Ladder, tuple[Match, ...]]:
    """The ladder and the matches of its next round: the blocks of the policy, shared among the pairs."""
    ladder = Ladder(variant=line.variant, round=ladder.round + 1, time=at)
    seed = seed_of(policy.seed, line.variant, PURPOSE, ladder.round)
    chosen = pairs(line, standing)
    blocks = [policy.ladder_blocks * (place + 1) // len(chosen) for place in range(len(chosen))]
    jobs = [
        _match(line.variant, pair, first, min(policy.blocks_per_job, count - first), seed)
        for pair, count in zip(chosen, [end - begin for begin, end in pairwise((0, *blocks))], strict=True)
        for first in range(0, count, policy.blocks_per_job)
    ]
    return ladder, tuple(jobs)


def _match(variant: str, pair: Pair, first: int, count: int, seed: int) -> Match:
    named = never_trains(pair.other)
    return Match(
        variant=variant, candidate=pair.one, champion="" if named else pair.other, first=first, count=count, seed=seed,
        baseline=pair.other if named else "", purpose=PURPOSE, priority=PRIORITY,
    )  # fmt: skip


def under_way(keys: Iterable[str], variant: str) -> int:
    """How many of the jobs with these *keys* belong to a round of *variant*."""
    return sum(key.startswith(f"{PURPOSE}:{variant}:") for key in keys)


async def load(view: Reads, variant: str) -> Ladder | None:
    """What is remembered of the rounds of *variant*."""
    body = (await view.get(KIND, [variant])).get(variant)
    return None if body is None else msgspec.json.decode(body, type=Ladder)


async def save(tx: Tx, ladder: Ladder) -> None:
    """Write *ladder*."""
    await tx.put([Put(kind=KIND, id=ladder.variant, body=msgspec.json.encode(ladder))])
