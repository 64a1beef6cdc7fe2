"""A stage that was asked for is over when the loop says so, or when one of its jobs will never be done."""

import pytest

from ringrift.events import data, evaluation, model, pipeline
from ringrift.events.base import Event
from ringrift.jobs import Export, Sync
from ringrift.pipeline.ended import ENDS, Awaited, Ended, awaited, heard
from ringrift.pipeline.line import Stage
from unit.pipeline.story import VARIANT, at, blob, burial, result

OTHER = "square8_2p"
MODEL = blob("model")
REJECTED = model.Rejected(variant=VARIANT, model=MODEL, reason="verify failed: exit 13")
PROMOTED = model.Promoted(variant=VARIANT, model=MODEL, generation=0)
FINISHED = evaluation.Finished(
    variant=VARIANT, candidate=MODEL, champion=blob("c"), blocks=8, score=0.4, elo=-70.0, promoted=False
)  # fmt: skip
SENT = model.Distributed(variant=VARIANT, model=MODEL, nodes=("n",))


def made(stage: str) -> Event:
    """What the job of *stage* says in the end."""
    story = at(Stage.EXPORTING if stage == "export" else Stage.TRAINING)
    return result(story.pop(stage))


@pytest.mark.parametrize("stage", ["export", "train"])
def test_what_a_job_makes_ends_its_stage(stage: str) -> None:
    """The stage has then made a blob."""
    event = made(stage)

    _, end = heard(Awaited(stage=stage, variant=VARIANT), event)

    assert end is not None
    assert (end.event, end.error) == (event, "")
    assert end.blob == getattr(event, "samples" if stage == "export" else "model")
    assert heard(Awaited(stage=stage, variant=OTHER), event)[1] is None


@pytest.mark.parametrize(
    ("stage", "event", "error"),
    [("evaluate", FINISHED, ""), ("evaluate", PROMOTED, ""), ("evaluate", REJECTED, "verify failed: exit 13"),
     ("promote", SENT, "")],
)  # fmt: skip
def test_decisions_end_the_stages_behind_training(stage: str, event: Event, error: str) -> None:
    """A decision ends the evaluation however it went; only what could not be judged has failed."""
    _, end = heard(Awaited(stage=stage, variant=VARIANT), event)

    assert end is not None
    assert (end.error, end.blob) == (error, MODEL)


def test_a_stage_that_the_line_left_otherwise_has_failed() -> None:
    """Going back to the start ends an evaluation, leaving the champion's way ends a promotion, both badly."""
    back = pipeline.Moved(variant=VARIANT, stage="starting", before="verifying")
    gone = pipeline.Moved(variant=VARIANT, stage="collecting", before="distributing")

    for stage, event in (("evaluate", back), ("promote", gone)):
        _, end = heard(Awaited(stage=stage, variant=VARIANT), event)
        assert end is not None
        assert end.error


def test_copies_are_over_with_the_last_batch() -> None:
    """Those of other batches do not count; a batch that is lost is a failure."""
    story = at(Stage.COLLECTING)
    story.fill()
    one, two = (story.tell(result(story.pop("play"))).jobs[0] for _ in range(2))
    assert isinstance(one, Sync)
    assert isinstance(two, Sync)
    waits = awaited(story.line, "sync")
    assert waits.blobs == {one.blob, two.blob}

    left, end = heard(waits, result(one))
    assert end is None
    assert heard(left, result(one)) == (left, None)
    assert heard(left, burial(one)) == (left, None)
    assert heard(left, result(two))[1] == Ended(event=result(two), blob=two.blob)
    lost = heard(left, data.Lost(variant=VARIANT, blob=two.blob, reason="no copy"))[1]
    assert lost is not None
    assert "no copy" in lost.error


def test_a_burial_ends_the_stage_of_its_job_alone() -> None:
    """The error is that of the job; who waits for another stage goes on waiting."""
    buried = burial(Export(variant=VARIANT, batches=(), seed=1))

    assert heard(Awaited(stage="export", variant=VARIANT), buried)[1] == Ended(error="exit 13")
    assert heard(Awaited(stage="train", variant=VARIANT), buried)[1] is None
    assert {type(buried), type(made("export"))} <= set(ENDS)
