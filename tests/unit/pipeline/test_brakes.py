"""Under a brake no champion pointer moves; the evidence stays, and the decision is made once when work resumes."""

from pathlib import Path

import pytest

from ringrift.daemons.fill import fill
from ringrift.daemons.pipeline import pipeline
from ringrift.events import evaluation, model
from ringrift.events.base import Event
from ringrift.events.pipeline import Moved, Requested
from ringrift.events.work import RunStateChanged
from ringrift.pipeline.line import Stage
from ringrift.pipeline.models import resolve
from ringrift.pipeline.operator import nominate, roll_back
from ringrift.pipeline.step import Step
from ringrift.work.limits import VERDICTS
from ringrift.work.run_states import _STATES, RunState, RunStates, set_run_state
from unit.pipeline.story import LOSS, POLICY, VARIANT, WIN, Story, at, result
from unit.pipeline.test_operator import actor, keep
from unit.pipeline.test_review import reviewed
from unit.work.world import World, play

BRAKES = tuple(state for state in _STATES if state != "running")
SCOPES = ("cluster", f"variant:{VARIANT}", "stage:promote")
OTHERS = ("node:n", "variant:hex8_3p", "stage:train", "stage:evaluate")
MATCHES = 3
"""Matches of two blocks that decide a test of which every game is won."""
MOVES = (model.Promoted, model.RolledBack, evaluation.Finished, evaluation.Reviewed)


def brake(story: Story, scope: str = "cluster", state: str = "paused", until: float | None = None) -> Step:
    """Set a brake and let the line read that."""
    row = RunState(scope=scope, state=state, reason="disk full", by="anna", since=story.at, until=until)
    story.run_states = RunStates(by_scope={scope: row})
    return story.publish(RunStateChanged(scope=scope, state=state, before="running"))


def resume(story: Story, scope: str = "cluster", state: str = "paused") -> Step:
    """Take every brake away and let the line read that."""
    story.run_states = RunStates()
    return story.publish(RunStateChanged(scope=scope, state="running", before=state))


def has_moved(step: Step) -> bool:
    """Whether *step* moves the champion pointer, or publishes a test as ended."""
    return any(isinstance(event, MOVES) for event in step.events) or step.decision is not None


def rule(step: Step, gate: str = "promote") -> tuple[bool, str]:
    """What *gate* answers in *step*."""
    [verdict] = [verdict for verdict in step.verdicts if verdict.gate == gate]
    return verdict.allowed, verdict.rule


def win(story: Story) -> Step:
    """Play the blocks that decide the test of the candidate."""
    for _ in range(MATCHES - 1):
        story.finish("match", WIN)
    return story.finish("match", WIN)


@pytest.mark.parametrize("state", BRAKES)
@pytest.mark.parametrize("scope", SCOPES)
def test_a_promotion_waits_with_its_evidence_and_happens_once(scope: str, state: str) -> None:
    """The verdict names the brake, the blocks stay, and after the resumption there is one promotion, on those."""
    story = at(Stage.EVALUATING)
    champion = story.line.champion
    assert story.line.candidate is not None
    candidate = story.line.candidate.model

    assert not has_moved(brake(story, scope, state))
    put_off = win(story)

    assert not has_moved(put_off)
    assert rule(put_off) == (False, f"{story.run_states.by_scope[scope]}")
    assert "disk full" in rule(put_off)[1]
    assert (story.line.champion, story.line.stage) == (champion, Stage.EVALUATING)

    step = resume(story, scope, state)

    assert [type(event) for event in step.events if isinstance(event, MOVES)] == [evaluation.Finished, model.Promoted]
    assert step.decision is not None
    assert step.decision.evidence is not None
    assert (step.decision.promoted, step.decision.evidence.blocks, len(step.evidence)) == (True, 5, 5)
    assert (story.line.champion, story.line.stage) == (candidate, Stage.DISTRIBUTING)
    assert rule(step)[0]
    assert not has_moved(resume(story, scope, state))


