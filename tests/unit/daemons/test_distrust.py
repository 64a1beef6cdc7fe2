"""What the loop does when a node is quarantined, on a real store: blocks again, games out, decisions once more."""

from pathlib import Path

import msgspec

from ringrift.daemons.pipeline import pipeline
from ringrift.events import evaluation
from ringrift.events.base import Event
from ringrift.events.node import Quarantined
from ringrift.jobs import Match
from ringrift.pipeline.line import Stage
from ringrift.pipeline.records import BUDGET, RUN, decisions_of, evidence_of, models_of
from ringrift.pipeline.trust import by_hand
from ringrift.store.ports import Put
from ringrift.work import quarantine
from unit.pipeline.story import LOSS, POLICY, VARIANT, WIN, Story, result
from unit.work.world import World, play


async def react(world: World, event: Event) -> None:
    """Let the pipeline react to *event*."""
    async with world.store.begin() as tx:
        await pipeline(event, world.envelope(event), tx, policy=POLICY, ids=world.ids, scribe=world.scribe)


async def keep(world: World, story: Story) -> None:
    """Write down the line of *story* and the error budget that its test has paid from."""
    await world.keep(story.line)
    async with world.store.begin() as tx:
        await tx.put([Put(kind=BUDGET, id=RUN, body=msgspec.json.encode(story.account))])


async def until_promoted(world: World) -> tuple[str, str]:
    """A line whose champion owes its place to two nodes; the champion and the one before it."""
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
        await quarantine.shut_out(tx, node, by_hand("it lies", 9.0))
    await react(world, Quarantined(node=node, reason="it lies"))


async def asked_again(world: World) -> list[Match]:
    """Reviews that wait."""
    rows = [row for row in await world.jobs("ready") if row.key.startswith("review:")]
    return [msgspec.json.decode(row.body, type=Match) for row in rows]


def test_a_decision_keeps_the_name_of_every_block(tmp_path: Path) -> None:
    """Who wants to know why a model was promoted finds the very blocks, and who played them."""

    async def story(world: World) -> None:
        model, _ = await until_promoted(world)
        async with world.store.read() as view:
            [decision] = await decisions_of(view, VARIANT)
            rows = await evidence_of(view, decision)

        assert (decision.model, decision.promoted) == (model, True)
        assert [(row.block.number, row.block.node) for row in rows] == [
            (0, "good"),
            (1, "good"),
            (2, "bad"),
            (3, "bad"),
        ]
        assert decision.gate is not None
        assert decision.gate.alpha <= POLICY.gate.alpha

    play(tmp_path, story)


def test_a_champion_that_rests_on_lies_is_rolled_back(tmp_path: Path) -> None:
    """Its blocks of that node are played again with the same openings; they are lost, and the line goes back."""

    async def story(world: World) -> None:
        model, before = await until_promoted(world)

        await shut_out(world, "bad")
        [again] = await asked_again(world)
        assert (again.first, again.count, again.candidate, again.champion) == (2, 2, model, before)
        for _ in range(8):
            waiting = await asked_again(world)
            if (await world.line(VARIANT)).champion == before or not waiting:
                break
            for job in waiting:
                await world.desk("good").claim({"match"}, 1)
                await react(world, msgspec.structs.replace(result(job, LOSS), node="good"))

        line = await world.line(VARIANT)
        assert (line.champion, line.stage, line.review) == (before, Stage.DISTRIBUTING, None)
        async with world.store.read() as view:
            last = (await decisions_of(view, VARIANT))[-1]
            states = {one.model: str(one.state) for one in await models_of(view, VARIANT)}
        assert (last.kind, last.model, last.previous) == ("rollback", before, model)
        assert (states[model], states[before]) == ("rolled_back", "champion")

    play(tmp_path, story)


def test_a_late_word_of_a_quarantined_node_does_not_count(tmp_path: Path) -> None:
    """Whatever it still reports is kept in the log of matches, and moves nothing."""

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
        assert [(one.first, one.count) for one in waiting] == [(job.first, job.count)]
        assert not await world.told(evaluation.Finished)

    play(tmp_path, story)
