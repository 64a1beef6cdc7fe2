"""Ladder rounds come on a schedule, when ratings are uncertain and nobody waits, and they promote nobody."""

from pathlib import Path

import msgspec
import pytest

from ringrift.daemons.ladder import ladder as look
from ringrift.evaluation.budget import opened
from ringrift.events.evaluation import Pair, Strength, Summary
from ringrift.jobs import ORDINARY, Match
from ringrift.kernel.settings import Policy
from ringrift.pipeline import ladder, standing
from ringrift.pipeline.ladder import PAIRS_PER_ROUND, PURPOSE, UNCERTAIN_ELO, Ladder, climb, may_climb, pairs
from ringrift.pipeline.line import Ancestor, Stage
from ringrift.pipeline.machine import advance
from ringrift.pipeline.records import verdicts_of
from ringrift.pipeline.standing import Standing
from ringrift.work.limits import READY_SOFT
from unit.pipeline.story import POLICY, VARIANT, Line, Story, at, blob, result
from unit.work.world import World, play

HOUR = 3600.0
OLD, BEFORE, CHAMPION, GONE = (blob(name) for name in ("old", "before", "champion", "gone"))
LINE = Line(
    variant=VARIANT, workload="fake", players=2, stage=Stage.COLLECTING, champion=CHAMPION, generation=2,
    ancestors=(Ancestor(model=OLD, generation=0), Ancestor(model=BEFORE, generation=1)),
)  # fmt: skip
CLIMBS = msgspec.structs.replace(POLICY, ladder_seconds=HOUR, ladder_blocks=10, blocks_per_job=4)


def known(*told: tuple[str, str], half: float = 50.0) -> Standing:
    """What is known of a line whose champion's rating may be off by *half*, and who should meet next."""
    champion = Strength(
        weights=CHAMPION, settings="s", elo=100.0, lower=100.0 - half, upper=100.0 + half, blocks=9, anchored=True
    )
    found = tuple(Pair(one=one, other=other) for one, other in told)
    return Standing(variant=VARIANT, summary=Summary(players=3, blocks=9, strengths=(champion,), pairs=found))


KNOWN = known((CHAMPION, OLD), ("greedy", BEFORE))
SURE = known((CHAMPION, OLD), half=UNCERTAIN_ELO - 1.0)
FIRST = Ladder(variant=VARIANT, time=0.0)


@pytest.mark.parametrize(
    ("standing", "policy", "ready", "under_way", "at", "rule"),
    [
        (KNOWN, CLIMBS, 0, 0, HOUR, None),
        (KNOWN, CLIMBS, READY_SOFT - 1, 0, HOUR, None),
        (KNOWN, CLIMBS, 0, 0, HOUR - 1.0, "seconds since the last round"),
        (KNOWN, CLIMBS, READY_SOFT, 0, HOUR, "jobs that wait in the queue"),
        (KNOWN, CLIMBS, 0, 1, HOUR, "jobs of an earlier round"),
        (SURE, CLIMBS, 0, 0, HOUR, "Elo that the champion's rating may be off by"),
        (known((GONE, OLD)), CLIMBS, 0, 0, HOUR, "pairs that ratings would like to see"),
        (Standing(variant=VARIANT), CLIMBS, 0, 0, HOUR, "pairs that ratings would like to see"),
        (KNOWN, msgspec.structs.replace(CLIMBS, ladder_seconds=0.0), 0, 0, HOUR, "a schedule: policy.ladder_seconds"),
    ],
)  # fmt: skip
def test_a_round_waits_until_it_is_wanted_and_in_nobodys_way(
    standing: Standing, policy: Policy, ready: int, under_way: int, at: float, rule: str | None
) -> None:
    """The verdict names the first thing that is missing."""
    said = may_climb(LINE, standing, FIRST, policy, ready=ready, under_way=under_way, at=at)

    assert said.allowed is (rule is None)
    assert rule is None or said.rule == rule


def test_only_who_can_still_play_is_paired() -> None:
    """Models that the line no longer keeps are passed over; a player that never trains is always the second."""
    told = known((GONE, OLD), (CHAMPION, GONE), ("greedy", BEFORE), (CHAMPION, "random"), (BEFORE, OLD))

    assert pairs(LINE, told) == (
        Pair(one=BEFORE, other="greedy"), Pair(one=CHAMPION, other="random"), Pair(one=BEFORE, other=OLD),
    )  # fmt: skip


