"""On an early request, a line does what does no harm, bypasses no gate, and always answers."""

import msgspec
import pytest

from ringrift.events.pipeline import Moved, Requested
from ringrift.jobs import Export, Sync
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import Line, Stage
from ringrift.pipeline.requests import STAGES as REQUESTABLE
from ringrift.pipeline.step import Step
from unit.pipeline.story import POLICY, VARIANT, Story, at, result

STAGES = [stage for stage in Stage if stage is not Stage.RESTING]


def request_stage(story: Story, stage: str) -> tuple[Step, Verdict]:
    """Return the step that follows from a request, and the answer to it."""
    step = story.publish(Requested(variant=VARIANT, stage=stage))
    [answer] = [verdict for verdict in step.verdicts if verdict.gate == "requested"]
    return step, answer


def test_a_request_exports_the_present_games_early() -> None:
    """While the line collects, one stored batch is enough for a request; the window is exported as usual."""
    story = at(Stage.COLLECTING, rounds=0)
    story.play_batch()
    window = story.line.window

    step, answer = request_stage(story, "export")

    [export] = step.jobs
    assert isinstance(export, Export)
    assert export.batches == tuple(batch.blob for batch in window)
    assert (step.line.stage, step.line.fresh, step.line.awaited_job) == (Stage.EXPORTING, 0, export.key)
    assert step.events == (Moved(variant=VARIANT, stage="exporting", before="collecting", requested=True),)
    assert (answer.allowed, answer.value, answer.limit) == (True, 10, 1)
    assert story.finish("export").line.stage is Stage.TRAINING


def test_nothing_is_exported_twice() -> None:
    """Without a game that is new since the last export there is nothing to export."""
    story = at(Stage.COLLECTING, rounds=1)
    assert (story.line.fresh, bool(story.line.window)) == (0, True)

    step, answer = request_stage(story, "export")

    assert (step.line.stage, step.jobs) == (Stage.COLLECTING, ())
    assert (answer.allowed, answer.rule, answer.value) == (False, "export: games kept since the last export", 0)


def test_pending_batches_are_copied_again() -> None:
    """Each pending batch is enqueued once more under its own key, which a live job has already."""
    story = at(Stage.COLLECTING, rounds=0)
    story.fill()
    one, two = (story.publish(result(story.pop("play"))).jobs[0] for _ in range(2))

    step, answer = request_stage(story, "sync")

    assert [job.key for job in step.jobs] == [one.key, two.key]
    assert all(isinstance(job, Sync) for job in step.jobs)
    assert (answer.allowed, answer.value) == (True, 2)


def test_a_line_without_pending_batches_refuses() -> None:
    """There is nothing to copy."""
    step, answer = request_stage(at(Stage.COLLECTING), "sync")

    assert (step.jobs, answer.allowed, answer.value) == ((), False, 0)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("expected", ["train", "evaluate", "promote", "nonsense"])
def test_no_gate_is_passed_by(stage: Stage, expected: str) -> None:
    """Training, matches and promotions follow from evidence alone: a request for them leaves the line as it is."""
    story = at(stage)
    before: Line = story.line

    step, answer = request_stage(story, expected)

    under_way = (stage, expected) in ((Stage.TRAINING, "train"), (Stage.EVALUATING, "evaluate"))
    assert (step.line, step.jobs, step.events) == (before, (), ())
    assert answer.allowed is under_way
    assert answer.rule.startswith(f"{expected}: ")


def test_a_request_for_promotion_shows_how_the_match_stands() -> None:
    """The answer is the sequential test's: its ratio against its bound."""
    story = at(Stage.EVALUATING)
    story.finish("match")

    _, answer = request_stage(story, "promote")

    assert answer.rule == "promote: only evidence promotes: likelihood ratio between the bounds"
    assert answer.value > 0
    assert answer.limit > 0
    assert not answer.allowed


def test_an_unfinished_candidate_shows_its_missing_steps() -> None:
    """Copied but not checked is one of two."""
    story = at(Stage.VERIFYING)
    story.finish("sync")

    _, answer = request_stage(story, "evaluate")

    assert (answer.allowed, answer.value, answer.limit) == (False, 1, 2)


def test_an_unknown_stage_lists_the_valid_ones() -> None:
    """This holds for a name of any length."""
    _, answer = request_stage(at(Stage.COLLECTING), "x" * 10_000)

    assert len(answer.rule) < 200
    assert all(stage in answer.rule for stage in REQUESTABLE)


def test_a_resting_line_stays_at_rest() -> None:
    """A request does not raise the number of requested promotions."""
    story = Story(msgspec.structs.replace(POLICY, iterations_max=1))
    story.go(Stage.RESTING)

    for stage in REQUESTABLE:
        step, _ = request_stage(story, stage)
        assert (step.line.stage, step.jobs) == (Stage.RESTING, ())
