"""A lost model that turns up again is a candidate like every other."""

import pytest

from ringrift.events import model
from ringrift.pipeline.line import Stage
from ringrift.pipeline.models import State
from unit.pipeline.story import LOSS, VARIANT, WIN, Story, at


def returned(story: Story, blob: str, generation: int) -> model.Returned:
    """The event that *blob*, which was lost, is on a node again."""
    assert story.models[blob].state is State.LOST
    return model.Returned(variant=VARIANT, model=blob, node="n", generation=generation)


@pytest.mark.parametrize("scores", [WIN, LOSS])
def test_a_lost_champion_that_turns_up_is_tested_against_the_one_that_followed(scores: tuple[float, ...]) -> None:
    """It is copied, checked and matched; the gate alone decides whether it becomes champion again."""
    story = at(Stage.COLLECTING)
    champion, generation = story.line.champion, story.line.generation
    assert champion is not None
    story.bury("play", culprit=champion)
    story.go(Stage.COLLECTING)
    follower = story.line.champion

    story.publish(returned(story, champion, generation))
    assert story.line.stage is Stage.VERIFYING
    story.go(Stage.EVALUATING)
    while story.line.stage is Stage.EVALUATING:
        story.finish("match", scores)

    assert story.line.champion == (champion if scores == WIN else follower)
    assert story.models[champion].state is (State.CHAMPION if scores == WIN else State.REJECTED)


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage not in (Stage.COLLECTING, Stage.RESTING)])
def test_a_line_that_is_busy_goes_on_with_what_it_does(stage: Stage) -> None:
    """Another model that turns up meanwhile changes nothing; the daemon reports it again when the line has time."""
    story = at(stage)
    before = story.line

    step = story.publish(model.Returned(variant=VARIANT, model="f" * 64, node="n", generation=7))

    assert (step.line, step.jobs) == (before, ())


@pytest.mark.parametrize("generation", [None, 3])
def test_a_champion_that_answers_again_is_not_tested(generation: int | None) -> None:
    """It never ceased to be champion."""
    story = at(Stage.COLLECTING)
    champion = story.line.champion
    assert champion is not None
    before = story.line

    step = story.publish(model.Returned(variant=VARIANT, model=champion, node="n", generation=generation))

    assert (step.line, step.jobs) == (before, ())
