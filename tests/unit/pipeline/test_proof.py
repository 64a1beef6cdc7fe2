"""A proof enqueues its own matches, judges them alone, and never moves the loop."""

import msgspec
import pytest

from ringrift.events.evaluation import Block, BlocksPlayed
from ringrift.events.model import Evidence
from ringrift.jobs import URGENT, JobFilter, Match, Purpose
from ringrift.pipeline import proof
from ringrift.pipeline.line import Decision, Line, Stage
from ringrift.pipeline.proof import GAMES_MIN, Claim
from unit.pipeline.story import POLICY, VARIANT, Story, at, blob, burial, result

SEED = 7
ZERO, CHAMPION = blob("zero"), blob("champion")
EVIDENCE = Evidence(blocks=40, score=0.7, llr=3.0, lower=-2.9, upper=2.9, rule="likelihood ratio above the upper bound")


def decision(model: str, generation: int, evidence: Evidence | None, promoted: bool = True) -> Decision:
    """Return the decision about *model*."""
    return Decision(
        variant=VARIANT,
        model=model,
        promoted=promoted,
        reason="r",
        generation=generation,
        time=float(generation),
        evidence=evidence,
    )


DECISIONS = (
    decision(ZERO, 0, None),
    decision(blob("weak"), 1, EVIDENCE, promoted=False),
    decision(blob("one"), 1, EVIDENCE),
    decision(CHAMPION, 2, EVIDENCE),
)


def line(variant: str = VARIANT, generation: int = 2, champion: str = CHAMPION) -> Line:
    """A line with a champion."""
    return Line(
        variant=variant,
        workload="reversi",
        players=int(variant[-2]),
        stage=Stage.COLLECTING,
        champion=champion,
        generation=generation,
    )


def claim(variant: str = VARIANT, *baselines: str) -> Claim:
    """The last claim about *variant*."""
    return proof.claims(variant, line(variant), DECISIONS, POLICY, baselines)[-1]


def played(job: Match, scores: tuple[float, ...]) -> BlocksPlayed:
    """Return the event of *job* ending with *scores* in every block."""
    blocks = tuple(Block(number=job.first + n, scores=scores) for n in range(job.count))
    return BlocksPlayed(variant=job.variant, candidate=job.candidate, champion=job.opponent, blocks=blocks, node="n")


@pytest.mark.parametrize(("variant", "limit", "blocks"), [("hex8_2p", 1 / 2, 128), ("hex8_3p", 1 / 3, 86)])
def test_the_champion_is_to_beat_generation_0(variant: str, limit: float, blocks: int) -> None:
    """Its share of wins must be above an equal one with 99 %, in as many blocks as 256 games take."""
    [actual] = proof.claims(variant, line(variant), DECISIONS, POLICY)

    assert (actual.model, actual.opponent, actual.baseline) == (CHAMPION, ZERO, False)
    assert (actual.limit, actual.confidence, actual.blocks) == (limit, 0.99, blocks)


def test_a_baseline_is_one_claim_more() -> None:
    """By its name, with 95 %."""
    first, second = proof.claims("square8_2p", line("square8_2p"), DECISIONS, POLICY, ("uct:200",))

    assert (first.opponent, second.opponent) == (ZERO, "uct:200")
    assert (second.baseline, second.confidence, second.limit) == (True, 0.95, 0.5)


@pytest.mark.parametrize("baselines", [(), ("uct:200",)])
@pytest.mark.parametrize("variant", ["hex8_2p", "hex8_3p", "hex8_4p"])
def test_a_claim_is_played_in_blocks_of_its_own(variant: str, baselines: tuple[str, ...]) -> None:
    """All blocks, each once, beyond every number that the gate may ask for, with one seed, before everything else."""
    expected = claim(variant, *baselines)

    jobs = proof._matches(expected, SEED)

    numbers = [number for job in jobs for number in range(job.first, job.first + job.count)]
    assert numbers == list(range(POLICY.gate.blocks_max, POLICY.gate.blocks_max + expected.blocks))
    assert len(numbers) * int(variant[-2]) >= GAMES_MIN
    assert {(job.priority, job.purpose, job.baseline) for job in jobs} == {(URGENT, "proof", "".join(baselines))}
    assert len({(job.seed, job.plies) for job in jobs}) == 1


@pytest.mark.parametrize("plies", [0, 4, 12])
def test_openings_have_the_length_that_the_variant_declares(plies: int) -> None:
    """A game of nine moves would be over after ten; with 0 the workload takes its own length."""
    expected = proof.claims(VARIANT, line(), DECISIONS, POLICY, ("uct:200",), plies)

    jobs = proof.jobs_for(expected, SEED)

    assert {job.plies for job in jobs} == {plies}
    assert {job.params.get("opening_plies", 0) for job in jobs} == {plies}


def test_seeds_differ_by_run_and_variant() -> None:
    """Another run proves itself in other openings."""
    seeds = {proof._matches(claim(variant), seed)[0].seed for variant in ("hex8_2p", "hex8_3p") for seed in (1, 2)}

    assert len(seeds) == 4