def test_late_blocks_of_a_test_that_is_put_off_change_nothing() -> None:
    """Results of matches that finish under a brake are recorded; the decision stays that of the first prefix."""
    story = at(Stage.EVALUATING)
    matches = [story.pop("match"), story.pop("match")]
    story.alive |= {job.key: job for job in matches}
    brake(story, state="draining")
    win(story)
    alive = len(story.alive)
    story.alive |= {matches[0].key: matches[0]}

    again = story.finish("match", LOSS)

    assert not has_moved(again)
    assert len(story.alive) == alive, "a test that is decided asks for no more blocks"
    assert has_moved(resume(story))
    assert story.line.stage is Stage.DISTRIBUTING


def test_the_first_promotion_waits_too() -> None:
    """Generation 0 is copied and checked under the brake, and becomes champion when work resumes."""
    story = Story().go(Stage.VERIFYING)
    brake(story, state="emergency")

    story.finish("sync")
    assert not has_moved(story.finish("verify"))
    assert story.line.champion is None
    step = resume(story, state="emergency")

    assert [type(event) for event in step.events if isinstance(event, MOVES)] == [model.Promoted]
    assert (story.line.generation, story.line.stage) == (0, Stage.DISTRIBUTING)


def test_the_loop_rolls_back_only_once_work_resumes() -> None:
    """A review that is lost waits with its blocks; afterwards the line goes back, and a candidate is rejected."""
    story = reviewed()
    champion, to = story.line.champion, story.line.ancestors[-2].model
    brake(story, state="stopped")

    story.finish("review", LOSS)
    assert not has_moved(story.finish("review", LOSS))
    assert story.line.champion == champion
    assert story.line.review is not None
    step = resume(story, state="stopped")

    assert [type(event) for event in step.events if isinstance(event, MOVES)] == [evaluation.Reviewed, model.RolledBack]
    assert (story.line.champion, story.line.review) == (to, None)
    assert not has_moved(resume(story))


def test_a_review_that_is_passed_ends_under_a_brake() -> None:
    """It moves no pointer."""
    story = reviewed()
    brake(story)

    story.finish("review", WIN)
    story.finish("review", WIN)

    assert story.line.review is None


def test_a_champion_that_failed_its_review_goes_before_its_challenger_is_promoted() -> None:
    """If both decisions wait, the line goes back first: the candidate has beaten a weak champion."""
    story = reviewed()
    to, reviews = story.line.ancestors[-2].model, [story.pop("review"), story.pop("review")]
    story.go(Stage.EVALUATING)
    brake(story)
    for job in reviews:
        story.publish(result(job, LOSS))
    win(story)

    resume(story)

    assert story.line.champion == to
    assert story.line.candidate is None


@pytest.mark.parametrize("scope", OTHERS)
def test_other_scopes_do_not_keep_a_line_from_promoting(scope: str) -> None:
    """A brake on a node, another variant or another stage binds the jobs there, not this pointer."""
    story = at(Stage.EVALUATING)
    brake(story, scope, "emergency")

    assert has_moved(win(story))


def test_a_brake_that_has_expired_does_not_bind() -> None:
    """Once its time is over, the next result decides, also before the record is removed."""
    story = at(Stage.EVALUATING)
    brake(story, until=story.at + 2.0)

    assert has_moved(win(story))


def test_a_rejection_is_no_move() -> None:
    """A candidate that lost is rejected under every brake."""
    story = at(Stage.EVALUATING)
    brake(story)

    story.finish("match", LOSS)
    step = story.finish("match", LOSS)

    assert [type(event) for event in step.events if isinstance(event, MOVES)] == [evaluation.Finished]
    assert story.line.candidate is None


def test_a_lost_champion_stays_until_work_resumes() -> None:
    """A training that fails for want of the champion ends the round; the next such failure rolls the line back."""
    story = at(Stage.TRAINING)
    champion = story.line.champion
    brake(story)

    step = story.bury("train", champion)

    assert not has_moved(step)
    assert not rule(step)[0]
    assert (story.line.champion, story.line.awaited_job is None) == (champion, False)
    assert story.line.stage in (Stage.COLLECTING, Stage.EXPORTING)
    resume(story)
    assert has_moved(story.bury("play", champion))
    assert story.line.champion != champion


