"""The loop's reaction to a quarantine, on a real store: blocks again, games removed, decisions once more."""

from pathlib import Path

import msgspec

from ringrift.daemons.pipeline import pipeline
from ringrift.events import evaluation
from ringrift.events.base import Event
from ringrift.events.node import Quarantined
from ringrift.jobs import Match, Purpose
from ringrift.pipeline.line import DECISIONS, Stage
from ringrift.pipeline.models import MODELS
from ringrift.pipeline.records import BUDGET, RUN, evidence_of
from ringrift.pipeline.trust import operator_verdict
from ringrift.work.limits import QUARANTINES
from unit.pipeline.story import LOSS, POLICY, VARIANT, WIN, Story, result
from unit.work.world import World, play


async def react(world: World, event: Event) -> None:
    """Let the pipeline react to *event*."""
    async with world.store.begin() as tx:
        await pipeline(event, world.envelope(event), tx, policy=POLICY, envelopes=world.envelopes)


async def keep(world: World, story: Story) -> None:
    """Store the line of *story* and the error budget that its test has paid from."""
    await world.keep(story.line)
    async with world.store.begin() as tx:
        await BUDGET.put_at(tx, {RUN: story.account})


async def until_promoted(world: World) -> tuple[str, str]:
    """Return a line whose champion was promoted by two nodes; the champion and the one before it."""
    story = Story().go(Stage.COLLECTING).go(Stage.EVALUATING)
    await keep(world, story)
    before, candidate = story.line.champion, story.line.candidate
    assert before is not None
    assert candidate is not None
    for node in ("good", "bad"):
        job = story.pop("match")
        await react(world, msgspec.structs.replace(result(job, WIN), node=node))
    assert (await world.line(VARIANT)).champion == candidate.model
    return candidate.model, before


async def shut_out(world: World, node: str) -> None:
    """Quarantine *node*."""
    async with world.store.begin() as tx:
        await QUARANTINES.put_at(tx, {node: operator_verdict("it lies", 9.0)})
    await react(world, Quarantined(node=node, reason="it lies"))


async def pending_reviews(world: World) -> list[Match]:
    """Return the reviews that wait."""
    rows = [row for row in await world.jobs("ready") if row.kind == Match.kind()]
    jobs = [msgspec.json.decode(row.body, type=Match) for row in rows]
    return [job for job in jobs if job.purpose == Purpose.REVIEW]


def test_a_decision_keeps_the_name_of_every_block(tmp_path: Path) -> None:
    """The record of a promotion leads to the very blocks, and to the nodes that played them."""

    async def story(world: World) -> None:
        model, _ = await until_promoted(world)
        async with world.store.read() as view:
            [decision] = await DECISIONS.all(view, "variant", VARIANT)
            blocks = await evidence_of(view, decision)

        assert (decision.model, decision.promoted) == (model, True)
        assert [(block.number, block.node) for block in blocks] == [(0, "good"), (1, "good"), (2, "bad"), (3, "bad")]
        assert decision.gate is not None
        assert decision.gate.alpha <= POLICY.gate.alpha

    play(tmp_path, story)


def test_a_champion_on_false_blocks_is_rolled_back(tmp_path: Path) -> None:
    """Its blocks of that node are played again with the same openings; they are lost, and the line goes back."""

    async def story(world: World) -> None:
        model, before = await until_promoted(world)

        await shut_out(world, "bad")
        [again] = await pending_reviews(world)
        assert (again.first, again.count, again.candidate, again.champion) == (2, 2, model, before)
        for _ in range(8):
            waiting = await pending_reviews(world)
            if (await world.line(VARIANT)).champion == before or not waiting:
                break
            for job in waiting:
                await world.desk("good").claim({"match"}, 1)
                await react(world, msgspec.structs.replace(result(job, LOSS), node="good"))

        line = await world.line(VARIANT)
        assert (line.champion, line.stage, line.review) == (before, Stage.DISTRIBUTING, None)
        async with world.store.read() as view:
            last = (await DECISIONS.all(view, "variant", VARIANT))[-1]
            states = {record.model: str(record.state) for record in await MODELS.all(view, "variant", VARIANT)}
        assert (last.kind, last.model, last.previous) == ("rollback", before, model)
        assert (states[model], states[before]) == ("rolled_back", "champion")

    play(tmp_path, story)


def test_a_late_report_of_a_quarantined_node_does_not_count(tmp_path: Path) -> None:
    """Its later reports are stored in the log of matches, and move nothing."""

    async def story(world: World) -> None:
        tale = Story().go(Stage.COLLECTING).go(Stage.EVALUATING)
        await keep(world, tale)
        job = tale.pop("match")
        await shut_out(world, "bad")

        await react(world, msgspec.structs.replace(result(job, WIN), node="bad"))

        candidate = (await world.line(VARIANT)).candidate
        assert candidate is not None
        assert candidate.challenge is not None
        assert candidate.challenge.blocks == ()
        waiting = [
            msgspec.json.decode(row.body, type=Match) for row in await world.jobs("ready") if row.kind == "match"
        ]
        assert isinstance(job, Match)
        assert [(record.first, record.count) for record in waiting] == [(job.first, job.count)]
        assert not await world.events(evaluation.Finished)

    play(tmp_path, story)
