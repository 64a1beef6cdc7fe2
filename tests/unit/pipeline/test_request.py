"""Asked out of turn, a line does what does no harm, passes no gate by, and always answers."""

import msgspec
import pytest

from ringrift.events.pipeline import Moved, Requested
from ringrift.jobs import Export, Sync
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import Line, Stage
from ringrift.pipeline.request import AFTER, GATE
from ringrift.pipeline.step import Step
from unit.pipeline.story import POLICY, VARIANT, Story, at, result

STAGES = [stage for stage in Stage if stage is not Stage.RESTING]


def ask(story: Story, stage: str) -> tuple[Step, Verdict]:
    """What follows from a request, and the answer to it."""
    step = story.tell(Requested(variant=VARIANT, stage=stage))
    [said] = [verdict for verdict in step.verdicts if verdict.gate == GATE]
    return step, said


def test_an_export_is_made_early_of_the_games_there_are() -> None:
    """While the line collects, one batch that was kept is enough for who asks; the window is exported as ever."""
    story = at(Stage.COLLECTING, rounds=0)
    story.play_batch()
    window = story.line.window

    step, said = ask(story, "export")

    [export] = step.jobs
    assert isinstance(export, Export)
    assert export.batches == tuple(batch.blob for batch in window)
    assert (step.line.stage, step.line.fresh, step.line.asked) == (Stage.EXPORTING, 0, export.key)
    assert step.events == (Moved(variant=VARIANT, stage="exporting", before="collecting"),)
    assert (said.allowed, said.value, said.limit) == (True, 10, 1)
    assert story.finish("export").line.stage is Stage.TRAINING


def test_nothing_is_exported_twice() -> None:
    """Without a game that is new since the last export there is nothing to export."""
    story = at(Stage.COLLECTING, rounds=1)
    assert (story.line.fresh, bool(story.line.window)) == (0, True)

    step, said = ask(story, "export")

    assert (step.line.stage, step.jobs) == (Stage.COLLECTING, ())
    assert (said.allowed, said.rule, said.value) == (False, "export: games kept since the last export", 0)


def test_batches_that_wait_are_copied_again() -> None:
    """Each pending batch is asked for once more under its own key, which a live job has already."""
    story = at(Stage.COLLECTING, rounds=0)
    story.fill()
    one, two = (story.tell(result(story.pop("play"))).jobs[0] for _ in range(2))

    step, said = ask(story, "sync")

    assert [job.key for job in step.jobs] == [one.key, two.key]
    assert all(isinstance(job, Sync) for job in step.jobs)
    assert (said.allowed, said.value) == (True, 2)


def test_a_line_without_waiting_batches_says_so() -> None:
    """There is nothing to copy."""
    step, said = ask(at(Stage.COLLECTING), "sync")

    assert (step.jobs, said.allowed, said.value) == ((), False, 0)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("wanted", ["train", "evaluate", "promote", "nonsense"])
def test_no_gate_is_passed_by(stage: Stage, wanted: str) -> None:
    """Training, matches and promotions follow from evidence alone: a request for them leaves the line as it is."""
    story = at(stage)
    before: Line = story.line

    step, said = ask(story, wanted)

    under_way = (stage, wanted) in ((Stage.TRAINING, "train"), (Stage.EVALUATING, "evaluate"))
    assert (step.line, step.jobs, step.events) == (before, (), ())
    assert said.allowed is under_way
    assert said.rule.startswith(f"{wanted}: ")


def test_a_request_for_promotion_shows_how_the_match_stands() -> None:
    """The answer is the sequential test's: its ratio against its bound."""
    story = at(Stage.EVALUATING)
    story.finish("match")

    _, said = ask(story, "promote")

    assert said.rule == "promote: only evidence promotes: likelihood ratio between the bounds"
    assert said.value > 0
    assert said.limit > 0
    assert not said.allowed


def test_a_candidate_on_its_way_shows_what_it_lacks() -> None:
    """Copied but not checked is one of two."""
    story = at(Stage.VERIFYING)
    story.finish("sync")

    _, said = ask(story, "evaluate")

    assert (said.allowed, said.value, said.limit) == (False, 1, 2)


def test_an_unknown_stage_names_those_there_are() -> None:
    """However long the word is that somebody said."""
    _, said = ask(at(Stage.COLLECTING), "x" * 10_000)

    assert len(said.rule) < 200
    assert all(stage in said.rule for stage in AFTER)


def test_a_resting_line_rests_on() -> None:
    """A request does not ask for more promotions than were asked for."""
    story = Story(msgspec.structs.replace(POLICY, iterations_max=1))
    story.go(Stage.RESTING)

    for wanted in AFTER:
        step, _ = ask(story, wanted)
        assert (step.line.stage, step.jobs) == (Stage.RESTING, ())
