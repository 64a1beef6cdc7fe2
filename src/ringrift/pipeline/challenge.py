"""Challenge: which blocks of a test to ask for next, and what the blocks played so far show."""

import math
from collections.abc import Collection, Iterable

from ringrift.evaluation import blocks as results
from ringrift.evaluation import gate
from ringrift.events.evaluation import Block, BlocksPlayed
from ringrift.events.model import Evidence
from ringrift.jobs import ORDINARY, Match, Purpose, match_jobs
from ringrift.kernel.settings import Policy
from ringrift.kernel.value import changed
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import Challenge, Line

_PRIORITY = ORDINARY + 10  #: Before self-play, behind the stages that a whole line waits for.
_Test = tuple[str, Challenge, str]  #: The model that is tested, the test, and its purpose.


def open_tests(line: Line) -> list[_Test]:
    """The tests of *line* that are under way."""
    tests: list[_Test] = []
    if line.candidate is not None and line.candidate.challenge is not None:
        tests.append((line.candidate.model, line.candidate.challenge, Purpose.PROMOTION))
    if line.review is not None and line.champion is not None:
        tests.append((line.champion, line.review.challenge, Purpose.REVIEW))
    return tests


def find_test(line: Line, event: BlocksPlayed) -> _Test | None:
    """The test of *line* that the blocks of *event* are of: other openings are another match."""
    players = (event.candidate, event.champion)
    own = (test for test in open_tests(line) if players == (test[0], test[1].opponent))
    return next((test for test in own if event.seed in (0, test[1].seed)), None)


def with_test(line: Line, test: Challenge, purpose: str) -> Line:
    """*line* with its test for *purpose* as it stands now."""
    if purpose == Purpose.REVIEW:
        return changed(line, review=line.review and changed(line.review, challenge=test))
    return changed(line, candidate=line.candidate and changed(line.candidate, challenge=test))


def with_blocks(challenge: Challenge, blocks: Iterable[Block], players: int) -> Challenge:
    """*challenge* with the results of those *blocks* that were dispatched and have a score from every seat."""
    valid = [block for block in blocks if 0 <= block.number < challenge.dispatched and results.is_valid(block, players)]
    return changed(challenge, blocks=results.merge(challenge.blocks, valid))


def without_node(challenge: Challenge, node: str) -> tuple[Challenge, tuple[int, ...]]:
    """*challenge* without what *node* reported, and the numbers that are to be played again."""
    rest = tuple(block for block in challenge.blocks if block.node != node)
    numbers = tuple(block.number for block in challenge.blocks if block.node == node)
    return changed(challenge, blocks=rest), numbers


def outcome(challenge: Challenge, players: int) -> gate.Outcome:
    """The gate's outcome on the completed prefix, which alone may decide."""
    return judge_blocks(results.prefix(challenge.blocks), challenge, players)


def judge_blocks(blocks: Collection[Block], challenge: Challenge, players: int) -> gate.Outcome:
    """The outcome of the gate of *challenge* on *blocks*."""
    scores, ranked = results.observations(tuple(blocks))
    return gate.judge(scores, players, challenge.gate, ranked=ranked)


def next_blocks(
    line: Line, model: str, challenge: Challenge, policy: Policy, purpose: str = Purpose.PROMOTION
) -> tuple[Challenge, tuple[Match, ...]]:
    """The test and the jobs that keep enough of its blocks on their way, up to the cap."""
    # All have one seed: the openings of one seed differ from each other, and the same twice would be no new evidence.
    first, size = challenge.dispatched, policy.blocks_per_job
    missing = max(len(challenge.blocks) + policy.match_jobs_open * size - first, 0)
    end = max(min(first + math.ceil(missing / size) * size, challenge.gate.blocks_max), first)
    jobs = match_jobs(_match(line, model, challenge, purpose), first, end, size)
    return changed(challenge, dispatched=end), jobs


def replay_blocks(
    line: Line, model: str, test: Challenge, numbers: Iterable[int], policy: Policy, purpose: str = Purpose.PROMOTION
) -> tuple[Match, ...]:
    """The jobs that play the blocks *numbers* once more, with the same openings."""
    blank, size, runs = _match(line, model, test, purpose), policy.blocks_per_job, results.runs(numbers)
    return tuple(job for first, count in runs for job in match_jobs(blank, first, first + count, size))


def missing_blocks(line: Line, model: str, test: Challenge | None, policy: Policy) -> tuple[Match, ...]:
    """The jobs of those blocks of the test for promotion that were dispatched and have no result."""
    if test is None:
        return ()
    played = {block.number for block in test.blocks}
    return replay_blocks(line, model, test, [n for n in range(test.dispatched) if n not in played], policy)


def _match(line: Line, model: str, test: Challenge, purpose: str) -> Match:
    match = Match(variant=line.variant, candidate=model, champion=test.opponent, first=0, count=1, seed=test.seed)
    return changed(match, priority=_PRIORITY, purpose=purpose)


def evidence(outcome: gate.Outcome) -> Evidence:
    """The evidence of a decision by *outcome*."""
    return Evidence(**{name: getattr(outcome, name) for name in Evidence.__struct_fields__})


def evidence_ids(outcome: gate.Outcome | None, challenge: Challenge | None) -> tuple[str, ...]:
    """The ids of the blocks that *outcome* looked at."""
    if outcome is None or challenge is None:
        return ()
    return tuple(block.id for block in results.prefix(challenge.blocks)[: outcome.blocks])


def verdict(line: Line, name: str, challenge: Challenge, at: float) -> Verdict:
    """The gate's verdict on the test as it stands."""
    now = outcome(challenge, line.players)
    return Verdict(gate=name, allowed=now.decided is True, rule=now.rule, value=now.llr, limit=now.upper, since=at)
