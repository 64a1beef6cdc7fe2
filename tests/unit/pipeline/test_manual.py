"""With auto-trigger off a line goes on as usual, but each of its stages waits for a request, and ends."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringrift.evaluation.budget import open_account
from ringrift.events import evaluation, model, pipeline
from ringrift.events.base import Event
from ringrift.events.pipeline import Requested
from ringrift.jobs import Play
from ringrift.kernel.settings import Policy
from ringrift.kernel.value import changed
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.decide import decide
from ringrift.pipeline.line import Line, Stage, check, may_play
from ringrift.pipeline.machine import advance, new_line
from ringrift.pipeline.requests import STAGES, hold, require_auto
from ringrift.pipeline.step import Step, context_for
from unit.pipeline.story import LOSS, POLICY, VARIANT, Story, at, blob, label, result

OFF = msgspec.structs.replace(POLICY, auto=False)
WORDS = tuple(STAGES)


class Manual(Story):
    """A line whose steps pass through what holds jobs back, as the daemon lets them."""

    def __init__(self, policy: Policy = OFF) -> None:
        super().__init__(policy)

    def decide(self, event: Event) -> Step:
        """Return the step that follows from *event*, with auto-trigger as in the policy."""
        step = decide(self.line, event, context_for(self.line, self.policy, self.at, self.account))
        assert not {job.key for job in step.jobs} & {job.key for job in step.line.manual_jobs}
        return step

    def ask(self, stage: str) -> Verdict:
        """Ask for *stage*; the answer."""
        step = self.publish(Requested(variant=VARIANT, stage=stage))
        return next(verdict for verdict in step.verdicts if verdict.gate == "requested")

    def batch(self, number: int) -> None:
        """Let another node play a batch."""
        assert self.line.champion is not None
        job = Play(variant=VARIANT, model=self.line.champion, games=10, seed=number)
        self.publish(result(job))

    def finish_all(self, scores: tuple[float, ...] = (1.0, 1.0)) -> None:
        """End every job that is under way well, until none is."""
        for _ in range(200):
            if not self.alive:
                return
            self.finish(label(next(iter(self.alive.values()))), scores)
        raise AssertionError("it never ends")

    def first_champion(self) -> "Manual":
        """Promote generation 0 with a request for every stage."""
        for stage in ("train", "evaluate", "promote"):
            assert self.ask(stage).allowed
            self.finish_all()
        assert self.line.stage is Stage.COLLECTING
        return self

    def trained(self) -> "Manual":
        """Come to a candidate that waits to be judged."""
        for number in range(2):
            self.batch(number)
        for stage in ("sync", "export", "train"):
            assert self.ask(stage).allowed
            self.finish_all()
        assert self.line.stage is Stage.VERIFYING
        return self


def automatic(step: Step) -> Verdict:
    """Return the verdict of the auto-trigger gate."""
    [verdict] = [verdict for verdict in step.verdicts if verdict.gate == "automatic"]
    return verdict


def test_an_opened_line_waits_for_a_request() -> None:
    """The first job of a new line is held in it, nothing is enqueued, and the verdict names the request."""
    opened = pipeline.Opened(variant=VARIANT, workload="fake")
    line = new_line(opened)

    step = decide(line, opened, context_for(line, OFF, 3.0, open_account(OFF.budget)))

    assert step.jobs == ()
    assert [job.key for job in step.line.manual_jobs] == [step.line.awaited_job]
    assert step.line.stage is Stage.STARTING
    verdict = automatic(step)
    assert (verdict.allowed, verdict.rule) == (False, "auto-trigger is off: request train to go on")


def test_a_request_starts_one_stage_and_no_more() -> None:
    """Each stage of the whole loop is recorded when its turn comes, and waits for its own request."""
    story = Manual().first_champion().trained()

    for stage, after in (("evaluate", Stage.DISTRIBUTING), ("promote", Stage.COLLECTING)):
        assert not story.alive
        others = [word for word in WORDS if word != stage]
        assert not any(story.ask(word).allowed for word in others)
        assert not story.alive
        assert story.ask(stage).allowed
        story.finish_all()
        assert story.line.stage is after
    assert (story.line.iteration, story.line.manual_jobs) == (1, ())


def test_a_started_test_enqueues_its_further_blocks() -> None:
    """One request brings copy, check and every block of the match, to its decision."""
    story = Manual().first_champion().trained()
    story.ask("evaluate")

    story.finish_all(LOSS)

    assert any(isinstance(event, evaluation.BlocksPlayed) for event in story.events)
    assert (story.line.stage, story.line.candidate) == (Stage.COLLECTING, None)


def test_buried_jobs_are_enqueued_again_without_auto_trigger() -> None:
    """The copy of a batch, an export without a bad batch and generation 0 go on after a burial."""
    story = Manual()
    story.ask("train")
    assert [job.kind() for job in story.bury("train").jobs] == ["train"]
    story.finish_all()
    for stage in ("evaluate", "promote"):
        story.ask(stage)
        story.finish_all()
    for number in range(3):
        story.batch(number)
    story.ask("sync")
    assert [job.kind() for job in story.bury("sync").jobs] == ["sync"]
    story.finish_all()
    story.ask("export")

    again = story.bury("export", story.line.window[0].blob)

    assert [job.kind() for job in again.jobs] == ["export"]


def test_a_batch_that_comes_later_waits_for_its_own_request() -> None:
    """Copies that run take no further batch with them."""
    story = Manual().first_champion()
    story.batch(1)
    story.ask("sync")

    story.batch(2)

    assert (len(story.alive), len(story.line.manual_jobs)) == (1, 1)
    assert story.ask("sync").allowed
    assert (len(story.alive), story.line.manual_jobs) == (2, ())


def test_a_request_never_bypasses_the_promotion_gate() -> None:
    """Before the match is won a request for promotion changes nothing, whatever is held."""
    story = Manual().first_champion().trained()
    before = story.line

    answer = story.ask("promote")

    assert (answer.allowed, story.line) == (False, before)


def test_switched_on_everything_that_was_held_goes() -> None:
    """The next event, such as the opening at the start of a node, lets all of it go."""
    story = Manual().first_champion()
    story.batch(1)
    assert story.line.manual_jobs
    story.policy = POLICY

    step = story.publish(pipeline.Opened(variant=VARIANT, workload="fake"))

    assert [job.kind() for job in step.jobs] == ["sync"]
    assert (step.line.manual_jobs, automatic(step).allowed) == ((), True)


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.RESTING])
def test_running_stages_end_after_auto_trigger_is_switched_off(stage: Stage) -> None:
    """A stage that was begun with auto-trigger on ends; the next one waits."""
    begun = at(stage)
    story = Manual()
    story.line, story.account, story.models = begun.line, begun.account, begun.models
    story.alive = {key: job for key, job in begun.alive.items() if job.kind() != "play"}

    story.finish_all()

    assert story.line.stage is not stage or stage is Stage.COLLECTING
    assert bool(story.line.manual_jobs) == (story.line.stage is not Stage.COLLECTING)


def test_an_obsolete_stage_is_no_longer_held() -> None:
    """A held match of a candidate that is gone can never be released."""
    story = Manual().first_champion().trained()
    assert {job.kind() for job in story.line.manual_jobs} == {"sync", "verify"}
    without = msgspec.structs.replace(story.line, stage=Stage.COLLECTING, candidate=None)

    context = changed(context_for(story.line, OFF, 9.0, story.account), step=Step(line=without))
    step = hold(story.line, pipeline.Opened(variant=VARIANT, workload="fake"), context)

    assert (step.line.manual_jobs, step.jobs) == ((), ())


def test_self_play_waits_without_auto_trigger() -> None:
    """Self-play waits too, with a verdict."""
    line = at(Stage.COLLECTING).line
    open_gate = may_play(line, POLICY, 1.0)

    closed = require_auto(open_gate, OFF)

    assert open_gate.allowed
    assert require_auto(open_gate, POLICY) is open_gate
    assert (closed.gate, closed.allowed) == ("fill", False)
    assert "auto-trigger is off" in closed.rule


def test_auto_trigger_leaves_a_step_unchanged() -> None:
    """Nothing of a step changes, not even a verdict is added."""
    story = at(Stage.COLLECTING)
    event = model.Distributed(variant=VARIANT, model=blob("x"), nodes=())
    step = advance(story.line, event, context_for(story.line, POLICY, 1.0, story.account))

    context = context_for(story.line, POLICY, 1.0, story.account)
    assert hold(story.line, event, changed(context, step=step)) is step


def test_a_line_written_before_is_still_read() -> None:
    """A record without held jobs is a line that holds none; one with some comes back as it was."""
    line = Manual().line
    body = msgspec.json.decode(msgspec.json.encode(line))
    del body["manual_jobs"]

    assert msgspec.json.decode(msgspec.json.encode(body), type=Line).manual_jobs == ()
    assert msgspec.json.decode(msgspec.json.encode(line), type=Line) == line


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from([*WORDS, "batch", "finish", "lose", "bury"]), max_size=80))
def test_nothing_runs_without_a_request(steps: list[str]) -> None:
    """In any order: jobs are new only where a stage was requested or goes on, and the line never stands still: what it
    waits for is under way, or held for a request."""
    story, batches = Manual(), 0
    for what in steps:
        running = {job.kind() for job in story.alive.values()}
        if what in WORDS:
            story.ask(what)
        elif what == "batch" and story.line.champion is not None:
            batches += 1
            story.batch(batches)
            assert {job.kind() for job in story.alive.values()} == running
        elif story.alive and what in ("finish", "lose"):
            story.finish(label(next(iter(story.alive.values()))), LOSS if what == "lose" else (1.0, 1.0))
        elif story.alive and what == "bury":
            story.bury(label(next(iter(story.alive.values()))))
        check(story.line)
        story.alive |= {job.key: job for job in story.line.manual_jobs}
        assert story.lives()
        for job in story.line.manual_jobs:
            del story.alive[job.key]
