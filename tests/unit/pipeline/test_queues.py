"""A full queue holds back what would fill it further, the test of a candidate last, and its relief lets all through."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringrift.events.base import Event
from ringrift.events.pipeline import Requested
from ringrift.events.work import PressureChanged
from ringrift.jobs import Match
from ringrift.kernel.settings import Policy
from ringrift.kernel.value import changed
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.decide import decide
from ringrift.pipeline.line import Stage, check
from ringrift.pipeline.step import Step, context_for
from ringrift.work.pressure import _LEVELS, BOUNDS, QueuePressure, _rank
from unit.pipeline.story import POLICY, VARIANT, WIN, Story, at, label

REVIEWS = changed(POLICY, review_promotions=1)


class Pressed(Story):
    """A line under the pressure of its queues, decided as the daemon does."""

    def __init__(self, policy: Policy = POLICY) -> None:
        self.levels: dict[str, str] = {}
        super().__init__(policy)

    def decide(self, event: Event) -> Step:
        """Return the step that follows from *event*, through the whole chain."""
        context = context_for(self.line, self.policy, self.at, self.account)
        pressures = {queue: pressure(queue, level) for queue, level in self.levels.items()}
        return decide(self.line, event, changed(context, pressures=pressures))

    def press(self, queue: str, level: str) -> Step:
        """Let *queue* come to *level*."""
        before, self.levels[queue] = self.levels.get(queue, "none"), level
        return self.publish(PressureChanged(queue=queue, level=level, before=before, limit=100))

    def waiting(self) -> list[str]:
        """Return what the line holds back."""
        return [label(job) for job in self.line.manual_jobs]


def pressure(queue: str, level: str) -> QueuePressure:
    """Return a measured queue."""
    return QueuePressure(
        queue=queue, depth=9, drain_seconds=40_000.0, level=level, trend="rising", since=1.0, limit=36_000.0
    )


def pressed(step: Step) -> list[Verdict]:
    """Return the verdicts of the gate."""
    return [verdict for verdict in step.verdicts if verdict.gate == "pressure"]


def collecting(policy: Policy = POLICY) -> Pressed:
    """Return a line that lacks one batch for its next export."""
    story = Pressed(policy)
    story.go(Stage.COLLECTING).play_batch()
    return story


@pytest.mark.parametrize("level", _LEVELS)
def test_an_export_waits_only_while_its_queue_stops(level: str) -> None:
    """Below a stop it is asked for; at a stop the line holds it, with the reason, until the pressure falls."""
    story = collecting()
    story.press("export", level)

    step = story.play_batch()

    if level != "stop":
        assert (story.waiting(), pressed(step)[-1:]) == ([], [])
        assert "export" in story.labels()
        return
    [verdict] = pressed(step)
    assert not verdict.allowed
    assert verdict.rule == "the queue export is at stop, seconds until it is drained"
    assert (verdict.value, verdict.limit) == (40_000.0, 36_000.0)
    assert (story.waiting(), story.labels() - {"play"}) == (["export"], set())
    assert story.line.stage is Stage.EXPORTING

    relief = story.press("export", "critical")
    assert [label(job) for job in relief.jobs] == ["export"]
    assert [verdict.allowed for verdict in pressed(relief)] == [True]
    assert story.waiting() == []
    story.go(Stage.EVALUATING)


@pytest.mark.parametrize("queue", BOUNDS)
def test_other_queues_hold_no_export_back(queue: str) -> None:
    """An export makes room in the queue of training data: it must not wait for that."""
    story = collecting()
    story.press(queue, "stop")
    story.play_batch()

    assert story.waiting() == (["export"] if queue == "export" else [])


@pytest.mark.parametrize("queue", ["evaluation", "promotion"])
@pytest.mark.parametrize("level", _LEVELS)
def test_the_test_of_a_candidate_waits_last(queue: str, level: str) -> None:
    """Its matches wait only while their queue, or that of promotions, stops."""
    story = Pressed()
    story.go(Stage.COLLECTING).go(Stage.VERIFYING)
    story.press(queue, level)
    story.go(Stage.EVALUATING)

    is_stopped = level == "stop"
    assert ("match" in story.labels()) is not is_stopped
    assert story.waiting() == (["match"] * POLICY.match_jobs_open if is_stopped else [])
    story.press(queue, "none")
    story.go(Stage.DISTRIBUTING)


@pytest.mark.parametrize("level", _LEVELS)
def test_the_review_of_a_champion_waits_before_the_test_of_a_candidate(level: str) -> None:
    """It waits from a hard level on: nothing but certainty is lost meanwhile."""
    story = Pressed(REVIEWS)
    story.go(Stage.COLLECTING).go(Stage.DISTRIBUTING)
    story.press("evaluation", level)
    story.go(Stage.COLLECTING)

    assert ("review" in story.labels()) is (_rank(level) < _rank("hard"))
    story.press("evaluation", "medium")
    assert "review" in story.labels()


def test_a_started_test_asks_for_no_more_blocks_while_the_queue_stops() -> None:
    """Jobs that were asked for end and are counted; the next ones wait, and go when the pressure falls."""
    story = Pressed()
    story.go(Stage.COLLECTING).go(Stage.EVALUATING)
    story.press("evaluation", "stop")
    before = len([job for job in story.alive.values() if isinstance(job, Match)])

    step = story.finish("match", WIN)

    assert (len(step.jobs), story.waiting()) == (0, ["match"])
    assert story.line.candidate is not None
    assert story.line.candidate.challenge is not None
    assert len(story.line.candidate.challenge.blocks) == POLICY.blocks_per_job
    story.press("evaluation", "high")
    assert len([job for job in story.alive.values() if isinstance(job, Match)]) == before


def test_jobs_of_a_test_that_is_over_are_not_asked_for_any_more() -> None:
    """Held matches of a decided test go with it."""
    story = Pressed()
    story.go(Stage.COLLECTING).go(Stage.EVALUATING)
    story.press("evaluation", "stop")
    while story.line.stage is Stage.EVALUATING and "match" in story.labels():
        story.finish("match", (0.0, 0.0))
        if "match" not in story.labels():
            story.press("evaluation", "none")
            story.press("evaluation", "stop")

    assert story.line.stage is Stage.COLLECTING
    story.press("evaluation", "none")
    assert (story.waiting(), "match" in story.labels()) == ([], False)


def test_a_request_is_refused_while_the_queue_stops() -> None:
    """The answer names the queue, and nothing is asked for."""
    story = collecting()
    story.press("export", "stop")

    step = story.publish(Requested(variant=VARIANT, stage="export"))
    [answer] = [verdict for verdict in step.verdicts if verdict.gate == "requested"]

    assert (answer.allowed, answer.rule) == (
        False,
        "export: the queue export is at stop, seconds until it is drained",
    )
    assert (story.line.stage, "export" in story.labels()) == (Stage.COLLECTING, False)
    story.press("export", "none")
    story.publish(Requested(variant=VARIANT, stage="export"))
    assert "export" in story.labels()


def test_with_auto_trigger_off_relief_alone_starts_nothing() -> None:
    """A job that waits for an operator as well is asked for only on request."""
    story = collecting()
    story.press("export", "stop")
    story.play_batch()
    story.policy = changed(POLICY, auto=False)

    story.press("export", "none")
    assert (story.waiting(), "export" in story.labels()) == (["export"], False)
    story.publish(Requested(variant=VARIANT, stage="export"))
    assert "export" in story.labels()


STAGES = [Stage.COLLECTING, Stage.VERIFYING, Stage.EVALUATING, Stage.DISTRIBUTING]
CHANGES = st.tuples(st.sampled_from(["export", "evaluation", "promotion"]), st.sampled_from(["none", "hard", "stop"]))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(STAGES), CHANGES, st.lists(st.one_of(CHANGES, st.integers(1, 12)), max_size=12))
def test_no_pressure_deadlocks_the_loop(
    stage: Stage, first: tuple[str, str], moves: list[tuple[str, str] | int]
) -> None:
    """Whatever queues do, no job is lost: once they drain, the line comes to its next promotion."""
    story = Pressed(REVIEWS)
    story.go(Stage.COLLECTING).go(stage).press(*first)
    for move in [*moves, 12]:
        if isinstance(move, tuple):
            story.press(*move)
            continue
        for _ in range(move):
            story.fill()
            if story.alive:
                story.finish(label(next(iter(story.alive.values()))))
            check(story.line)
            assert not {job.key for job in story.line.manual_jobs} & set(story.alive)
    for queue in BOUNDS:
        story.press(queue, "none")

    assert story.waiting() == []
    iteration = story.line.iteration
    for _ in range(200):
        if story.line.iteration > iteration:
            return
        story.fill()
        story.finish(next(iter(label(job) for job in story.alive.values())))
    raise AssertionError("the loop stands still")


def test_a_line_at_rest_holds_nothing() -> None:
    """Without held jobs a change of pressure changes nothing."""
    line = at(Stage.COLLECTING).line
    context = context_for(line, POLICY, 5.0, Story().account)
    event = PressureChanged(queue="export", level="none", before="stop", limit=100)

    assert decide(line, event, context) == Step(line=line)
