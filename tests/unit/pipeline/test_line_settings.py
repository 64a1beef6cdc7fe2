"""The settings of a line: who writes them, who uses them, and which lines rest while a run works on others."""

from pathlib import Path

import pytest

from ringrift.daemons.fill import fill
from ringrift.daemons.pipeline import pipeline
from ringrift.daemons.rate import _due
from ringrift.events import evaluation, model
from ringrift.events.pipeline import Opened
from ringrift.events.work import RunStateChanged
from ringrift.kernel.settings import Policy, Settings
from ringrift.kernel.value import changed
from ringrift.pipeline.line import Line, Stage
from ringrift.pipeline.line_settings import (
    LINE_SETTINGS,
    LineSettings,
    end_rest,
    lines_in_force,
    open_lines,
    own_settings,
    policy_of,
)
from ringrift.pipeline.step import Step
from ringrift.work.limits import VERDICTS
from ringrift.work.run_states import BY_RUN, RunState, RunStates, load_run_states, set_run_state
from unit.pipeline.story import LOSS, POLICY, VARIANT, WIN, Story, at
from unit.work.world import World, play

OTHER = "square8_2p"
OWN = own_settings(Settings().overlaid({"work.workload": "mine", "work.params": {"sims": 7}, "policy.seed": 3}))
CHESS = LineSettings(workload="other", params={"lr": 0.1}, policy=Policy(games_per_export=9), baselines=("random",))
MOVES = (model.Promoted, model.Rejected, model.RolledBack, evaluation.Finished, evaluation.Reviewed)


async def opened(world: World, lines: dict[str, LineSettings], *, alone: bool) -> dict[str, LineSettings]:
    """Open a store with a line of each workload; the settings of its lines."""
    for variant, workload in ((VARIANT, "mine"), (OTHER, "other")):
        await world.keep(Line(variant=variant, workload=workload, players=2))
    await open_lines(world.store, world.envelopes, world.clock.now(), OWN, lines, alone=alone)
    async with world.store.read() as view:
        return await LINE_SETTINGS.scan(view)


def test_a_node_settles_the_lines_of_its_workload_alone(tmp_path: Path) -> None:
    """A line of another workload, from before there were records, gets its own workload and none of our parameters."""

    async def story(world: World) -> None:
        rows = await opened(world, {}, alone=False)

        assert rows[VARIANT] == OWN
        assert (rows[OTHER].workload, rows[OTHER].params, rows[OTHER].baselines) == ("other", {}, None)
        async with world.store.read() as view:
            assert (await load_run_states(view)).by_scope == {}
            assert len(await lines_in_force(view, world.clock.now())) == 2

    play(tmp_path, story)


def test_a_run_settles_its_lines_and_lets_the_others_rest(tmp_path: Path) -> None:
    """The rest is a pause with a reason that says how to go on; it is over when the run is, or another opens them."""

    async def story(world: World) -> None:
        rows, now = await opened(world, {OTHER: CHESS}, alone=True), world.clock.now()

        assert rows[OTHER] == CHESS
        async with world.store.read() as view:
            [state] = (await load_run_states(view)).in_force(now)
            assert [line.variant for line in await lines_in_force(view, now)] == [OTHER]
            assert await _due(view, now) == []
        assert (state.scope, state.state, state.by) == (f"variant:{VARIANT}", "paused", BY_RUN)
        assert state.reason == f'this run works on {OTHER}; "ringrift run --variants {VARIANT}" goes on with it'
        await open_lines(world.store, world.envelopes, now, OWN, {VARIANT: OWN}, alone=True)
        async with world.store.read() as view:
            assert [state.scope for state in (await load_run_states(view)).in_force(now)] == [f"variant:{OTHER}"]
        await end_rest(world.store, world.envelopes, now)
        async with world.store.read() as view:
            assert (await load_run_states(view)).by_scope == {}

    play(tmp_path, story)


def test_a_run_never_ends_a_pause_of_a_person(tmp_path: Path) -> None:
    """Neither of its own variants nor of those that rest, at its beginning or its end."""

    async def story(world: World) -> None:
        now = world.clock.now()
        async with world.store.begin() as tx:
            for variant in (VARIANT, OTHER):
                scope = f"variant:{variant}"
                await set_run_state(tx, world.envelopes, now=now, scope=scope, state="stopped", by="anna")
        await opened(world, {OTHER: CHESS}, alone=True)
        await end_rest(world.store, world.envelopes, now)

        async with world.store.read() as view:
            states = (await load_run_states(view)).in_force(now)
        assert [(state.state, state.by) for state in states] == [("stopped", "anna")] * 2

    play(tmp_path, story)


def test_a_node_leaves_what_a_run_found_out(tmp_path: Path) -> None:
    """A node does not look at what variants declare: it keeps the baselines that a run has stored."""

    async def story(world: World) -> None:
        await opened(world, {VARIANT: changed(OWN, baselines=("weak", "strong"))}, alone=True)

        rows = await opened(world, {}, alone=False)

        assert rows[VARIANT].baselines == ("weak", "strong")

    play(tmp_path, story)


