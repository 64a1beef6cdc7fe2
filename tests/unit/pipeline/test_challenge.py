"""A challenge keeps enough blocks on their way, and none twice."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from ringrift.events.evaluation import Played
from ringrift.jobs import STAGE, Match
from ringrift.pipeline.challenge import MATCH, evidence, keys, more, outcome, verdict, with_blocks
from ringrift.pipeline.line import Candidate, Line, Stage
from unit.pipeline.story import POLICY, VARIANT, WIN, blob


def challenged(dispatched: int = 0, known: int = 0) -> Line:
    """A line whose candidate has *known* of *dispatched* blocks."""
    blocks = tuple(Played(number=number, scores=(0.5, 0.5)) for number in range(known))
    candidate = Candidate(model=blob("candidate"), generation=1, copied=True, verified=True, dispatched=dispatched)
    return Line(
        variant=VARIANT, workload="fake", players=2, stage=Stage.EVALUATING, champion=blob("champion"), generation=0,
        candidate=msgspec.structs.replace(candidate, blocks=blocks),
    )  # fmt: skip


@settings(max_examples=30)
@given(st.integers(1, 7), st.integers(1, 5), st.integers(2, 60), st.lists(st.integers(0, 12), max_size=12))
def test_every_block_is_asked_for_exactly_once(size: int, open_jobs: int, cap: int, arrivals: list[int]) -> None:
    """Whatever the sizes and the rhythm of arrival, jobs follow each other without gap or overlap up to the cap."""
    gate = msgspec.structs.replace(POLICY.gate, blocks_min=2, blocks_max=cap)
    policy = msgspec.structs.replace(POLICY, blocks_per_job=size, match_jobs_open=open_jobs, gate=gate)
    line, asked = challenged(), []

    for arrived in (*arrivals, *[cap] * cap):
        line, jobs = more(line, policy)
        asked += [number for job in jobs for number in range(job.first, job.first + job.count)]
        candidate = line.candidate
        assert candidate is not None
        assert candidate.dispatched - len(candidate.blocks) <= (open_jobs + 1) * size
        known = range(len(candidate.blocks), min(len(candidate.blocks) + arrived, candidate.dispatched))
        found = with_blocks(candidate, [Played(number=number, scores=(0.5, 0.5)) for number in known], 2)
        line = msgspec.structs.replace(line, candidate=found)

    assert asked == list(range(cap))


def test_a_match_goes_before_self_play_and_behind_what_the_line_waits_for() -> None:
    """Its priority lies between those of games and of stages, and its key is one of the match's."""
    _, jobs = more(challenged(), POLICY)

    for job in jobs:
        assert isinstance(job, Match)
        assert 40 < job.priority == MATCH < STAGE
        assert job.key.startswith(keys(VARIANT, blob("candidate")))


def test_the_verdict_shows_how_far_the_test_is() -> None:
    """People see the likelihood ratio and the bound it must cross."""
    line = challenged(dispatched=4, known=3)
    said, judged = verdict(line, POLICY, 7.0), outcome(line, POLICY)

    assert (said.allowed, said.value, said.limit, said.since) == (False, judged.llr, judged.upper, 7.0)
    assert said.rule == "likelihood ratio between the bounds"


def test_evidence_is_what_the_gate_said() -> None:
    """Everything a decision rests on is kept with it."""
    line = challenged(dispatched=4)
    assert line.candidate is not None
    won = with_blocks(line.candidate, [Played(number=number, scores=WIN) for number in range(4)], 2)
    judged = outcome(msgspec.structs.replace(line, candidate=won), POLICY)

    kept = evidence(judged)

    assert judged.decided is True
    assert msgspec.structs.asdict(kept).items() <= msgspec.structs.asdict(judged).items()


def test_the_first_result_of_a_block_counts() -> None:
    """A block that is told again with another result changes nothing."""
    line = challenged(dispatched=4, known=2)
    assert line.candidate is not None

    again = with_blocks(line.candidate, [Played(number=1, scores=WIN)], 2)

    assert again == line.candidate
