"""A challenge keeps enough blocks on their way, and none twice."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringrift.events.evaluation import Block
from ringrift.jobs import STAGE, Match, Purpose
from ringrift.kernel.settings import Gate
from ringrift.pipeline.challenge import (
    _PRIORITY,
    evidence,
    next_blocks,
    outcome,
    replay_blocks,
    verdict,
    with_blocks,
    without_node,
)
from ringrift.pipeline.line import Candidate, Challenge, Line, Stage
from unit.pipeline.story import POLICY, VARIANT, WIN, blob

LINE = Line(
    variant=VARIANT,
    workload="fake",
    players=2,
    stage=Stage.EVALUATING,
    champion=blob("champion"),
    generation=0,
    candidate=Candidate(model=blob("candidate"), generation=1),
)


def challenged(dispatched: int = 0, played: int = 0, gate: Gate = POLICY.gate) -> Challenge:
    """A test with *played* of *dispatched* blocks."""
    blocks = tuple(Block(number=number, scores=(0.5, 0.5), node="ab"[number % 2]) for number in range(played))
    return Challenge(opponent=blob("champion"), gate=gate, seed=5, dispatched=dispatched, blocks=blocks)


@settings(max_examples=30)
@given(st.integers(1, 7), st.integers(1, 5), st.integers(2, 60), st.lists(st.integers(0, 12), max_size=12))
def test_every_block_is_enqueued_exactly_once(size: int, open_jobs: int, cap: int, arrivals: list[int]) -> None:
    """For all sizes and rhythms of arrival, jobs follow each other without gap or overlap up to the cap."""
    policy = msgspec.structs.replace(POLICY, blocks_per_job=size, match_jobs_open=open_jobs)
    test, dispatched = challenged(gate=msgspec.structs.replace(POLICY.gate, blocks_min=2, blocks_max=cap)), []

    for arrived in (*arrivals, *[cap] * cap):
        test, jobs = next_blocks(LINE, blob("candidate"), test, policy)
        dispatched += [number for job in jobs for number in range(job.first, job.first + job.count)]
        assert test.dispatched - len(test.blocks) <= (open_jobs + 1) * size
        numbers = range(len(test.blocks), min(len(test.blocks) + arrived, test.dispatched))
        test = with_blocks(test, [Block(number=number, scores=(0.5, 0.5)) for number in numbers], 2)

    assert dispatched == list(range(cap))


def test_a_match_has_priority_between_self_play_and_stages() -> None:
    """Its priority lies between those of games and of stages, and its purpose is to promote."""
    _, jobs = next_blocks(LINE, blob("candidate"), challenged(), POLICY)

    for job in jobs:
        assert isinstance(job, Match)
        assert 40 < job.priority == _PRIORITY < STAGE
        assert (job.purpose, job.candidate) == (Purpose.PROMOTION, blob("candidate"))


def test_the_verdict_shows_how_far_the_test_is() -> None:
    """People see the likelihood ratio and the bound it must cross."""
    test = challenged(dispatched=4, played=3)
    shown, judged = verdict(LINE, "evaluating", test, 7.0), outcome(test, 2)

    assert (shown.allowed, shown.value, shown.limit, shown.since) == (False, judged.llr, judged.upper, 7.0)
    assert shown.rule == "likelihood ratio between the bounds"


def test_evidence_is_the_verdict_of_the_gate() -> None:
    """Everything a decision rests on is stored with it."""
    won = with_blocks(challenged(dispatched=4), [Block(number=number, scores=WIN) for number in range(4)], 2)
    judged = outcome(won, 2)

    fields = msgspec.structs.asdict(evidence(judged))

    assert judged.decided is True
    assert (fields.pop("alpha"), fields.pop("ranked")) == (POLICY.gate.alpha, False)
    assert fields.items() <= msgspec.structs.asdict(judged).items()


def test_the_first_result_of_a_block_counts() -> None:
    """A block that is reported again with another result changes nothing."""
    test = challenged(dispatched=4, played=2)

    assert with_blocks(test, [Block(number=1, scores=WIN)], 2) == test


def test_blocks_with_ranks_are_judged_by_them() -> None:
    """Three players that only ever finish second are as good as equals, though they win nothing."""
    ranked = [Block(number=number, scores=(0.0, 0.0, 0.0), ranks=(0.5, 0.5, 0.5)) for number in range(4)]

    outcomes = [
        outcome(with_blocks(challenged(dispatched=4), blocks, 3), 3)
        for blocks in (ranked, [msgspec.structs.replace(block, ranks=()) for block in ranked])
    ]

    assert [result.score for result in outcomes] == [0.5, 0.0]
    assert outcomes[0].llr > outcomes[1].llr


@pytest.mark.parametrize("ranks", [(0.5,), (1.5, 0.5), (-0.1, 0.0)])
def test_a_block_with_strange_ranks_does_not_count(ranks: tuple[float, ...]) -> None:
    """From every seat or from none, between 0 and 1."""
    test = challenged(dispatched=4)

    assert with_blocks(test, [Block(number=0, scores=WIN, ranks=ranks)], 2) == test


def test_blocks_of_one_node_are_played_again() -> None:
    """Its reports are removed, and exactly those numbers are enqueued once more, with the same openings."""
    test = challenged(dispatched=8, played=7)

    left, numbers = without_node(test, "a")
    jobs = replay_blocks(LINE, blob("candidate"), left, numbers, POLICY)

    assert [block.number for block in left.blocks] == [1, 3, 5]
    assert [(job.first, job.count, job.seed) for job in jobs] == [(0, 1, 5), (2, 1, 5), (4, 1, 5), (6, 1, 5)]
    assert [(job.first, job.count) for job in replay_blocks(LINE, "m", test, range(5), POLICY)] == [
        (0, 2),
        (2, 2),
        (4, 1),
    ]
