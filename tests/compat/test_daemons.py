"""The documented daemon manager: what it says it started runs, on the whole node of this program."""

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from compat.ears import home, on_a_loop
from compat.guests import FIRST, LONG, SECOND, for_ever, quick, until
from ringrift.daemons import DAEMONS
from ringrift.kernel.errors import SettingsError, SupervisionError, UnknownName
from ringrift.kernel.settings import PROFILES
from ringrift.supervision.supervisor import Supervisor
from ringrift.work.limits import KINDS
from ringrift_compat.ambient import ambient
from ringrift_compat.daemon_duties import DUTIES, LOOPS_OFF
from ringrift_compat.daemon_figures import DaemonLifecycleManager, DaemonMetrics, get_all_daemon_stats, get_daemon_stats
from ringrift_compat.daemon_manager import DaemonManager, get_daemon_manager
from ringrift_compat.daemon_registry import get_profile_daemons
from ringrift_compat.daemon_types import DaemonState, DaemonType
from ringrift_compat.hosting import ALWAYS, hosted

__all__ = ["home"]


def supervisor() -> Supervisor:
    """That of this program's node."""
    whole = hosted(ambient.node())
    assert whole is not None
    return whole.supervisor


def kinds() -> frozenset[str]:
    """Of which kinds this program's node takes jobs."""
    whole = hosted(ambient.node())
    assert whole is not None
    return whole.runner.kinds


@pytest.mark.parametrize("profile", PROFILES)
def test_finding_7_every_profile_starts_and_reports_only_what_runs(profile: str) -> None:
    """Whatever is reported as started is a daemon of the supervisor that runs, and nothing else runs."""
    manager = quick()
    started = asyncio.run(manager.start_all(profile=profile))
    states = {report.name: report.state for report in supervisor().reports()}
    status = manager.get_status()

    assert kinds() == KINDS[profile]
    assert set(started) == set(get_profile_daemons(profile))
    assert all(started.values())
    assert {kind for kind, info in status.items() if info.is_running} >= set(started)
    wanted = {daemon.name for daemon in DAEMONS if profile in daemon.profiles} | set(ALWAYS)
    assert {name for name, state in states.items() if state == "running"} == wanted
    assert {info.duty for info in status.values() if DUTIES[info.daemon_type.name].kind == "daemon"} == wanted
    assert all(asyncio.run(manager.shutdown()).values())
    assert {report.name for report in supervisor().reports() if report.state == "running"} == set(ALWAYS)
    going_on = {kind for kind in started if manager.is_running(kind)}
    assert {kind for kind in going_on if DUTIES[kind.name].kind == "daemon"} <= {DaemonType(name) for name in ALWAYS}


def test_a_part_of_every_node_starts_and_does_not_stop() -> None:
    """Starting the router is true, and stopping it false with a reason; nothing else was opened for it."""
    manager = quick()

    assert asyncio.run(manager.start(DaemonType.EVENT_ROUTER)) is True
    assert hosted(ambient.node()) is None
    assert asyncio.run(manager.stop(DaemonType.EVENT_ROUTER)) is False
    assert "a part of every node" in manager.get_daemon_status(DaemonType.EVENT_ROUTER).reason
    assert manager.is_running(DaemonType.EVENT_ROUTER)
    assert asyncio.run(manager.start(DaemonType.DAEMON_WATCHDOG))
    assert asyncio.run(manager.stop(DaemonType.BEAT)) is False
    assert manager.is_running(DaemonType.BEAT)


@pytest.mark.parametrize("kind", ["DISTILLATION", "HEALTH_SERVER", "NODE_RECOVERY"])
def test_what_is_not_built_does_not_start(kind: str) -> None:
    """The answer is no, the reason is in its info and its health, and it counts as nothing that runs."""
    manager = quick()

    assert asyncio.run(manager.start(DaemonType[kind])) is False
    info = manager.get_daemon_status(kind.lower())
    assert (info.state, info.is_running) == (DaemonState.IMPORT_FAILED, False)
    assert info.reason == info.import_error == DUTIES[kind].target
    assert manager.get_all_daemon_health()[DaemonType[kind]]["healthy"] is False
    assert asyncio.run(manager.start_all(types=[kind.lower(), DaemonType.EVENT_ROUTER])) == {
        DaemonType.EVENT_ROUTER: True, DaemonType[kind]: False,
    }  # fmt: skip


