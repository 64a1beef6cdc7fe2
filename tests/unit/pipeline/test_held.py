"""With auto-trigger off a line goes on as ever, but each of its stages waits until somebody asks for it, and ends."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringrift.events import evaluation, model, pipeline
from ringrift.events.base import Event
from ringrift.events.pipeline import Requested
from ringrift.jobs import Play
from ringrift.kernel.settings import Policy
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.fill import may_play
from ringrift.pipeline.held import GATE, by_itself, held_back
from ringrift.pipeline.line import Line, Stage, check
from ringrift.pipeline.machine import advance, open_line
from ringrift.pipeline.request import AFTER
from ringrift.pipeline.request import GATE as ASKED
from ringrift.pipeline.step import Step
from unit.pipeline.story import LOSS, POLICY, VARIANT, Story, at, blob, result

OFF = msgspec.structs.replace(POLICY, auto=False)
WORDS = tuple(AFTER)


class ByHand(Story):
    """A line whose steps pass through what holds jobs back, as the daemon lets them."""

    def __init__(self, policy: Policy = OFF) -> None:
        super().__init__(policy)
        self.alive.clear()
        opened = pipeline.Opened(variant=VARIANT, workload="fake")
        self.settle(held_back(None, open_line(opened, policy, 0.0), opened, policy, 0.0))

    def tell(self, event: Event) -> Step:
        """Let *event* happen."""
        self.at += 1.0
        before = self.line
        step = advance(before, event, self.policy, self.at, self.account)
        step = held_back(before, step, event, self.policy, self.at)
        self.told.append(event)
        return self.settle(step)

    def settle(self, step: Step) -> Step:
        """Let *step* be taken, which only adds jobs that nobody holds."""
        self.line = step.line
        self.take(step)
        assert not {job.key for job in step.jobs} & {job.key for job in step.line.held}
        return step

    def ask(self, stage: str) -> Verdict:
        """Ask for *stage*; the answer."""
        step = self.tell(Requested(variant=VARIANT, stage=stage))
        [said] = [verdict for verdict in step.verdicts if verdict.gate == ASKED]
        return said

    def batch(self, number: int) -> None:
        """Let somebody play a batch elsewhere."""
        assert self.line.champion is not None
        job = Play(variant=VARIANT, model=self.line.champion, games=10, seed=number)
        self.tell(result(job))

    def finish_all(self, scores: tuple[float, ...] = (1.0, 1.0)) -> None:
        """End every job that is under way well, until none is."""
        for _ in range(200):
            if not self.alive:
                return
            self.finish(next(iter(self.alive)).split(":")[0], scores)
        raise AssertionError("it never ends")

    def first_champion(self) -> "ByHand":
        """Come to a champion of generation 0, every stage asked for."""
        for stage in ("train", "evaluate", "promote"):
            assert self.ask(stage).allowed
            self.finish_all()
        assert self.line.stage is Stage.COLLECTING
        return self

    def trained(self) -> "ByHand":
        """Come to a candidate that waits to be judged."""
        for number in range(2):
            self.batch(number)
        for stage in ("sync", "export", "train"):
            assert self.ask(stage).allowed
            self.finish_all()
        assert self.line.stage is Stage.VERIFYING
        return self


def automatic(step: Step) -> Verdict:
    """What the gate of auto-trigger says."""
    [said] = [verdict for verdict in step.verdicts if verdict.gate == GATE]
    return said


def test_an_opened_line_waits_to_be_asked() -> None:
    """The first job of a new line is kept in it, nothing is enqueued, and the verdict says what to ask for."""
    opened = pipeline.Opened(variant=VARIANT, workload="fake")

    step = held_back(None, open_line(opened, OFF, 3.0), opened, OFF, 3.0)

    assert step.jobs == ()
    assert [job.key for job in step.line.held] == [step.line.asked]
    assert step.line.stage is Stage.STARTING
    said = automatic(step)
    assert (said.allowed, said.rule) == (False, "auto-trigger is off: ask for train by hand")


def test_a_request_starts_one_stage_and_no_more() -> None:
    """Each stage of the whole loop is recorded when its turn comes, and waits for its own request."""
    story = ByHand().first_champion().trained()

    for stage, after in (("evaluate", Stage.DISTRIBUTING), ("promote", Stage.COLLECTING)):
        assert not story.alive
        others = [word for word in WORDS if word != stage]
        assert not any(story.ask(word).allowed for word in others)
        assert not story.alive
        assert story.ask(stage).allowed
        story.finish_all()
        assert story.line.stage is after
    assert (story.line.iteration, story.line.held) == (1, ())


def test_a_test_that_was_started_asks_for_its_further_blocks() -> None:
    """One request brings copy, check and every block of the match, to its decision."""
    story = ByHand().first_champion().trained()
    story.ask("evaluate")

    story.finish_all(LOSS)

    assert any(isinstance(event, evaluation.BlocksPlayed) for event in story.told)
    assert (story.line.stage, story.line.candidate) == (Stage.COLLECTING, None)


def test_what_was_buried_is_asked_for_again_by_itself() -> None:
    """The copy of a batch, an export without a bad batch and generation 0 go on after a burial."""
    story = ByHand()
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
    story = ByHand().first_champion()
    story.batch(1)
    story.ask("sync")

    story.batch(2)

    assert (len(story.alive), len(story.line.held)) == (1, 1)
    assert story.ask("sync").allowed
    assert (len(story.alive), story.line.held) == (2, ())


def test_promotion_is_never_passed_by() -> None:
    """Before the match is won a request for promotion changes nothing, whatever is held."""
    story = ByHand().first_champion().trained()
    before = story.line

    said = story.ask("promote")

    assert (said.allowed, story.line) == (False, before)


def test_switched_on_everything_that_was_held_goes() -> None:
    """The next event, such as the opening at the start of a node, lets all of it go."""
    story = ByHand().first_champion()
    story.batch(1)
    assert story.line.held
    story.policy = POLICY

    step = story.tell(pipeline.Opened(variant=VARIANT, workload="fake"))

    assert [job.kind() for job in step.jobs] == ["sync"]
    assert (step.line.held, automatic(step).allowed) == ((), True)


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.RESTING])
def test_switched_off_what_runs_goes_on_to_its_end(stage: Stage) -> None:
    """A stage that was begun with auto-trigger on ends; the one behind it waits."""
    begun = at(stage)
    story = ByHand()
    story.line, story.account, story.models = begun.line, begun.account, begun.models
    story.alive = {key: job for key, job in begun.alive.items() if job.kind() != "play"}

    story.finish_all()

    assert story.line.stage is not stage or stage is Stage.COLLECTING
    assert bool(story.line.held) == (story.line.stage is not Stage.COLLECTING)


def test_what_is_no_longer_wanted_is_held_no_longer() -> None:
    """A held match of a candidate that is gone can never be released."""
    story = ByHand().first_champion().trained()
    assert {job.kind() for job in story.line.held} == {"sync", "verify"}
    without = msgspec.structs.replace(story.line, stage=Stage.COLLECTING, candidate=None)

    step = held_back(story.line, Step(line=without), pipeline.Opened(variant=VARIANT, workload="fake"), OFF, 9.0)

    assert (step.line.held, step.jobs) == ((), ())


def test_nothing_is_played_by_itself() -> None:
    """Self-play waits too, and says why."""
    line = at(Stage.COLLECTING).line
    open_gate = may_play(line, POLICY, 1.0)

    said = by_itself(open_gate, OFF)

    assert open_gate.allowed
    assert by_itself(open_gate, POLICY) is open_gate
    assert (said.gate, said.allowed) == ("fill", False)
    assert "auto-trigger is off" in said.rule


def test_with_auto_trigger_on_a_step_is_what_it_was() -> None:
    """Nothing of a step changes, not even a verdict is added."""
    story = at(Stage.COLLECTING)
    event = model.Distributed(variant=VARIANT, model=blob("x"), nodes=())
    step = advance(story.line, event, POLICY, 1.0, story.account)

    assert held_back(story.line, step, event, POLICY, 1.0) is step


def test_a_line_written_before_is_still_read() -> None:
    """A record without held jobs is a line that holds none; one with some comes back as it was."""
    line = ByHand().line
    body = msgspec.json.decode(msgspec.json.encode(line))
    del body["held"]

    assert msgspec.json.decode(msgspec.json.encode(body), type=Line).held == ()
    assert msgspec.json.decode(msgspec.json.encode(line), type=Line) == line


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from([*WORDS, "batch", "finish", "lose", "bury"]), max_size=80))
def test_nothing_runs_that_nobody_asked_for(steps: list[str]) -> None:
    """In any order: jobs are new only where a stage was asked for or goes on, and the line never stands still: what it
    waits for is under way, or held for somebody to ask for."""
    story, batches = ByHand(), 0
    for what in steps:
        running = {job.kind() for job in story.alive.values()}
        if what in WORDS:
            story.ask(what)
        elif what == "batch" and story.line.champion is not None:
            batches += 1
            story.batch(batches)
            assert {job.kind() for job in story.alive.values()} == running
        elif story.alive and what in ("finish", "lose"):
            story.finish(next(iter(story.alive)).split(":")[0], LOSS if what == "lose" else (1.0, 1.0))
        elif story.alive and what == "bury":
            story.bury(next(iter(story.alive)).split(":")[0])
        check(story.line)
        story.alive |= {job.key: job for job in story.line.held}
        assert story.lives()
        for job in story.line.held:
            del story.alive[job.key]
