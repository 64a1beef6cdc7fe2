"""Repeated, early and late events change nothing."""

import msgspec
import pytest

from ringrift.evaluation.budget import open_account
from ringrift.events import data, evaluation, model, pipeline, selfplay, training
from ringrift.events.base import Event
from ringrift.pipeline.line import Line, Stage
from ringrift.pipeline.machine import advance
from ringrift.pipeline.step import Step, context_for
from unit.pipeline.story import LOSS, POLICY, VARIANT, Story, at, blob, burial, result

ALWAYS_IN_TURN = (selfplay.BatchFinished, data.Synced)


def nothing_happened(step: Step, line: Line) -> bool:
    """Return whether the step left everything as it was; verdicts may give a reason."""
    return msgspec.structs.replace(step, verdicts=()) == Step(line=line)


def whole_round() -> Story:
    """A line that has been through every stage twice."""
    return at(Stage.DISTRIBUTING, rounds=2)


def test_every_repeated_event_counts_once() -> None:
    """At every step of two rounds the same event again leaves everything as the first one left it."""
    log = whole_round().events
    story, kinds = Story(), set()

    for event in log:
        story.publish(event)
        kinds.add(type(event))
        again = advance(story.line, event, context_for(story.line, POLICY, story.at + 1.0, story.account))
        assert nothing_happened(again, story.line), event

    assert kinds == {
        selfplay.BatchFinished,
        data.Synced,
        data.Exported,
        training.Finished,
        model.Verified,
        evaluation.BlocksPlayed,
        model.Distributed,
    }


def test_an_event_of_another_stage_changes_nothing() -> None:
    """In each stage only its own events count; the others of the same round are passed over."""
    log = whole_round().events
    own = {
        Stage.STARTING: training.Finished,
        Stage.EXPORTING: data.Exported,
        Stage.TRAINING: training.Finished,
        Stage.VERIFYING: model.Verified,
        Stage.EVALUATING: evaluation.BlocksPlayed,
        Stage.DISTRIBUTING: model.Distributed,
    }
    story = Story()

    for event in log:
        story.publish(event)
        for other in log:
            if not isinstance(other, (*ALWAYS_IN_TURN, own.get(story.line.stage, ()))):
                assert nothing_happened(
                    advance(story.line, other, context_for(story.line, POLICY, 99.0, story.account)), story.line
                )


def test_an_event_about_something_else_changes_nothing() -> None:
    """In its own stage, too, an event about another model moves nothing."""
    strange = blob("strange")
    cases: list[tuple[Stage, Event]] = [
        (Stage.STARTING, training.Finished(variant=VARIANT, model=strange, generation=1, node="n", parent=strange)),
        (Stage.TRAINING, training.Finished(variant=VARIANT, model=strange, generation=2, node="n", parent=strange)),
        (Stage.TRAINING, training.Finished(variant=VARIANT, model=strange, generation=0, node="n")),
        (Stage.VERIFYING, model.Verified(variant=VARIANT, model=strange, node="n")),
        (Stage.VERIFYING, data.Synced(variant=VARIANT, blob=strange, kind="model", nodes=("n",))),
        (Stage.DISTRIBUTING, model.Distributed(variant=VARIANT, model=strange, nodes=("n",))),
        (Stage.COLLECTING, data.Synced(variant=VARIANT, blob=strange, kind="games", nodes=("n",))),
    ]
    for stage, event in cases:
        line = at(stage).line

        assert nothing_happened(
            advance(line, event, context_for(line, POLICY, 99.0, open_account(POLICY.budget))), line
        ), (stage, event)


def test_opening_an_open_line_changes_nothing() -> None:
    """Repeated in any stage but rest, the opening has no effect."""
    story = Story()

    for event in whole_round().events:
        again = advance(
            story.line,
            pipeline.Opened(variant=VARIANT, workload="other"),
            context_for(story.line, POLICY, 99.0, story.account),
        )
        assert nothing_happened(again, story.line)
        story.publish(event)


def test_a_repeated_batch_counts_once() -> None:
    """A batch that is reported again, waiting or copied, is neither counted nor copied a second time."""
    story = at(Stage.COLLECTING)
    story.fill()
    batch = result(story.pop("play"))
    story.publish(batch)

    assert nothing_happened(
        advance(story.line, batch, context_for(story.line, POLICY, 99.0, story.account)), story.line
    )
    story.finish("sync")
    assert nothing_happened(
        advance(story.line, batch, context_for(story.line, POLICY, 99.0, story.account)), story.line
    )


def test_samples_of_an_earlier_export_change_nothing() -> None:
    """A late export of an earlier round does not replace the requested one."""
    story = at(Stage.EXPORTING, rounds=1)
    late = next(event for event in story.events if isinstance(event, data.Exported))

    assert nothing_happened(advance(story.line, late, context_for(story.line, POLICY, 99.0, story.account)), story.line)


def test_a_model_of_an_earlier_training_changes_nothing() -> None:
    """A rejected model whose training is reported again is no new candidate, although its parent is still champion."""
    story = at(Stage.EVALUATING, rounds=0)
    late = next(event for event in reversed(story.events) if isinstance(event, training.Finished))
    story.finish("match", LOSS)
    story.finish("match", LOSS)
    story.go(Stage.TRAINING)

    assert late.parent == story.line.champion
    assert nothing_happened(advance(story.line, late, context_for(story.line, POLICY, 99.0, story.account)), story.line)


@pytest.mark.parametrize(
    ("kind", "stage"), [("export", Stage.EXPORTING), ("train", Stage.TRAINING), ("distribute", Stage.DISTRIBUTING)]
)
def test_the_burial_of_an_earlier_job_changes_nothing(kind: str, stage: Stage) -> None:
    """A job of an earlier round that is buried late does not stop the round that is under way."""
    story = at(stage, rounds=1)
    [ours] = [job for job in story.alive.values() if job.kind() == kind]
    old = {"seed": 1} if kind != "distribute" else {"model": blob("an earlier champion")}
    late = burial(msgspec.structs.replace(ours, **old))

    assert nothing_happened(advance(story.line, late, context_for(story.line, POLICY, 99.0, story.account)), story.line)


def test_a_repeated_burial_of_an_export_counts_once() -> None:
    """A batch that cannot be replayed is taken out once; the second message does not stop the export without it."""
    story = at(Stage.COLLECTING, rounds=0)
    for _ in range(2):
        story.play_batch()
    story.go(Stage.TRAINING)
    for _ in range(3):
        story.play_batch()
    story.bury("train")
    assert story.line.stage is Stage.EXPORTING
    bad = burial(story.pop("export"), story.line.window[0].blob)
    story.publish(bad)
    assert story.line.stage is Stage.EXPORTING

    assert nothing_happened(advance(story.line, bad, context_for(story.line, POLICY, 99.0, story.account)), story.line)
