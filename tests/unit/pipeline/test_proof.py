"""A proof asks for its own matches, judges them alone, and never moves the loop."""

import msgspec
import pytest

from ringrift.events.evaluation import BlocksPlayed, Played
from ringrift.events.model import Evidence
from ringrift.jobs import PROOF, URGENT, Match
from ringrift.pipeline import proof
from ringrift.pipeline.line import Decision, Line, Stage
from ringrift.pipeline.proof import GAMES_MIN, Claim
from unit.pipeline.story import POLICY, VARIANT, Story, at, blob, burial, result

SEED = 7
ZERO, CHAMPION = blob("zero"), blob("champion")
EVIDENCE = Evidence(blocks=40, score=0.7, llr=3.0, lower=-2.9, upper=2.9, rule="likelihood ratio above the upper bound")


def decision(model: str, generation: int, evidence: Evidence | None, promoted: bool = True) -> Decision:
    """What was decided about *model*."""
    return Decision(
        variant=VARIANT, model=model, promoted=promoted, reason="r", generation=generation, time=float(generation),
        evidence=evidence,
    )  # fmt: skip


DECISIONS = (
    decision(ZERO, 0, None),
    decision(blob("weak"), 1, EVIDENCE, promoted=False),
    decision(blob("one"), 1, EVIDENCE),
    decision(CHAMPION, 2, EVIDENCE),
)


def line(variant: str = VARIANT, generation: int = 2, champion: str = CHAMPION) -> Line:
    """A line with a champion."""
    return Line(
        variant=variant, workload="reversi", players=int(variant[-2]), stage=Stage.COLLECTING, champion=champion,
        generation=generation,
    )  # fmt: skip


def claim(variant: str = VARIANT, *baselines: str) -> Claim:
    """The last claim about *variant*."""
    return proof.claims(variant, line(variant), DECISIONS, POLICY, baselines)[-1]


def played(job: Match, scores: tuple[float, ...]) -> BlocksPlayed:
    """What is said when *job* ends with *scores* in every block."""
    blocks = tuple(Played(number=job.first + n, scores=scores) for n in range(job.count))
    return BlocksPlayed(
        variant=job.variant, candidate=job.candidate, champion=job.opponent, blocks=blocks, node="n"
    )  # fmt: skip


@pytest.mark.parametrize(("variant", "limit", "blocks"), [("hex8_2p", 1 / 2, 128), ("hex8_3p", 1 / 3, 86)])
def test_the_champion_is_to_beat_generation_0(variant: str, limit: float, blocks: int) -> None:
    """Its share of wins must be above an equal one with 99 %, in as many blocks as 256 games take."""
    [found] = proof.claims(variant, line(variant), DECISIONS, POLICY)

    assert (found.model, found.opponent, found.baseline) == (CHAMPION, ZERO, False)
    assert (found.limit, found.confidence, found.blocks) == (limit, 0.99, blocks)


def test_a_baseline_is_one_claim_more() -> None:
    """By its name, with 95 %."""
    first, second = proof.claims("square8_2p", line("square8_2p"), DECISIONS, POLICY, ("uct:200",))

    assert (first.opponent, second.opponent) == (ZERO, "uct:200")
    assert (second.baseline, second.confidence, second.limit) == (True, 0.95, 0.5)


@pytest.mark.parametrize("baselines", [(), ("uct:200",)])
@pytest.mark.parametrize("variant", ["hex8_2p", "hex8_3p", "hex8_4p"])
def test_a_claim_is_played_in_blocks_of_its_own(variant: str, baselines: tuple[str, ...]) -> None:
    """All blocks, each once, beyond every number that the gate may ask for, with one seed, before everything else."""
    wanted = claim(variant, *baselines)

    jobs = proof.matches(wanted, SEED)

    numbers = [number for job in jobs for number in range(job.first, job.first + job.count)]
    assert numbers == list(range(POLICY.gate.blocks_max, POLICY.gate.blocks_max + wanted.blocks))
    assert len(numbers) * int(variant[-2]) >= GAMES_MIN
    assert {(job.priority, job.purpose, job.baseline) for job in jobs} == {(URGENT, "proof", "".join(baselines))}
    assert len({(job.seed, job.plies) for job in jobs}) == 1


def test_seeds_differ_by_run_and_variant() -> None:
    """Another run proves itself in other openings."""
    seeds = {proof.matches(claim(variant), seed)[0].seed for variant in ("hex8_2p", "hex8_3p") for seed in (1, 2)}

    assert len(seeds) == 4


def test_what_takes_longest_is_asked_for_first() -> None:
    """Baselines search long: with them last, one core would wait for the other."""
    wanted = [*proof.claims(VARIANT, line(), DECISIONS, POLICY), claim("square8_2p", "uct:200")]

    jobs = proof.asked(wanted, SEED)

    assert jobs[0].baseline == "uct:200"
    assert jobs[-1].baseline == ""