def test_daemons_use_the_policy_of_the_line(tmp_path: Path) -> None:
    """Not that of their process, but for whether stages start by themselves, which the process decides."""

    async def story(world: World) -> None:
        line = at(Stage.COLLECTING).line
        await world.keep(line)
        own = LineSettings(workload="fake", policy=changed(POLICY, games_per_batch=77, play_jobs_open=3))
        async with world.store.begin() as tx:
            await LINE_SETTINGS.put_at(tx, {VARIANT: own})
        event = Opened(variant=VARIANT, workload="fake")
        async with world.store.begin() as tx:
            await fill(event, world.envelope(event), tx, policy=POLICY, envelopes=world.envelopes)
            assert (await policy_of(tx, VARIANT, changed(POLICY, auto=False))).auto is False
            assert await policy_of(tx, OTHER, POLICY) == POLICY

        assert [b'"games":77' in row.body for row in await world.jobs("ready")] == [True] * 3

    play(tmp_path, story)


def test_a_line_that_nobody_settled_gets_the_settings_of_the_coordinator(tmp_path: Path) -> None:
    """When it is opened, with the workload of the request; a second request changes nothing."""

    async def story(world: World) -> None:
        for workload, policy in (("mine", POLICY), ("fake", Policy())):
            event = Opened(variant=VARIANT, workload=workload)
            async with world.store.begin() as tx:
                await pipeline(event, world.envelope(event), tx, policy=policy, envelopes=world.envelopes)

        async with world.store.read() as view:
            assert await LINE_SETTINGS.get(view, VARIANT) == LineSettings(workload="mine", policy=POLICY)

    play(tmp_path, story)


def rest(story: Story) -> Step:
    """Let the line rest, as a run does that works on others."""
    row = RunState(scope=f"variant:{VARIANT}", state="paused", by=BY_RUN, reason="this run works on x", since=story.at)
    story.run_states = RunStates(by_scope={row.scope: row})
    return story.publish(RunStateChanged(scope=row.scope, state="paused", before="running"))


def wake(story: Story) -> Step:
    """End the rest."""
    story.run_states = RunStates()
    return story.publish(RunStateChanged(scope=f"variant:{VARIANT}", state="running", before="paused"))


@pytest.mark.parametrize(("scores", "promoted"), [(WIN, True), (LOSS, False)])
def test_a_line_at_rest_records_evidence_and_decides_nothing(scores: tuple[float, ...], promoted: bool) -> None:
    """Results that were under way are kept, whichever way they point; when it wakes, they decide, once."""
    story = at(Stage.EVALUATING)
    champion = story.line.champion
    rest(story)

    for _ in range(4):
        if "match" in story.labels():
            step = story.finish("match", scores)
            assert step.decision is None
            assert not any(isinstance(event, MOVES) for event in step.events)
    assert (story.line.champion, story.line.stage) == (champion, Stage.EVALUATING)
    step = wake(story)

    assert step.decision is not None
    assert step.decision.promoted is promoted
    assert not [event for event in wake(story).events if isinstance(event, MOVES)]


@pytest.mark.parametrize("kind", ["verify", "sync"])
def test_a_candidate_at_rest_is_not_rejected(kind: str) -> None:
    """Even if its own job is given up because of it: the job is asked for again, for the run that works on the line."""
    story = at(Stage.VERIFYING, rounds=0)
    candidate = story.line.candidate
    assert candidate is not None
    rest(story)

    step = story.bury(kind, candidate.model, "refused")

    assert (step.line.candidate, step.decision, [job.kind() for job in step.jobs]) == (candidate, None, [kind])
    wake(story)
    assert story.bury(kind, candidate.model, "refused").decision is not None


def test_games_of_a_line_at_rest_are_not_lost() -> None:
    """A batch that was under way is counted, and its copy is asked for, which waits in the queue."""
    story = at(Stage.COLLECTING)
    story.fill()
    rest(story)

    step = story.finish("play")

    assert [job.kind() for job in step.jobs] == ["sync"]
    assert step.line.counts.batches == story.line.counts.batches
    assert len(step.line.pending) == 1


def test_fill_says_why_a_line_at_rest_does_not_play(tmp_path: Path) -> None:
    """The verdict that ``why`` prints is that of the rest."""

    async def story(world: World) -> None:
        await world.keep(at(Stage.COLLECTING).line)
        await open_lines(world.store, world.envelopes, world.clock.now(), OWN, {OTHER: CHESS}, alone=True)
        event = RunStateChanged(scope=f"variant:{VARIANT}", state="paused", before="running")
        async with world.store.begin() as tx:
            await fill(event, world.envelope(event), tx, policy=POLICY, envelopes=world.envelopes)
            verdict = await VERDICTS.get(tx, f"{VARIANT}:fill")

        assert verdict is not None
        assert (verdict.allowed, await world.jobs("ready")) == (False, [])
        assert f"this run works on {OTHER}" in verdict.rule

    play(tmp_path, story)
