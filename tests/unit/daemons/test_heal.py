"""The healer takes one step after the other, in order and with rests, within budgets, and beside no other healer."""

from pathlib import Path

import msgspec
import pytest

from ringrift.cluster import alerts, daemon_commands
from ringrift.cluster.alerts import Alert
from ringrift.cluster.recovery import ERRORS, RECOVERIES, STEPS_PER_HOUR_MAX, ErrorReport
from ringrift.daemons.heal import heal
from ringrift.events.daemon import CommandIssued
from ringrift.events.health import RecoveryFinished, RecoveryStarted
from ringrift.events.node import Quarantined
from ringrift.events.work import RunStateChanged
from ringrift.kernel.errors import NotLeader
from ringrift.kernel.verdict import Verdict
from ringrift.work.limits import QUARANTINES
from unit.daemons.heal_rig import FAILED, REST, STEP, WELL, Rig
from unit.work.world import World, play


def test_a_daemon_that_keeps_failing_gets_its_steps_in_order_and_then_a_person_is_asked_once(tmp_path: Path) -> None:
    """Two restarts with rests between them, each an event and a verdict, then an alert, and then nothing more."""

    async def story(world: World) -> None:
        rig, subject = Rig(world), "daemon:n1/rate"
        rig.daemons["n1"] = (*WELL, FAILED)
        await rig.look(REST - STEP)
        assert await rig.steps() == []
        assert await rig.rules() == [f"heal {subject}: rests, next: restart_daemon: given up: no disk"]
        await rig.look(STEP)
        assert (await rig.steps(), await rig.commands()) == ([f"{subject} restart_daemon"], ["clear n1/rate"])
        await rig.run_commands()
        await rig.look(REST + STEP)
        await rig.run_commands()
        assert await rig.steps() == [f"{subject} restart_daemon"] * 2
        assert await rig.outcomes() == [("restart_daemon", False)]
        await rig.look(5 * REST)
        assert await rig.steps() == [f"{subject} restart_daemon"] * 2 + [f"{subject} ask_person"]
        assert await rig.commands() == ["clear n1/rate"] * 2
        assert await rig.rules() == [f"heal {subject}: a person was asked: given up: no disk"]
        rig.daemons["n1"] = WELL
        await rig.look(REST + STEP)
        assert await rig.outcomes() == [("restart_daemon", False)] * 2 + [("ask_person", True)]
        assert await rig.rules() == []
        async with world.store.read() as view:
            assert await RECOVERIES.all(view) == []

    play(tmp_path, story)


def test_a_step_that_helps_ends_the_recovery(tmp_path: Path) -> None:
    """Once the daemon has been well for the rest, the step helped; a later failure begins at the bottom."""

    async def story(world: World) -> None:
        rig = Rig(world)
        rig.daemons["n1"] = (*WELL, FAILED)
        await rig.look(REST)
        await rig.run_commands()
        rig.daemons["n1"] = WELL
        await rig.look(REST - STEP)
        assert await rig.outcomes() == []
        await rig.look(2 * STEP)
        assert await rig.outcomes() == [("restart_daemon", True)]
        rig.daemons["n1"] = (*WELL, FAILED)
        await rig.look(REST + STEP)
        assert await rig.steps() == ["daemon:n1/rate restart_daemon"] * 2

    play(tmp_path, story)


