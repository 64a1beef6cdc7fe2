"""Challenge: which blocks to ask for next, and what the blocks played so far say."""

from collections.abc import Iterable

import msgspec

from ringrift.evaluation import blocks as results
from ringrift.evaluation import gate
from ringrift.events.evaluation import Played
from ringrift.events.model import Evidence
from ringrift.jobs import ORDINARY, Job, Match
from ringrift.kernel.ids import seed_of
from ringrift.kernel.settings import Policy
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import Candidate, Line, Stage

MATCH = ORDINARY + 10
"""Before self-play, behind the stages that a whole line waits for."""


def keys(variant: str, candidate: str) -> str:
    """What the keys of all jobs of this candidate's match begin with."""
    return Match.prefix(variant, candidate)


def with_blocks(candidate: Candidate, more: Iterable[Played], players: int) -> Candidate:
    """*candidate* with the results of *more* blocks: those that were asked for, each with a score from every seat."""
    asked = [block for block in more if 0 <= block.number < candidate.dispatched and _is_evidence(block, players)]
    return msgspec.structs.replace(candidate, blocks=results.merged(candidate.blocks, asked))


def _is_evidence(block: Played, players: int) -> bool:
    return len(block.scores) == players and all(0.0 <= score <= 1.0 for score in block.scores)


def outcome(line: Line, policy: Policy) -> gate.Outcome:
    """What the gate says of the completed prefix."""
    assert line.candidate is not None
    completed = results.prefix(line.candidate.blocks)
    return gate.judge(results.means(completed), line.players, policy.gate)


def more(line: Line, policy: Policy) -> tuple[Line, tuple[Job, ...]]:
    """The line and the jobs that keep enough blocks on their way, up to the cap.

    All have one seed: the openings of one seed differ from each other, and the same twice would be no new evidence.
    """
    candidate = line.candidate
    assert candidate is not None
    assert line.champion is not None
    first, jobs = candidate.dispatched, []
    ahead = policy.match_jobs_open * policy.blocks_per_job
    while first < policy.gate.blocks_max and first - len(candidate.blocks) < ahead:
        count = min(policy.blocks_per_job, policy.gate.blocks_max - first)
        jobs.append(
            Match(
                variant=line.variant, candidate=candidate.model, champion=line.champion, first=first, count=count,
                seed=seed_of(line.variant, candidate.model), priority=MATCH,
            )
        )  # fmt: skip
        first += count
    return msgspec.structs.replace(line, candidate=msgspec.structs.replace(candidate, dispatched=first)), tuple(jobs)


def evidence(decided: gate.Outcome) -> Evidence:
    """What a decision rests on."""
    return Evidence(
        blocks=decided.blocks, score=decided.score, llr=decided.llr, lower=decided.lower, upper=decided.upper,
        rule=decided.rule,
    )  # fmt: skip


def verdict(line: Line, policy: Policy, at: float) -> Verdict:
    """The gate's verdict on the candidate as it stands."""
    said = outcome(line, policy)
    return Verdict(
        gate=Stage.EVALUATING, allowed=said.decided is True, rule=said.rule,
        value=said.llr, limit=said.upper, since=at,
    )  # fmt: skip
