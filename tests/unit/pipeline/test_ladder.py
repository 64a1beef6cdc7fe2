"""Ladder rounds run on a schedule, when ratings are uncertain and the queue is free, and they never promote."""

from pathlib import Path

import msgspec
import pytest

from ringrift.daemons.ladder import ladder as look
from ringrift.events.evaluation import Pair, Strength, Summary
from ringrift.jobs import ORDINARY, JobFilter, Match, Purpose
from ringrift.kernel.settings import Policy
from ringrift.kernel.stall_detector import StallDetector
from ringrift.pipeline.ladder import _PAIRS_PER_ROUND, _UNCERTAIN_ELO, LADDERS, Ladder, _pairs, climb, may_climb
from ringrift.pipeline.line import Ancestor, Stage
from ringrift.pipeline.ratings import RATINGS, LineRatings
from ringrift.work.desk import cancel
from ringrift.work.limits import VERDICTS
from ringrift.work.pressure import QueuePressure
from unit.pipeline.story import POLICY, VARIANT, Line, Story, at, blob, result
from unit.work.world import World, play

HOUR = 3600.0
OLD, BEFORE, CHAMPION, GONE = (blob(name) for name in ("old", "before", "champion", "gone"))
LINE = Line(
    variant=VARIANT,
    workload="fake",
    players=2,
    stage=Stage.COLLECTING,
    champion=CHAMPION,
    generation=2,
    ancestors=(Ancestor(model=OLD, generation=0), Ancestor(model=BEFORE, generation=1)),
)
CLIMBS = msgspec.structs.replace(POLICY, ladder_seconds=HOUR, ladder_blocks=10, blocks_per_job=4)


def state(*log: tuple[str, str], half: float = 50.0) -> LineRatings:
    """Return the ratings of a line whose champion may be off by *half*, and the players that should meet next."""
    champion = Strength(
        weights=CHAMPION, settings="s", elo=100.0, lower=100.0 - half, upper=100.0 + half, blocks=9, anchored=True
    )
    actual = tuple(Pair(one=one, other=other) for one, other in log)
    return LineRatings(variant=VARIANT, summary=Summary(players=3, blocks=9, strengths=(champion,), pairs=actual))


RATED = state((CHAMPION, OLD), ("greedy", BEFORE))
SURE = state((CHAMPION, OLD), half=_UNCERTAIN_ELO - 1.0)
FIRST = Ladder(variant=VARIANT)


def pressed(level: str) -> QueuePressure:
    """Return the evaluation queue at *level*."""
    return QueuePressure(
        queue="evaluation", depth=9, drain_seconds=None, level=level, trend="rising", since=1.0, limit=200.0
    )


@pytest.mark.parametrize(
    ("ratings", "policy", "level", "live", "is_due", "rule"),
    [
        (RATED, CLIMBS, "none", 0, True, None),
        (RATED, CLIMBS, "none", 1, True, "jobs of an earlier round"),
        (RATED, CLIMBS, "none", 0, False, "seconds since the last round"),
        (RATED, CLIMBS, "low", 0, True, "the queue evaluation is at low, items that wait"),
        (SURE, CLIMBS, "none", 0, True, "Elo that the champion's rating may be off by"),
        (state((GONE, OLD)), CLIMBS, "none", 0, True, "pairs that ratings would learn from"),
        (LineRatings(variant=VARIANT), CLIMBS, "none", 0, True, "pairs that ratings would learn from"),
        (
            RATED,
            msgspec.structs.replace(CLIMBS, ladder_seconds=0.0),
            "none",
            0,
            True,
            "a schedule: policy.ladder_seconds",
        ),
    ],
)
def test_a_round_waits_until_it_is_due_and_the_queue_is_free(
    ratings: LineRatings, policy: Policy, level: str, live: int, is_due: bool, rule: str | None
) -> None:
    """The verdict names the first missing condition."""
    verdict = may_climb(LINE, ratings, policy, is_due=is_due, pressure=pressed(level), live=live, at=HOUR)

    assert verdict.allowed is (rule is None)
    assert rule is None or verdict.rule == rule


def test_only_available_players_are_paired() -> None:
    """Models that the line no longer keeps are skipped; a baseline is always the second."""
    log = state((GONE, OLD), (CHAMPION, GONE), ("greedy", BEFORE), (CHAMPION, "random"), (BEFORE, OLD))

    assert _pairs(LINE, log) == (
        Pair(one=BEFORE, other="greedy"),
        Pair(one=CHAMPION, other="random"),
        Pair(one=BEFORE, other=OLD),
    )