def test_a_node_whose_jobs_all_fail_gets_no_new_jobs_for_a_rest_and_then_one_that_decides(tmp_path: Path) -> None:
    """First its work daemon is restarted, then it is paused; its results are not in doubt; it ends with a person."""

    async def story(world: World) -> None:
        rig = Rig(world)
        rig.daemons["n2"] = WELL
        await rig.open_breaker("node:n2")
        await rig.look(REST)
        await rig.run_commands()
        assert (await rig.commands(), await rig.state("n2")) == (["restart n2/work"], None)
        await rig.look(REST + STEP)
        assert await rig.steps() == ["node:n2 restart_daemon", "node:n2 quarantine_node"]
        state = await rig.state("n2")
        assert state is not None
        assert (state.scope, state.state, state.by) == ("node:n2", "paused", "heal")
        assert (state.reason, state.until) == ("its jobs fail: no gpu", None)
        assert await rig.state("n1") is None
        await rig.look(REST - STEP)
        assert (await rig.state("n2"), (await rig.steps())[2:]) == (state, [])
        await rig.look(STEP)
        assert await rig.state("n2") is None
        await rig.look(REST - STEP)
        assert (await rig.steps())[2:] == []
        await rig.look(3 * REST)
        assert (await rig.steps())[2:] == ["node:n2 ask_person"]
        assert await rig.state("n2") is None
        assert await world.events(Quarantined) == []

    play(tmp_path, story)


@pytest.mark.parametrize("is_tried", [False, True])
def test_a_quarantine_ends_when_the_node_works_again(tmp_path: Path, is_tried: bool) -> None:
    """The job that decides succeeds, or one that ran before the quarantine: the node runs, and the step helped."""

    async def story(world: World) -> None:
        rig = Rig(world)
        rig.daemons["n2"] = WELL
        await rig.open_breaker("node:n2")
        await rig.look(REST)
        await rig.run_commands()
        await rig.look(REST + STEP)
        if is_tried:
            await rig.look(REST + STEP)
        assert (await rig.state("n2") is None) is is_tried
        await rig.close_breaker("node:n2")
        await rig.look(REST + STEP)
        assert await rig.state("n2") is None
        assert await rig.outcomes() == [("restart_daemon", False), ("quarantine_node", True)]
        changes = [event for event in await world.events(RunStateChanged) if isinstance(event, RunStateChanged)]
        assert [(change.scope, change.state) for change in changes] == [("node:n2", "paused"), ("node:n2", "running")]

    play(tmp_path, story)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_brake_that_a_person_set_on_a_node_stays(tmp_path: Path, is_late: bool) -> None:
    """The healer waits behind it, and does not end it when the node is well; it ends only a pause of its own."""

    async def story(world: World) -> None:
        rig = Rig(world)
        rig.daemons["n2"] = WELL
        await rig.open_breaker("node:n2")
        await rig.look(REST)
        await rig.run_commands()
        if is_late:
            await rig.look(REST + STEP)
        await rig.brake("stopped", scope="node:n2")
        before = await rig.state("n2")
        await rig.look(3 * REST)
        assert await rig.state("n2") == before
        if not is_late:
            assert await rig.steps() == ["node:n2 restart_daemon"]
            assert await rig.rules() == ["heal node:n2: node:n2 is stopped (by anna)"]
        await rig.close_breaker("node:n2")
        await rig.look(3 * REST)
        assert await rig.state("n2") == before

    play(tmp_path, story)


@pytest.mark.parametrize("other", ["none", "failing too", "paused by a person", "quarantined by trust"])
def test_the_last_node_that_works_is_not_quarantined(tmp_path: Path, other: str) -> None:
    """Without another healthy node nothing would go on; and one that trust has quarantined has that rung behind it."""

    async def story(world: World) -> None:
        rig = Rig(world)
        await rig.open_breaker("node:n1")
        if other == "failing too":
            rig.daemons["n2"] = WELL
            await rig.open_breaker("node:n2")
        if other == "paused by a person":
            rig.daemons["n2"] = WELL
            await rig.brake("paused", scope="node:n2")
        if other == "quarantined by trust":
            rig.daemons["n2"] = WELL
            async with world.store.begin() as tx:
                verdict = Verdict(gate="trust", allowed=False, rule="wrong canaries", value=1, limit=0)
                await QUARANTINES.put_at(tx, {"n1": verdict})
        await rig.look(REST)
        await rig.run_commands()
        await rig.look(3 * REST)
        own = [step for step in await rig.steps() if step.startswith("node:n1")]
        assert own == ["node:n1 restart_daemon", "node:n1 ask_person"]
        assert await rig.state("n1") is None

    play(tmp_path, story)