def test_nobody_is_shown_whom_nobody_touched() -> None:
    """The status has what was started or registered or runs; all else is known to be stopped when asked for."""
    manager = quick()
    assert manager.get_status() == {}
    manager.register_factory(FIRST, for_ever)
    asyncio.run(manager.start(DaemonType.AUTO_SYNC))

    assert set(manager.get_status()) == {FIRST, DaemonType.AUTO_SYNC, *(DaemonType(name) for name in ALWAYS)}
    assert manager.get_daemon_status(DaemonType.DATA_PIPELINE).state is DaemonState.STOPPED
    assert not manager.is_running(DaemonType.DATA_PIPELINE)
    assert manager.get_status()[FIRST].state is DaemonState.STOPPED
    assert list(manager.get_daemons_by_category()) == ["core", "sync", "other"]


def test_names_for_one_daemon_share_it() -> None:
    """It runs under each of them, and ends with the last that was started by its name."""
    manager = quick()

    async def story() -> None:
        assert await manager.start(DaemonType.EVALUATION)
        assert await manager.start(DaemonType.AUTO_PROMOTION)
        assert manager.is_running(DaemonType.DATA_PIPELINE), "the duty is done, whoever asked for it"
        assert await manager.stop(DaemonType.EVALUATION)
        assert not manager.is_running(DaemonType.EVALUATION)
        assert "goes on for auto_promotion" in manager.get_daemon_status(DaemonType.EVALUATION).reason
        assert supervisor().report("pipeline").state == "running"
        assert await manager.stop(DaemonType.AUTO_PROMOTION)
        assert supervisor().report("pipeline").state == "stopped"
        await manager.start_all(profile="coordinator")
        assert await manager.stop(DaemonType.TRAINING_TRIGGER), "what only a profile started gives way"
        assert supervisor().report("pipeline").state == "stopped"
        assert not manager.is_running(DaemonType.DATA_PIPELINE)
        assert await manager.restart(DaemonType.DATA_PIPELINE)
        assert manager.is_running(DaemonType.DATA_PIPELINE)

    asyncio.run(story())


def test_calls_work_without_a_loop_on_one_and_in_threads() -> None:
    """Every plain call answers outside a loop, inside one, in a thread, and on the loop of the node itself."""
    manager = quick()
    found: list[object] = []

    def look() -> None:
        found.append(
            (manager.is_running(DaemonType.AUTO_SYNC), bool(manager.liveness_probe()), len(manager.get_status()))
        )

    async def looks() -> None:
        look()

    asyncio.run(manager.start(DaemonType.AUTO_SYNC))
    look()
    asyncio.run(looks())
    thread = threading.Thread(target=look)
    thread.start()
    thread.join(LONG)
    ambient.call(looks())

    assert found == [found[0]] * 4
    assert found[0][:2] == (True, True)  # type: ignore[index]  # it is what look() put there


def test_probes_are_true_only_when_true() -> None:
    """Nothing started is alive but not ready; an unhealthy critical daemon is neither, with its name."""
    manager = quick(auto_restart_failed=False)

    async def story() -> None:
        assert manager.liveness_probe()
        assert not manager.readiness_probe()
        assert manager.readiness_probe().reasons == ("nobody has started a daemon",)

        async def crashes() -> None:
            raise ValueError("no")

        manager.register_factory(FIRST, for_ever, critical=True)
        manager.register_factory(SECOND, crashes)
        assert await manager.start(FIRST)
        assert not await manager.start(SECOND)
        assert manager.liveness_probe()
        assert manager.readiness_probe(), "it is not critical"
        probe = manager.liveness_probe()
        assert (probe["alive"], probe.get("nothing", 7)) == (True, 7)
        assert probe.uptime_seconds >= 0.0
        assert probe.timestamp > 0.0
        manager.register_factory("TEST_THIRD", crashes, critical=True)
        assert not await manager.start("TEST_THIRD")
        assert not manager.liveness_probe()
        assert not manager.readiness_probe()
        assert any("test_third" in reason for reason in manager.liveness_probe().reasons)
        with pytest.raises(KeyError):
            _ = manager.liveness_probe()["nothing"]

    asyncio.run(story())


def test_what_cannot_be_asked_for_is_refused() -> None:
    """Unknown profiles, both ways at once, and factories for what the node does itself are errors."""
    manager = quick()

    with pytest.raises(UnknownName, match="'worker'"):
        asyncio.run(manager.start_all(profile="worker"))
    with pytest.raises(SettingsError, match="and not both"):
        asyncio.run(manager.start_all(types=[FIRST], profile="full"))
    for kind in (DaemonType.EVENT_ROUTER, DaemonType.FILL):
        with pytest.raises(SettingsError, match="of the node"):
            manager.register_factory(kind, for_ever)
    with pytest.raises(SettingsError, match="startup modes"):
        manager.register_factory(FIRST, for_ever, startup_mode="later")
    with pytest.raises(SettingsError, match="start"):
        manager.register_daemon(FIRST, object())
    with pytest.raises(ValueError, match="nothing_like_it"):
        manager.is_running("nothing_like_it")