def test_a_round_asks_for_its_blocks_and_no_more() -> None:
    """Shared among the pairs, in jobs of the usual size, behind all other work, on openings of its own."""
    after, jobs = climb(LINE, KNOWN, Ladder(variant=VARIANT, round=3, time=0.0), CLIMBS, HOUR)

    assert after == Ladder(variant=VARIANT, round=4, time=HOUR)
    assert [(job.candidate, job.opponent, job.first, job.count) for job in jobs] == [
        (CHAMPION, OLD, 0, 4), (CHAMPION, OLD, 4, 1), (BEFORE, "greedy", 0, 4), (BEFORE, "greedy", 4, 1),
    ]  # fmt: skip
    assert {job.priority < ORDINARY for job in jobs} == {True}
    assert {job.purpose for job in jobs} == {PURPOSE}
    assert jobs[2].blobs == (BEFORE,)
    again, more = climb(LINE, KNOWN, after, CLIMBS, 2 * HOUR)
    assert again.round == 5
    assert {job.seed for job in jobs} & {job.seed for job in more} == set()


@pytest.mark.parametrize("blocks", [1, 2, 3, 7, 64])
def test_a_round_is_never_larger_than_the_policy_says(blocks: int) -> None:
    """Also with more pairs than blocks."""
    many = known(*((CHAMPION, OLD), (CHAMPION, BEFORE), (BEFORE, OLD), (OLD, "greedy"), (OLD, "random")))
    policy = msgspec.structs.replace(CLIMBS, ladder_blocks=blocks)

    _, jobs = climb(LINE, many, FIRST, policy, HOUR)

    assert sum(job.count for job in jobs) == blocks
    assert len({(job.candidate, job.opponent) for job in jobs}) <= PAIRS_PER_ROUND


def test_the_machine_ignores_what_a_ladder_plays() -> None:
    """Neither in a match of the same two nor in a review does a block of a ladder count: its openings are others."""
    story = at(Stage.EVALUATING)
    candidate, champion = story.line.candidate, story.line.champion
    assert candidate is not None
    assert champion is not None
    asked = Match(
        variant=VARIANT, candidate=candidate.model, champion=champion, first=0, count=8, seed=99, purpose=PURPOSE
    )

    step = advance(story.line, result(asked), POLICY, story.at, opened(POLICY.budget))

    assert (step.line, step.jobs, step.decision, step.events) == (story.line, (), None, ())


def test_a_ladder_job_is_not_cancelled_with_a_match() -> None:
    """Its key begins with another word."""
    job = Match(variant=VARIANT, candidate="c", champion="d", first=0, count=8, purpose=PURPOSE)

    assert not job.key.startswith(Match.prefix(VARIANT, "c"))
    assert ladder.under_way([job.key, "match:hex8_2p:c:0", "ladder:hex8_3p:c:d:0"], VARIANT) == 1


def test_a_story_goes_on_beside_a_ladder() -> None:
    """Blocks of a ladder that come in every stage move the line nowhere."""
    for stage in (Stage.COLLECTING, Stage.EXPORTING, Stage.TRAINING, Stage.DISTRIBUTING):
        story: Story = at(stage)
        job = Match(variant=VARIANT, candidate=story.line.champion or "", champion="d", first=0, count=2, seed=5,
                    purpose=PURPOSE)  # fmt: skip

        assert advance(story.line, result(job), POLICY, story.at, opened(POLICY.budget)).line == story.line


def test_the_daemon_asks_for_a_round_when_it_is_time(tmp_path: Path) -> None:
    """Not at first sight; after an interval once; not again while it is under way; the gate's answer is kept."""

    async def story(world: World) -> None:
        roles = await world.roles()

        async def tick(seconds: float) -> int:
            world.clock.seconds += seconds
            await look(
                store=world.store, roles=roles, policy=CLIMBS, ids=world.ids, scribe=world.scribe, clock=world.clock
            )
            return len(await world.jobs("ready"))

        await world.keep(LINE)
        async with world.store.begin() as tx:
            await standing.save(tx, KNOWN)
        assert await tick(0.0) == 0
        assert await tick(HOUR - 1.0) == 0
        assert await tick(1.0) == 4
        assert await tick(2 * HOUR) == 4
        async with world.store.begin() as tx:
            await tx.cancel(PURPOSE)
        assert await tick(1.0) == 4
        async with world.store.read() as view:
            [said] = [one for one in await verdicts_of(view, VARIANT) if one.gate == "ladder"]
            remembered = await ladder.load(view, VARIANT)
        assert said.allowed
        assert remembered is not None
        assert remembered.round == 2

    play(tmp_path, story)
