"""The healer pauses the loop while health is critical, resumes what it paused, and obeys people and settings."""

from pathlib import Path

import pytest

from ringrift.cluster.recovery import ERRORS, RECOVERIES, ErrorReport
from ringrift.events.daemon import CommandIssued
from ringrift.events.health import RecoveryFinished, RecoveryStarted
from ringrift.events.node import Quarantined
from ringrift.events.work import RunStateChanged
from ringrift.kernel.health import Health, Status
from ringrift.supervision.status import DaemonStatus
from unit.daemons.heal_rig import FAILED, PAUSE, REST, RESUME, STEP, WELL, Rig
from unit.work.world import World, play


@pytest.mark.parametrize("mode", ["advise", "off"])
def test_a_dry_run_changes_nothing_and_says_what_it_would_do(tmp_path: Path, mode: str) -> None:
    """No step, no command, no brake; with advise the verdicts say what would be done, with off there are none."""

    async def story(world: World) -> None:
        rig = Rig(world, mode)
        rig.daemons = {"n1": (*WELL, FAILED), "n2": WELL, "n3": WELL}
        await rig.look(STEP)
        await make_critical(rig)
        await rig.look(2 * REST)
        assert await world.events(RecoveryStarted, RecoveryFinished, CommandIssued, Quarantined, RunStateChanged) == []
        assert await rig.state() is None
        async with world.store.read() as view:
            assert await RECOVERIES.all(view) == []
        rules = await rig.rules()
        if mode == "off":
            assert rules == []
        else:
            assert any("would pause the loop (cluster.heal = advise)" in rule for rule in rules)
            assert any(rule.startswith("heal daemon:n1/rate: would restart_daemon") for rule in rules)

    play(tmp_path, story)


async def make_critical(rig: Rig) -> None:
    """Most of the nodes are silent, and no training works."""
    rig.silent = {"n2", "n3"}
    await rig.open_breaker("stage:train")


async def make_good(rig: Rig) -> None:
    rig.silent = set()
    await rig.close_breaker("stage:train")


def test_the_loop_pauses_while_health_is_critical_and_resumes_by_itself(tmp_path: Path) -> None:
    """Only once it has stayed so for its time; the reason names the issues; it resumes two minutes after the end."""

    async def story(world: World) -> None:
        rig = Rig(world)
        rig.daemons |= {"n2": WELL, "n3": WELL}
        await rig.look(2 * STEP)
        await make_critical(rig)
        await rig.look(PAUSE - STEP)
        assert await rig.state() is None
        await rig.look(PAUSE)
        state = await rig.state()
        assert state is not None
        assert (state.state, state.by) == ("paused", "heal")
        assert "the health score is 0.39" in state.reason
        assert "breakers/stage:train: open: no gpu" in state.reason
        await rig.look(5 * RESUME)
        assert await rig.state() == state
        await make_good(rig)
        await rig.look(RESUME - STEP)
        assert await rig.state() == state
        await rig.look(2 * STEP)
        assert await rig.state() is None
        changes = [event for event in await world.events(RunStateChanged) if isinstance(event, RunStateChanged)]
        assert [(change.state, change.by) for change in changes] == [("paused", "heal"), ("running", "heal")]

    play(tmp_path, story)


def test_a_loop_that_has_just_started_is_not_paused(tmp_path: Path) -> None:
    """Until every part was measured once the score says nothing, however bad the parts are that were."""

    async def story(world: World) -> None:
        rig = Rig(world)
        starting = Health(part="beat", status=Status.UNKNOWN, reason="not ready yet")
        rig.daemons["n1"] = (DaemonStatus(name="beat", health=starting, state="starting"),)
        await rig.open_breaker("stage:train")
        for number in range(20):
            async with world.store.begin() as tx:
                report = {"component": f"c{number}", "error": "no", "severity": "error", "node": "n1"}
                await ERRORS.put(
                    tx, [ErrorReport(id=str(number), time=world.clock.now(), tick=world.clock.tick(), **report)]
                )
        await rig.look(3 * PAUSE)
        assert await rig.state() is None
        rig.daemons["n1"] = WELL
        await rig.look(PAUSE + STEP)
        state = await rig.state()
        assert state is not None
        assert state.by == "heal"

    play(tmp_path, story)


@pytest.mark.parametrize("state", ["paused", "draining", "emergency", "stopped"])
def test_a_brake_that_a_person_set_stays(tmp_path: Path, state: str) -> None:
    """Neither critical health nor good health changes it."""

    async def story(world: World) -> None:
        rig = Rig(world)
        rig.daemons |= {"n2": WELL, "n3": WELL}
        await rig.look(2 * STEP)
        await rig.brake(state)
        before = await rig.state()
        await make_critical(rig)
        await rig.look(3 * PAUSE)
        assert await rig.state() == before
        await make_good(rig)
        await rig.look(3 * RESUME)
        assert await rig.state() == before

    play(tmp_path, story)


def test_a_person_who_resumes_overrules_the_healer_until_health_is_good_again(tmp_path: Path) -> None:
    """The pause does not come back while the same trouble goes on; the next trouble pauses again."""

    async def story(world: World) -> None:
        rig = Rig(world)
        rig.daemons |= {"n2": WELL, "n3": WELL}
        await rig.look(2 * STEP)
        await make_critical(rig)
        await rig.look(2 * PAUSE)
        assert await rig.state() is not None
        await rig.brake("running")
        await rig.look(4 * PAUSE)
        assert await rig.state() is None
        await make_good(rig)
        await rig.look(2 * RESUME)
        await make_critical(rig)
        await rig.look(3 * PAUSE)
        assert await rig.state() is not None

    play(tmp_path, story)