def test_one_manager_for_the_program_and_one_of_ones_own() -> None:
    """The instance is the same until it is reset; others are over the same node and see the same daemons."""
    DaemonManager.reset_instance()
    first = get_daemon_manager()
    own = quick()
    asyncio.run(own.start(DaemonType.AUTO_SYNC))

    assert first is DaemonManager.get_instance()
    assert first.is_running(DaemonType.AUTO_SYNC)
    assert asyncio.run(first.shutdown()) == {}
    assert first.is_running(DaemonType.AUTO_SYNC), "another manager started it"
    DaemonManager.reset_instance()
    assert get_daemon_manager() is not first


def test_the_six_loops_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """With RINGRIFT_EXTRACTED_LOOPS=false their duties do not start, and the status says so; the rest does."""
    monkeypatch.setenv("RINGRIFT_EXTRACTED_LOOPS", "false")
    manager = quick()
    started = asyncio.run(manager.start_all(profile="full"))

    refused = {kind for kind, runs in started.items() if not runs}
    assert {manager.get_daemon_status(kind).reason for kind in refused} == {LOOPS_OFF}
    assert {DUTIES[kind.name].target for kind in refused} == {"fill", "rescue", "rate"}
    assert {supervisor().report(name).state for name in ("fill", "rescue", "rate")} == {"resting"}
    assert manager.is_running(DaemonType.DATA_PIPELINE)


def test_a_coordinator_is_a_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """RINGRIFT_IS_COORDINATOR chooses what start_all() starts, and the registered come with it."""
    monkeypatch.setenv("RINGRIFT_IS_COORDINATOR", "false")
    manager = quick()

    async def story() -> None:
        manager.register_factory(FIRST, for_ever)
        started = await manager.start_all()
        assert set(started) == {*get_profile_daemons("training_node"), FIRST}
        assert all(started.values())
        assert not manager.is_running(DaemonType.DATA_PIPELINE)

    asyncio.run(story())


@on_a_loop
async def test_figures_are_those_of_the_supervisor() -> None:
    """Runs, failures, restarts, the last error and the history are told by name, one by one and together."""
    manager = quick()
    times = [2]

    async def fails_twice() -> None:
        times[0] -= 1
        if times[0] >= 0:
            raise ValueError("not yet")
        await for_ever()

    manager.register_factory(FIRST, fails_twice)
    await manager.start(FIRST)
    await until(manager, FIRST, lambda info: info.is_running)
    stats = get_daemon_stats(FIRST, manager)

    assert (stats.runs, stats.failures, stats.restarts) == (3, 2, 2)
    assert stats.last_error == "ValueError: not yet"
    assert [error for _, error in stats.history] == ["ValueError: not yet"] * 2
    assert stats.success_rate == pytest.approx(1 / 3)
    assert get_all_daemon_stats(manager)[FIRST].restarts == 2
    assert DaemonMetrics(manager).collect()["restarts"] == 2
    assert DaemonMetrics(manager).for_daemon(SECOND).runs == 0


@on_a_loop
async def test_the_life_cycle_allows_what_is_legal() -> None:
    """A daemon that runs cannot be started, and one that is stopped cannot be stopped."""
    cycle = DaemonLifecycleManager(quick())

    assert await cycle.start(DaemonType.AUTO_SYNC)
    with pytest.raises(SupervisionError, match="auto_sync is running and cannot become starting"):
        await cycle.start(DaemonType.AUTO_SYNC)
    assert await cycle.restart(DaemonType.AUTO_SYNC)
    assert await cycle.stop(DaemonType.AUTO_SYNC)
    with pytest.raises(SupervisionError, match="auto_sync is stopped"):
        await cycle.stop(DaemonType.AUTO_SYNC)


SCRIPT = """
import asyncio
from app.coordination.daemon_manager import DaemonType, get_daemon_manager
assert all(asyncio.run(get_daemon_manager().start_all(profile="full")).values())
"""


def test_a_script_that_starts_everything_just_ends(tmp_path: Path) -> None:
    """Without a shutdown the daemons end with the program, and it says nothing."""
    environ = os.environ | {"RINGRIFT_HOME": str(tmp_path / "other")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT], env=environ, capture_output=True, text=True, timeout=LONG
    )

    assert (done.returncode, done.stderr) == (0, "")
