"""Challenge: which blocks of a test to ask for next, and what the blocks played so far say."""

from collections.abc import Collection, Iterable

import msgspec

from ringrift.evaluation import blocks as results
from ringrift.evaluation import gate
from ringrift.evaluation.blocks import Block
from ringrift.events.evaluation import BlocksPlayed
from ringrift.events.model import Evidence
from ringrift.jobs import ORDINARY, Match
from ringrift.kernel.settings import Policy
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import Challenge, Line

MATCH = ORDINARY + 10
"""Before self-play, behind the stages that a whole line waits for."""


def keys(variant: str, candidate: str) -> str:
    """What the keys of all jobs of this candidate's match begin with."""
    return Match.prefix(variant, candidate)


def belongs(event: BlocksPlayed, model: str, challenge: Challenge) -> bool:
    """Whether *event* tells of blocks of this very match: other openings are another match."""
    players = (event.candidate, event.champion) == (model, challenge.opponent)
    return players and event.seed in (0, challenge.seed)  # 0: it was said before events told the seed


def with_blocks(challenge: Challenge, more: Iterable[Block], players: int) -> Challenge:
    """*challenge* with the results of *more* blocks: those that were asked for, each with a score from every seat."""
    asked = [block for block in more if 0 <= block.number < challenge.dispatched and results.is_sound(block, players)]
    return msgspec.structs.replace(challenge, blocks=results.merged(challenge.blocks, asked))


def without(challenge: Challenge, node: str) -> tuple[Challenge, tuple[int, ...]]:
    """*challenge* without what *node* reported, and the numbers that are to be played again."""
    kept = tuple(block for block in challenge.blocks if block.node != node)
    gone = tuple(block.number for block in challenge.blocks if block.node == node)
    return msgspec.structs.replace(challenge, blocks=kept), gone


def counted(challenge: Challenge) -> tuple[Block, ...]:
    """The completed prefix, which alone may decide."""
    return results.prefix(challenge.blocks)


def outcome(challenge: Challenge, players: int) -> gate.Outcome:
    """What the gate says of the completed prefix."""
    return judged(counted(challenge), challenge, players)


def judged(blocks: Collection[Block], challenge: Challenge, players: int) -> gate.Outcome:
    """What the gate of *challenge* says of *blocks*."""
    scores, ranked = results.observed(tuple(blocks))
    return gate.judge(scores, players, challenge.gate, ranked=ranked)


def more(line: Line, model: str, challenge: Challenge, policy: Policy, purpose: str = "") -> tuple[
    Challenge, tuple[Match, ...]
]:  # fmt: skip
    """The test and the jobs that keep enough of its blocks on their way, up to the cap.

    All have one seed: the openings of one seed differ from each other, and the same twice would be no new evidence.
    """
    first, last = challenge.dispatched, challenge.gate.blocks_max
    wanted: list[tuple[int, int]] = []
    ahead = policy.match_jobs_open * policy.blocks_per_job
    while first < last and first - len(challenge.blocks) < ahead:
        wanted.append((first, min(policy.blocks_per_job, last - first)))
        first += wanted[-1][1]
    jobs = _jobs(line, model, challenge, wanted, purpose)
    return msgspec.structs.replace(challenge, dispatched=first), jobs


def again(
    line: Line, model: str, challenge: Challenge, numbers: Iterable[int], policy: Policy, purpose: str = ""
) -> tuple[Match, ...]:
    """The jobs that play the blocks *numbers* once more, with the same openings."""
    size = policy.blocks_per_job
    wanted = [
        (begin, min(size, first + count - begin))
        for first, count in results.runs(numbers)
        for begin in range(first, first + count, size)
    ]
    return _jobs(line, model, challenge, wanted, purpose)


def _jobs(
    line: Line, model: str, challenge: Challenge, wanted: Iterable[tuple[int, int]], purpose: str
) -> tuple[Match, ...]:
    return tuple(
        Match(
            variant=line.variant, candidate=model, champion=challenge.opponent, first=first, count=count,
            seed=challenge.seed, priority=MATCH, purpose=purpose,
        )
        for first, count in wanted
    )  # fmt: skip


def evidence(decided: gate.Outcome, challenge: Challenge) -> Evidence:
    """What a decision rests on."""
    _, ranked = results.observed(counted(challenge))
    return Evidence(
        blocks=decided.blocks, score=decided.score, llr=decided.llr, lower=decided.lower, upper=decided.upper,
        rule=decided.rule, ranked=ranked, alpha=challenge.gate.alpha,
    )  # fmt: skip


def verdict(line: Line, name: str, challenge: Challenge, at: float) -> Verdict:
    """The gate's verdict on the test as it stands."""
    said = outcome(challenge, line.players)
    return Verdict(gate=name, allowed=said.decided is True, rule=said.rule, value=said.llr, limit=said.upper, since=at)