def test_a_request_to_promote_names_the_brake() -> None:
    """The gate refuses, with the state, and nothing moves."""
    story = at(Stage.EVALUATING)
    brake(story)
    win(story)

    step = story.publish(Requested(variant=VARIANT, stage="promote"))

    assert not has_moved(step)
    assert rule(step, "requested") == (False, "promote: cluster is paused: disk full")


# -- with a store ---------------------------------------------------------------------------------------------------


async def react(world: World, event: Event) -> None:
    """Let the pipeline and fill react to *event*."""
    for daemon in (pipeline, fill):
        async with world.store.begin() as tx:
            await daemon(event, world.envelope(event), tx, policy=POLICY, envelopes=world.envelopes)


async def set_state(world: World, state: str, scope: str = "cluster") -> None:
    """Set the run state of *scope*, and let the daemons read that."""
    async with world.store.begin() as tx:
        await set_run_state(tx, world.envelopes, scope=scope, state=state, by="anna", now=world.clock.now())
    changes = await world.events(RunStateChanged)
    assert isinstance(changes[-1], RunStateChanged)
    await react(world, changes[-1])


async def verdicts(world: World) -> dict[str, bool]:
    """Whether each gate of the line is open."""
    async with world.store.read() as view:
        return {verdict.gate: verdict.allowed for verdict in await VERDICTS.all(view, "variant", VARIANT)}


@pytest.mark.parametrize("scope", SCOPES)
def test_the_daemon_promotes_once_after_a_brake(tmp_path: Path, scope: str) -> None:
    """From the stored run state to one stored promotion: under the brake the log has none."""

    async def story(world: World) -> None:
        scene = at(Stage.EVALUATING)
        await keep(world, scene)
        await set_state(world, "emergency", scope)
        for _ in range(MATCHES):
            scene.finish("match", WIN)
            await react(world, scene.events[-1])
        assert await world.events(model.Promoted) == []
        assert (await verdicts(world))["promote"] is False

        for _ in range(2):
            await set_state(world, "running", scope)

        assert len(await world.events(model.Promoted)) == 1
        assert (await verdicts(world))["promote"] is True

    play(tmp_path, story)


@pytest.mark.parametrize("scope", ["cluster", f"variant:{VARIANT}", "stage:selfplay"])
def test_fill_enqueues_nothing_under_a_brake(tmp_path: Path, scope: str) -> None:
    """It stores its verdict, and fills again by itself when work resumes."""

    async def story(world: World) -> None:
        await world.keep(at(Stage.COLLECTING).line)
        await set_state(world, "paused", scope)
        await react(world, Moved(variant=VARIANT, stage="collecting", before="distributing"))
        assert await world.jobs() == []
        assert (await verdicts(world))["fill"] is False

        await set_state(world, "running", scope)

        assert len(await world.jobs("ready")) == POLICY.play_jobs_open
        assert (await verdicts(world))["fill"] is True

    play(tmp_path, story)


def test_nothing_is_nominated_under_a_brake_but_a_person_may_roll_back(tmp_path: Path) -> None:
    """The nomination is refused with the brake's verdict; a bad champion can be taken away before work resumes."""

    async def story(world: World) -> None:
        scene = at(Stage.COLLECTING, rounds=2)
        await keep(world, scene)
        await set_state(world, "stopped")
        async with world.store.begin() as tx:
            match = await resolve(tx, scene.line.previous or "")
            verdict, step = await nominate(tx, match, policy=POLICY, actor=actor(world))
        assert (verdict.gate, verdict.allowed, verdict.rule, step) == ("promote", False, "cluster is stopped", None)

        async with world.store.begin() as tx:
            await roll_back(tx, VARIANT, None, "looks odd", policy=POLICY, actor=actor(world))

        assert (await world.line(VARIANT)).champion == scene.line.previous

    play(tmp_path, story)
