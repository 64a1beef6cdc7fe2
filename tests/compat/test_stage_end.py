"""A requested stage ends with its event, or when one of its jobs will never be done."""

import pytest

from ringrift.events import data, evaluation, model, pipeline
from ringrift.events.base import Event
from ringrift.jobs import Export, Sync
from ringrift.pipeline.line import Stage
from ringrift_compat.pipeline.stage_end import END_EVENTS, StageEnd, StageWait, observe, stage_wait
from unit.pipeline.story import VARIANT, at, blob, burial, result

OTHER = "square8_2p"
MODEL = blob("model")
REJECTED = model.Rejected(variant=VARIANT, model=MODEL, reason="verify failed: exit 13")
PROMOTED = model.Promoted(variant=VARIANT, model=MODEL, generation=0)
FINISHED = evaluation.Finished(
    variant=VARIANT, candidate=MODEL, champion=blob("c"), blocks=8, score=0.4, elo=-70.0, promoted=False
)
SENT = model.Distributed(variant=VARIANT, model=MODEL, nodes=("n",))


def made(stage: str) -> Event:
    """Return the final event of the job of *stage*."""
    story = at(Stage.EXPORTING if stage == "export" else Stage.TRAINING)
    return result(story.pop(stage))


@pytest.mark.parametrize("stage", ["export", "train"])
def test_the_output_of_a_job_ends_its_stage(stage: str) -> None:
    """The stage has then made a blob."""
    event = made(stage)

    _, end = observe(StageWait(stage=stage, variant=VARIANT), event)

    assert end is not None
    assert (end.event, end.error) == (event, "")
    assert end.blob == getattr(event, "samples" if stage == "export" else "model")
    assert observe(StageWait(stage=stage, variant=OTHER), event)[1] is None


@pytest.mark.parametrize(
    ("stage", "event", "error"),
    [
        ("evaluate", FINISHED, ""),
        ("evaluate", PROMOTED, ""),
        ("evaluate", REJECTED, "verify failed: exit 13"),
        ("promote", SENT, ""),
    ],
)
def test_decisions_end_the_stages_after_training(stage: str, event: Event, error: str) -> None:
    """A decision ends the evaluation either way; only an undecidable one has failed."""
    _, end = observe(StageWait(stage=stage, variant=VARIANT), event)

    assert end is not None
    assert (end.error, end.blob) == (error, MODEL)


def test_a_stage_that_the_line_left_otherwise_has_failed() -> None:
    """Going back to the start ends an evaluation, leaving the champion's way ends a promotion, both badly."""
    back = pipeline.Moved(variant=VARIANT, stage="starting", before="verifying")
    left = pipeline.Moved(variant=VARIANT, stage="collecting", before="distributing")

    for stage, event in (("evaluate", back), ("promote", left)):
        _, end = observe(StageWait(stage=stage, variant=VARIANT), event)
        assert end is not None
        assert end.error


def test_copies_are_over_with_the_last_batch() -> None:
    """Those of other batches do not count; a batch that is lost is a failure."""
    story = at(Stage.COLLECTING)
    story.fill()
    first, second = (story.publish(result(story.pop("play"))).jobs[0] for _ in range(2))
    assert isinstance(first, Sync)
    assert isinstance(second, Sync)
    waits = stage_wait(story.line, "sync")
    assert set(waits.copies) == {first.blob, second.blob}

    left, end = observe(waits, result(first))
    assert end is None
    assert observe(left, result(first)) == (left, None)
    assert observe(left, burial(first)) == (left, None)
    assert observe(left, result(second))[1] == StageEnd(event=result(second), blob=second.blob)
    lost = observe(left, data.Lost(variant=VARIANT, blob=second.blob, reason="no copy"))[1]
    assert lost is not None
    assert "no copy" in lost.error


def test_a_burial_ends_the_stage_of_its_job_alone() -> None:
    """The error is that of the job; waiters for another stage go on waiting."""
    buried = burial(Export(variant=VARIANT, batches=(), seed=1))

    assert observe(StageWait(stage="export", variant=VARIANT), buried)[1] == StageEnd(error="exit 13")
    assert observe(StageWait(stage="train", variant=VARIANT), buried)[1] is None
    assert {type(buried), type(made("export"))} <= set(END_EVENTS)