def test_the_longest_matches_are_enqueued_first() -> None:
    """Baselines search long: with them last, one core would wait for the other."""
    expected = [*proof.claims(VARIANT, line(), DECISIONS, POLICY), claim("square8_2p", "uct:200")]

    jobs = proof.jobs_for(expected, SEED)

    assert jobs[0].baseline == "uct:200"
    assert jobs[-1].baseline == ""


def test_keys_are_never_those_of_the_gate() -> None:
    """No job of a proof is matched, awaited or cancelled by the loop's handling of a candidate."""
    jobs = proof.jobs_for([claim(), claim(VARIANT, "uct:200")], SEED)

    keys = [job.key for job in jobs]
    assert len(set(keys)) == len(keys)
    gate = JobFilter(purpose=Purpose.PROMOTION, candidate=CHAMPION)
    assert all(job.purpose == Purpose.PROOF and not gate.matches(job) for job in jobs)


@pytest.mark.parametrize(
    ("scores", "met"), [((1.0, 1.0), True), ((1.0, 0.5), True), ((0.5, 0.5), False), ((0.0, 0.5), False)]
)
def test_a_claim_holds_if_its_lower_bound_is_above_the_limit(scores: tuple[float, ...], met: bool) -> None:
    """The finding has the margin, in score and in Elo."""
    expected = claim()

    actual = proof.judge(expected, [played(job, scores) for job in proof._matches(expected, SEED)])

    assert (actual.met, actual.n, actual.blocks) == (met, 256, 128)
    assert actual.score == sum(scores) / 2
    assert actual.lower <= actual.score <= actual.upper
    assert (actual.lower > actual.limit) == met == (actual.gain_lower > 0)
    assert ("is above" in actual.why) == met


def test_too_few_games_show_nothing() -> None:
    """Whatever their result, the finding has the number of missing games."""
    expected = claim()

    actual = proof.judge(expected, [played(job, (1.0, 1.0)) for job in proof._matches(expected, SEED)[:-1]])

    assert not actual.met
    assert actual.why == "only 192 of 256 games were played"
    assert proof.judge(expected, []).n == 0


def test_only_its_own_blocks_count_and_each_once() -> None:
    """Blocks of other matches, from other numbers, from too few seats and repeated ones change nothing."""
    expected = claim()
    job, *_ = proof._matches(expected, SEED)
    event = played(job, (1.0, 1.0))
    lost = tuple(msgspec.structs.replace(block, scores=(0.0, 0.0)) for block in event.blocks)
    strange = [
        msgspec.structs.replace(event, blocks=lost),
        msgspec.structs.replace(event, champion="uct:200", blocks=lost),
        msgspec.structs.replace(event, candidate=ZERO, blocks=lost),
        msgspec.structs.replace(event, blocks=(Block(number=3, scores=(0.0, 0.0)),)),
        msgspec.structs.replace(event, blocks=(Block(number=expected.first + 120, scores=(0.0,)),)),
    ]

    assert proof.judge(expected, [event, *strange]) == proof.judge(expected, [event])


@pytest.mark.parametrize(
    ("state", "decisions", "why"),
    [
        (None, (), "there is no model yet"),
        (line(generation=0, champion=ZERO), DECISIONS[:1], "no candidate has passed the gate yet"),
    ],
)
def test_a_line_without_a_trained_champion_plays_nothing(
    state: Line | None, decisions: tuple[Decision, ...], why: str
) -> None:
    """The claim is missed, with its reason."""
    expected = proof.claims(VARIANT, state, decisions, POLICY, ("uct:200",))

    assert proof.jobs_for(expected, SEED) == ()
    assert {(actual.met, actual.why) for actual in (proof.judge(claim, []) for claim in expected)} == {(False, why)}
    assert proof.progress(expected, []) == 1.0


def test_progress_is_the_share_of_blocks() -> None:
    """Over all claims together."""
    expected = [claim(), claim(VARIANT, "uct:200")]
    jobs = proof.jobs_for(expected, SEED)

    shares = [
        proof.progress(expected, [played(job, (1.0, 0.0)) for job in jobs[:count]]) for count in (0, 8, len(jobs))
    ]

    assert shares == [0.0, 0.5, 1.0]


def proven(story: Story) -> tuple[Match, ...]:
    """Return the matches that prove the line of *story*."""
    zero = Decision(variant=VARIANT, model=ZERO, promoted=True, reason="r", generation=0, time=0.0)
    return proof.jobs_for(proof.claims(VARIANT, story.line, [zero], POLICY, ("uct:200",)), SEED)


@pytest.mark.parametrize("stage", list(Stage))
def test_the_loop_ignores_a_proof(stage: Stage) -> None:
    """Blocks of a proof and its buried matches change no line, whatever it waits for."""
    story = at(Stage.COLLECTING if stage is Stage.RESTING else stage)
    if stage is Stage.RESTING:
        story.line = msgspec.structs.replace(story.line, stage=Stage.RESTING)
    before = story.line

    for job in proven(story):
        assert not story.publish(result(job)).jobs
        assert not story.publish(burial(job)).jobs
        assert not story.publish(burial(job, ZERO)).jobs

    assert story.line == before