def test_two_healers_never_act_on_one_thing(tmp_path: Path) -> None:
    """The healer waits for a person's command that is under way, and leaves daemons that the supervisor restarts."""

    async def story(world: World) -> None:
        rig = Rig(world)
        pausing = msgspec.structs.replace(FAILED, name="fill", state="pausing")
        rig.daemons["n1"] = (*WELL, FAILED, pausing)
        async with world.store.begin() as tx:
            command = CommandIssued(daemon="rate", node="n1", action="clear", by="anna")
            await daemon_commands.issue(tx, world.envelopes, command)
        await rig.look(2 * REST)
        assert (await rig.steps(), await rig.commands()) == ([], ["clear n1/rate"])
        assert await rig.rules() == ["heal daemon:n1/rate: a command to rate on n1 is under way"]
        await rig.run_commands()
        await rig.look(STEP)
        assert await rig.steps() == ["daemon:n1/rate restart_daemon"]
        with pytest.raises(NotLeader):
            await _heal_without_the_role(rig)

    play(tmp_path, story)


async def _heal_without_the_role(rig: Rig) -> None:
    roles = await rig.world.roles("other", ())
    await heal(
        store=rig.world.store,
        roster=rig.world.roster,
        roles=roles,
        envelopes=rig.world.envelopes,
        clock=rig.world.clock,
        settings=rig.settings,
        memory=rig.memory,
    )


def test_a_node_that_runs_no_commands_cannot_restart_its_daemons(tmp_path: Path) -> None:
    """The rung is left out and a person is asked."""

    async def story(world: World) -> None:
        rig = Rig(world)
        rig.daemons["n1"] = (*WELL[:2], FAILED)
        await rig.look(REST)
        assert (await rig.steps(), await rig.commands()) == (["daemon:n1/rate ask_person"], [])

    play(tmp_path, story)


def test_buried_jobs_and_reported_errors_end_with_a_person(tmp_path: Path) -> None:
    """The desk has retried the job with a new child already; a component that reports errors is nobody's to restart."""

    async def story(world: World) -> None:
        rig = Rig(world)
        async with world.store.begin() as tx:
            buried = Alert(kind="work_buried", subject="hex8_2p/train", level="warning", detail="no loss")
            await alerts.apply(tx, [buried], world.clock.now())
            for number in range(3):
                report = {"component": "trainer", "error": "no loss", "severity": "error", "node": "n1"}
                await ERRORS.put(
                    tx, [ErrorReport(id=str(number), time=world.clock.now(), tick=world.clock.tick(), **report)]
                )
        await rig.look(REST)
        assert sorted(await rig.steps()) == ["component:trainer ask_person", "job:hex8_2p/train ask_person"]

    play(tmp_path, story)


def test_steps_in_all_have_a_budget(tmp_path: Path) -> None:
    """Of many failing daemons only so many are restarted in an hour; the others wait, and say so."""

    async def story(world: World) -> None:
        rig, count = Rig(world), STEPS_PER_HOUR_MAX + 3
        many = [msgspec.structs.replace(FAILED, name=f"d{number:02}") for number in range(count)]
        rig.daemons["n1"] = (*WELL, *many)
        await rig.look(REST)
        assert len(await rig.commands()) == STEPS_PER_HOUR_MAX
        assert sum("steps in the last hour" in rule for rule in await rig.rules()) == 3
        await rig.look(3600.0)
        assert len(await rig.commands()) > STEPS_PER_HOUR_MAX

    play(tmp_path, story)


def test_a_healthy_system_writes_nothing(tmp_path: Path) -> None:
    """No event, no verdict, no record in an hour of looks."""

    async def story(world: World) -> None:
        rig = Rig(world)
        await rig.look(3600.0)
        assert await world.events(RecoveryStarted, RecoveryFinished, CommandIssued, RunStateChanged, Quarantined) == []
        assert await rig.rules() == []

    play(tmp_path, story)