def test_keys_are_never_those_of_the_gate() -> None:
    """No job of a proof is found, awaited or cancelled by what the loop does with a candidate."""
    jobs = proof.asked([claim(), claim(VARIANT, "uct:200")], SEED)

    keys = [job.key for job in jobs]
    assert len(set(keys)) == len(keys)
    assert all(key.startswith(PROOF) and not key.startswith(Match.prefix(VARIANT, CHAMPION)) for key in keys)


@pytest.mark.parametrize(
    ("scores", "met"), [((1.0, 1.0), True), ((1.0, 0.5), True), ((0.5, 0.5), False), ((0.0, 0.5), False)]
)
def test_a_claim_holds_if_its_lower_bound_is_above_the_limit(scores: tuple[float, ...], met: bool) -> None:
    """And the finding says by how much, in score and in Elo."""
    wanted = claim()

    found = proof.judge(wanted, [played(job, scores) for job in proof.matches(wanted, SEED)])

    assert (found.met, found.n, found.blocks) == (met, 256, 128)
    assert found.score == sum(scores) / 2
    assert found.lower <= found.score <= found.upper
    assert (found.lower > found.limit) == met == (found.elo_lower > 0)
    assert ("is above" in found.why) == met


def test_too_few_games_show_nothing() -> None:
    """However they ended; and the finding says how many are missing."""
    wanted = claim()

    found = proof.judge(wanted, [played(job, (1.0, 1.0)) for job in proof.matches(wanted, SEED)[:-1]])

    assert not found.met
    assert found.why == "only 192 of 256 games were played"
    assert proof.judge(wanted, []).n == 0


def test_only_its_own_blocks_count_and_each_once() -> None:
    """Blocks of other matches, from other numbers, from too few seats and those told twice change nothing."""
    wanted = claim()
    job, *_ = proof.matches(wanted, SEED)
    said = played(job, (1.0, 1.0))
    lost = tuple(msgspec.structs.replace(block, scores=(0.0, 0.0)) for block in said.blocks)
    strange = [
        msgspec.structs.replace(said, blocks=lost),
        msgspec.structs.replace(said, champion="uct:200", blocks=lost),
        msgspec.structs.replace(said, candidate=ZERO, blocks=lost),
        msgspec.structs.replace(said, blocks=(Played(number=3, scores=(0.0, 0.0)),)),
        msgspec.structs.replace(said, blocks=(Played(number=wanted.first + 120, scores=(0.0,)),)),
    ]

    assert proof.judge(wanted, [said, *strange]) == proof.judge(wanted, [said])


@pytest.mark.parametrize(
    ("known", "decisions", "why"),
    [
        (None, (), "there is no model yet"),
        (line(generation=0, champion=ZERO), DECISIONS[:1], "no candidate has passed the gate yet"),
    ],
)
def test_who_has_learnt_nothing_plays_nothing(known: Line | None, decisions: tuple[Decision, ...], why: str) -> None:
    """Then the claim is missed, and says why."""
    wanted = proof.claims(VARIANT, known, decisions, POLICY, ("uct:200",))

    assert proof.asked(wanted, SEED) == ()
    assert {(found.met, found.why) for found in (proof.judge(one, []) for one in wanted)} == {(False, why)}
    assert proof.done(wanted, []) == 1.0


def test_progress_is_the_share_of_blocks() -> None:
    """Over all claims together."""
    wanted = [claim(), claim(VARIANT, "uct:200")]
    jobs = proof.asked(wanted, SEED)

    shares = [proof.done(wanted, [played(job, (1.0, 0.0)) for job in jobs[:count]]) for count in (0, 8, len(jobs))]

    assert shares == [0.0, 0.5, 1.0]


def proven(story: Story) -> tuple[Match, ...]:
    """The matches that prove the line of *story*."""
    zero = Decision(variant=VARIANT, model=ZERO, promoted=True, reason="r", generation=0, time=0.0)
    return proof.asked(proof.claims(VARIANT, story.line, [zero], POLICY, ("uct:200",)), SEED)


@pytest.mark.parametrize("stage", list(Stage))
def test_the_loop_takes_no_notice_of_a_proof(stage: Stage) -> None:
    """Blocks of a proof and its matches that were given up change no line, whatever it waits for."""
    story = at(Stage.COLLECTING if stage is Stage.RESTING else stage)
    if stage is Stage.RESTING:
        story.line = msgspec.structs.replace(story.line, stage=Stage.RESTING)
    before = story.line

    for job in proven(story):
        assert not story.tell(result(job)).jobs
        assert not story.tell(burial(job)).jobs
        assert not story.tell(burial(job, ZERO)).jobs

    assert story.line == before