def test_a_round_enqueues_its_blocks_and_no_more() -> None:
    """Shared among the pairs, in jobs of the usual size, with the lowest priority, on openings of its own."""
    after, jobs = climb(LINE, RATED, Ladder(variant=VARIANT, round=3), CLIMBS)

    assert after == Ladder(variant=VARIANT, round=4)
    assert [(job.candidate, job.opponent, job.first, job.count) for job in jobs] == [
        (CHAMPION, OLD, 0, 4),
        (CHAMPION, OLD, 4, 1),
        (BEFORE, "greedy", 0, 4),
        (BEFORE, "greedy", 4, 1),
    ]
    assert {job.priority < ORDINARY for job in jobs} == {True}
    assert {job.purpose for job in jobs} == {Purpose.LADDER}
    assert jobs[2].blobs == (BEFORE,)
    again, more = climb(LINE, RATED, after, CLIMBS)
    assert again.round == 5
    assert {job.seed for job in jobs} & {job.seed for job in more} == set()


@pytest.mark.parametrize("blocks", [1, 2, 3, 7, 64])
def test_a_round_is_never_larger_than_the_policy_allows(blocks: int) -> None:
    """This holds also with more pairs than blocks."""
    many = state(*((CHAMPION, OLD), (CHAMPION, BEFORE), (BEFORE, OLD), (OLD, "greedy"), (OLD, "random")))
    policy = msgspec.structs.replace(CLIMBS, ladder_blocks=blocks)

    _, jobs = climb(LINE, many, FIRST, policy)

    assert sum(job.count for job in jobs) == blocks
    assert len({(job.candidate, job.opponent) for job in jobs}) <= _PAIRS_PER_ROUND


def test_the_machine_ignores_ladder_blocks() -> None:
    """Neither in a match of the same two nor in a review does a block of a ladder count: its openings are others."""
    story = at(Stage.EVALUATING)
    candidate, champion = story.line.candidate, story.line.champion
    assert candidate is not None
    assert champion is not None
    match = Match(
        variant=VARIANT, candidate=candidate.model, champion=champion, first=0, count=8, seed=99, purpose=Purpose.LADDER
    )

    step = story.decide(result(match))

    assert (step.line, step.jobs, step.decision, step.events) == (story.line, (), None, ())


def test_a_ladder_job_is_not_cancelled_with_a_match() -> None:
    """It has another purpose."""
    job = Match(variant=VARIANT, candidate="c", champion="d", first=0, count=8, purpose=Purpose.LADDER)

    assert not JobFilter(purpose=Purpose.PROMOTION, candidate="c").matches(job)
    assert JobFilter(variant=VARIANT, purpose=Purpose.LADDER).matches(job)


def test_ladder_blocks_do_not_move_a_line() -> None:
    """Blocks of a ladder that arrive in any stage move the line nowhere."""
    for stage in (Stage.COLLECTING, Stage.EXPORTING, Stage.TRAINING, Stage.DISTRIBUTING):
        story: Story = at(stage)
        job = Match(
            variant=VARIANT,
            candidate=story.line.champion or "",
            champion="d",
            first=0,
            count=2,
            seed=5,
            purpose=Purpose.LADDER,
        )

        assert story.decide(result(job)).line == story.line


def test_the_daemon_starts_a_round_when_it_is_due(tmp_path: Path) -> None:
    """Not at first sight; after an interval once; not again while it is under way; the gate's verdict is stored."""

    async def story(world: World) -> None:
        roles, memory = await world.roles(), StallDetector()

        async def tick(seconds: float) -> int:
            world.clock.seconds += seconds
            await look(
                store=world.store,
                roles=roles,
                policy=CLIMBS,
                envelopes=world.envelopes,
                clock=world.clock,
                memory=memory,
            )
            return len(await world.jobs("ready"))

        await world.keep(LINE)
        async with world.store.begin() as tx:
            await RATINGS.put(tx, [RATED])
        assert await tick(0.0) == 0
        assert await tick(HOUR - 1.0) == 0
        assert await tick(1.0) == 4
        assert await tick(30.0) == 4
        assert await tick(2 * HOUR) == 4
        async with world.store.begin() as tx:
            await cancel(tx, JobFilter(purpose=Purpose.LADDER), world.envelopes)
        assert await tick(1.0) == 4
        async with world.store.read() as view:
            verdict = await VERDICTS.get(view, f"{VARIANT}:ladder")
            remembered = await LADDERS.get(view, VARIANT)
        assert verdict is not None
        assert verdict.allowed
        assert remembered is not None
        assert remembered.round == 2

    play(tmp_path, story)
