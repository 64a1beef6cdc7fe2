"""A step of the machine is carried out whole: line, jobs, events, verdicts and decision."""

from pathlib import Path

import msgspec
import pytest

from ringrift.bus import trace
from ringrift.events import evaluation, model, pipeline
from ringrift.events.base import Envelope
from ringrift.jobs import Export, Job, Train
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import Stage
from ringrift.pipeline.machine import advance
from ringrift.pipeline.models import State
from ringrift.pipeline.records import (
    account_of,
    begins_round,
    carry_out,
    decisions_of,
    lines,
    load,
    models_of,
    note,
    save,
    verdicts_of,
)
from unit.pipeline.story import POLICY, VARIANT, at, result
from unit.work.world import World, play


def test_a_step_is_carried_out_whole(tmp_path: Path) -> None:
    """A promotion writes the line, cancels the match, asks for the distribution, says it and keeps the evidence."""

    async def story(world: World) -> None:
        tale = at(Stage.EVALUATING, rounds=0)
        matches = [job for job in tale.alive.values() if job.kind() == "match"]
        await world.desk().ask(matches)
        tale.finish("match")
        step = advance(tale.line, result(tale.pop("match")), POLICY, 50.0, tale.account)
        cause = world.envelope(pipeline.Opened(variant=VARIANT, workload="fake"))

        async with world.store.begin() as tx:
            await carry_out(tx, step, cause, ids=world.ids, scribe=world.scribe)

        async with world.store.read() as view:
            assert await load(view, VARIANT) == step.line
            assert await lines(view) == [step.line]
            [decision] = await decisions_of(view, VARIANT)
            states = {one.model: one.state for one in await models_of(view, VARIANT)}
            account = await account_of(view, POLICY.budget)
            gates = {str(verdict.gate) for verdict in await verdicts_of(view, VARIANT)}
            said = {event.name: event for event in await view.read(0, 10)}
        assert step.decision is not None
        assert msgspec.structs.replace(decision, id="") == step.decision
        assert states == {step.line.champion: State.CHAMPION, step.line.previous: State.RETIRED}
        assert (account, account.promoted) == (step.account, 1)
        assert gates == {"evaluating", "distributing"}
        assert [(row.kind, row.state) for row in await world.jobs()] == [
            ("match", "cancelled"), ("match", "cancelled"), ("distribute", "ready"),
        ]  # fmt: skip
        assert {pipeline.Moved.name(), evaluation.Finished.name(), model.Promoted.name()} <= set(said)
        promoted = said[model.Promoted.name()]
        assert (promoted.cause, promoted.correlation, promoted.source) == (cause.id, cause.correlation, "pipeline")

    play(tmp_path, story)


def test_a_wait_keeps_its_beginning_in_the_store(tmp_path: Path) -> None:
    """A verdict that only moves its value is dated back to the first of its kind."""

    async def story(world: World) -> None:
        first = Verdict(gate="fill", allowed=False, rule="games", value=1, limit=9, since=100.0)
        later = msgspec.structs.replace(first, value=5, since=200.0)
        other = msgspec.structs.replace(first, allowed=True, value=9, since=300.0)
        found = []
        for said in (first, later, other):
            async with world.store.begin() as tx:
                await note(tx, VARIANT, (said,))
            async with world.store.read() as view:
                found += await verdicts_of(view, VARIANT)

        assert [(verdict.value, verdict.since) for verdict in found] == [(1, 100.0), (5, 100.0), (9, 300.0)]

    play(tmp_path, story)


def test_a_line_that_was_never_opened_is_none(tmp_path: Path) -> None:
    """Asking for an unknown variant is no error."""

    async def story(world: World) -> None:
        async with world.store.begin() as tx:
            assert await load(tx, VARIANT) is None
            await save(tx, at(Stage.COLLECTING).line)
            assert (await load(tx, VARIANT)) == at(Stage.COLLECTING).line

    play(tmp_path, story)


def test_what_is_asked_belongs_to_the_story_of_its_cause(tmp_path: Path) -> None:
    """A batch leads to its copy, the copy to the export: one story, carried by the jobs."""

    async def story(world: World) -> None:
        tale = at(Stage.COLLECTING, rounds=0)
        tale.fill()
        batch = result(tale.pop("play"))
        cause = world.envelope(batch)

        async with world.store.begin() as tx:
            await carry_out(
                tx, advance(tale.line, batch, POLICY, 50.0, tale.account), cause, ids=world.ids, scribe=world.scribe
            )

        [lease] = await world.desk().claim({"sync"}, 1)
        context = trace.read(lease.context)
        assert context is not None
        assert (context.trace, context.cause, context.depth) == (cause.trace, cause.id, 0)

    play(tmp_path, story)


EXPORT = Export(variant=VARIANT, batches=("b",))
FIRST, NEXT = Train(variant=VARIANT, generation=0), Train(variant=VARIANT, generation=1, samples="s", parent="m")


@pytest.mark.parametrize(
    ("job", "cause", "begins"),
    [
        (EXPORT, "data.synced", False),
        (EXPORT, "pipeline.requested", False),
        (EXPORT, "model.distributed", True),
        (EXPORT, "evaluation.blocks_played", True),
        (EXPORT, "work.buried", True),
        (FIRST, "pipeline.opened", False),
        (FIRST, "work.buried", True),
        (NEXT, "data.exported", False),
    ],
)
def test_a_round_that_follows_from_another_is_a_story_of_its_own(job: Job, cause: str, begins: bool) -> None:
    """Otherwise the story of a line that always has enough games, or always fails, would never end."""
    assert begins_round([job], Envelope(id="e", name=cause, body=b"")) is begins
