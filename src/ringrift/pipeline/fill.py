"""Fill: which self-play to ask for next, as a pure function of the line and what is under way."""

import msgspec

from ringrift.jobs import ORDINARY, Play
from ringrift.kernel.ids import seed_of
from ringrift.kernel.settings import Policy
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import Line, Stage

FRESH_EXPORTS_MAX = 4
"""Exports' worth of games that may wait: beyond it new games would only be older when they are used."""


def may_play(line: Line, policy: Policy, at: float) -> Verdict:
    """Whether more self-play is wanted for *line*."""
    waiting = line.fresh + sum(batch.games for batch in line.pending)
    limit = FRESH_EXPORTS_MAX * policy.games_per_export
    rule = "games that wait for export"
    allowed = waiting < limit
    if line.champion is None:
        rule, allowed, waiting, limit = "a champion to play with", False, 0, 1
    elif line.stage is Stage.RESTING:
        rule, allowed, waiting, limit = "the line rests", False, line.iteration, policy.iterations_max or 0
    return Verdict(gate="fill", allowed=allowed, rule=rule, value=waiting, limit=limit, since=at)


def top_up(line: Line, under_way: int, policy: Policy) -> tuple[Line, tuple[Play, ...]]:
    """The line and the Play jobs that bring *under_way* to the policy's number."""
    assert line.champion is not None
    jobs = []
    for _ in range(max(policy.play_jobs_open - under_way, 0)):
        line = msgspec.structs.replace(line, plays=line.plays + 1)
        seed = seed_of(policy.seed, line.variant, "play", line.plays)
        assert line.champion is not None
        jobs.append(
            Play(variant=line.variant, model=line.champion, games=policy.games_per_batch, seed=seed, priority=ORDINARY)
        )
    return line, tuple(jobs)
