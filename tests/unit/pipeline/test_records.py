"""A step of the machine is carried out whole: line, jobs, events, verdicts and decision."""

from pathlib import Path

import msgspec
import pytest

from ringrift.bus import trace
from ringrift.events import evaluation, model, pipeline
from ringrift.events.base import Envelope
from ringrift.jobs import Export, Job, Train
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import DECISIONS, LINES, Stage
from ringrift.pipeline.machine import advance
from ringrift.pipeline.models import MODELS, State
from ringrift.pipeline.records import _begins_round, account_of, carry_out, save_line, save_verdicts
from ringrift.pipeline.step import context_for
from ringrift.work.limits import VERDICTS
from unit.pipeline.story import POLICY, VARIANT, at, result
from unit.work.world import World, play


def test_a_step_is_applied_atomically(tmp_path: Path) -> None:
    """A promotion writes the line, cancels the match, enqueues the distribution, publishes it and stores the
    evidence."""

    async def story(world: World) -> None:
        tale = at(Stage.EVALUATING, rounds=0)
        matches = [job for job in tale.alive.values() if job.kind() == "match"]
        await world.desk().enqueue(matches)
        tale.finish("match")
        step = advance(tale.line, result(tale.pop("match")), context_for(tale.line, POLICY, 50.0, tale.account))
        cause = world.envelope(pipeline.Opened(variant=VARIANT, workload="fake"))

        async with world.store.begin() as tx:
            await carry_out(tx, step, cause, world.envelopes)

        async with world.store.read() as view:
            assert await LINES.get(view, VARIANT) == step.line
            assert await LINES.all(view) == [step.line]
            [decision] = await DECISIONS.all(view, "variant", VARIANT)
            states = {record.model: record.state for record in await MODELS.all(view, "variant", VARIANT)}
            account = await account_of(view, POLICY.budget)
            gates = {str(verdict.gate) for verdict in await VERDICTS.all(view, "variant", VARIANT)}
            output = {event.name: event for event in await view.read(0, 10)}
        assert step.decision is not None
        assert msgspec.structs.replace(decision, id="") == step.decision
        assert states == {step.line.champion: State.CHAMPION, step.line.previous: State.RETIRED}
        assert (account, account.promoted) == (step.account, 1)
        assert gates == {"evaluating", "distributing"}
        assert [(row.kind, row.state) for row in await world.jobs()] == [
            ("match", "cancelled"),
            ("match", "cancelled"),
            ("distribute", "ready"),
        ]
        assert {pipeline.Moved.name(), evaluation.Finished.name(), model.Promoted.name()} <= set(output)
        promoted = output[model.Promoted.name()]
        assert (promoted.cause, promoted.correlation, promoted.source) == (cause.id, cause.correlation, "pipeline")

    play(tmp_path, story)


def test_a_wait_keeps_its_beginning_in_the_store(tmp_path: Path) -> None:
    """A verdict that only moves its value is dated back to the first of its kind."""

    async def story(world: World) -> None:
        first = Verdict(gate="fill", allowed=False, rule="games", value=1, limit=9, since=100.0)
        later = msgspec.structs.replace(first, value=5, since=200.0)
        other = msgspec.structs.replace(first, allowed=True, value=9, since=300.0)
        actual = []
        for output in (first, later, other):
            async with world.store.begin() as tx:
                await save_verdicts(tx, VARIANT, (output,))
            async with world.store.read() as view:
                actual += await VERDICTS.all(view, "variant", VARIANT)

        assert [(verdict.value, verdict.since) for verdict in actual] == [(1, 100.0), (5, 100.0), (9, 300.0)]

    play(tmp_path, story)


def test_a_line_that_was_never_opened_is_none(tmp_path: Path) -> None:
    """Reading an unknown variant is no error."""

    async def story(world: World) -> None:
        async with world.store.begin() as tx:
            assert await LINES.get(tx, VARIANT) is None
            await save_line(tx, at(Stage.COLLECTING).line)
            assert (await LINES.get(tx, VARIANT)) == at(Stage.COLLECTING).line

    play(tmp_path, story)


def test_a_job_belongs_to_the_trace_of_its_cause(tmp_path: Path) -> None:
    """A batch leads to its copy, the copy to the export: one trace, carried by the jobs."""

    async def story(world: World) -> None:
        tale = at(Stage.COLLECTING, rounds=0)
        tale.fill()
        batch = result(tale.pop("play"))
        cause = world.envelope(batch)

        async with world.store.begin() as tx:
            step = advance(tale.line, batch, context_for(tale.line, POLICY, 50.0, tale.account))
            await carry_out(tx, step, cause, world.envelopes)

        [lease] = await world.desk().claim({"sync"}, 1)
        context = trace.from_text(lease.context)
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
def test_an_iteration_has_a_trace_of_its_own(job: Job, cause: str, begins: bool) -> None:
    """Otherwise the trace of a line that always has enough games, or always fails, would never end."""
    assert _begins_round([job], Envelope(id="e", name=cause, body=b"")) is begins
