"""The documented daemon manager: every daemon that it reports as started runs, on the whole node of this program."""

import asyncio
import os
import subprocess
import sys
import threading
from operator import attrgetter
from pathlib import Path

import pytest

from compat.subscribers import async_test, home
from compat.user_daemons import FIRST, LONG, SECOND, for_ever, quick
from ringrift.daemons import DAEMONS
from ringrift.kernel.errors import SettingsError, UnknownName
from ringrift.kernel.settings import PROFILES, Settings
from ringrift.supervision.supervisor import Supervisor
from ringrift.work.limits import KINDS
from ringrift_compat.daemons.duties import ALWAYS, DUTIES
from ringrift_compat.daemons.manager import DaemonManager, get_daemon_manager
from ringrift_compat.daemons.registry import get_profile_daemons
from ringrift_compat.daemons.types import DaemonState, DaemonType
from ringrift_compat.embedded_host import get_host
from ringrift_compat.embedded_node import embedded

__all__ = ["home"]
PARTS = "EVENT_ROUTER DAEMON_WATCHDOG CROSS_PROCESS_POLLER COORDINATOR_HEALTH_MONITOR CONFIG_VALIDATOR"
"""The parts of every node, which stay when a manager is shut down."""
UNSET = {DaemonType[name] for name, duty in DUTIES.items() if duty.setting and not attrgetter(duty.setting)(Settings())}
"""Daemons that need a folder or a place which is not set by default."""
HEARTBEAT = "beat"
"""The one daemon of the node that a part is made of."""


def supervisor() -> Supervisor:
    """That of this program's node."""
    whole = get_host(embedded.node())
    assert whole is not None
    return whole.supervisor


def kinds() -> frozenset[str]:
    """Return the job kinds that this program's node takes."""
    whole = get_host(embedded.node())
    assert whole is not None
    return whole.runner.kinds


@pytest.mark.parametrize("profile", PROFILES)
def test_finding_7_every_profile_reports_only_running_daemons(profile: str) -> None:
    """Every daemon reported as started is a running daemon of the supervisor, and nothing else runs."""
    manager = quick()
    started = asyncio.run(manager.start_all(profile=profile))
    states = {report.name: report.state for report in supervisor().statuses()}
    status = manager.get_status()

    assert kinds() == KINDS[profile]
    assert set(started) == set(get_profile_daemons(profile)) - UNSET
    assert all(started.values())
    assert {kind for kind, info in status.items() if info.is_running} >= set(started)
    expected = {daemon.name for daemon in DAEMONS if profile in daemon.profiles} | set(ALWAYS)
    assert {name for name, state in states.items() if state == "running"} == expected
    duties = {info.duty for info in status.values() if DUTIES[info.daemon_type.name].kind == "daemon"}
    assert duties == expected - set(ALWAYS)
    assert all(asyncio.run(manager.shutdown()).values())
    assert {report.name for report in supervisor().statuses() if report.should_run} == {HEARTBEAT}
    assert {kind.name for kind in DaemonType if manager.is_running(kind)} == set(PARTS.split())


def test_a_part_of_every_node_starts_and_does_not_stop() -> None:
    """Starting the router is true, and stopping it false with a reason; nothing else was opened for it."""
    manager = quick()

    assert asyncio.run(manager.start(DaemonType.EVENT_ROUTER)) is True
    assert get_host(embedded.node()) is None
    assert asyncio.run(manager.stop(DaemonType.EVENT_ROUTER)) is False
    assert "a part of every node" in manager.get_daemon_status(DaemonType.EVENT_ROUTER).reason
    assert manager.is_running(DaemonType.EVENT_ROUTER)
    assert asyncio.run(manager.start(DaemonType.DAEMON_WATCHDOG))


@pytest.mark.parametrize("kind", ["DISTILLATION", "HEALTH_SERVER", "NODE_RECOVERY"])
def test_an_unbuilt_daemon_does_not_start(kind: str) -> None:
    """The start returns false, the reason is in its info and its health, and it does not count as running."""
    manager = quick()

    assert asyncio.run(manager.start(DaemonType[kind])) is False
    info = manager.get_daemon_status(kind.lower())
    assert (info.state, info.is_running) == (DaemonState.IMPORT_FAILED, False)
    assert info.reason == info.last_error == DUTIES[kind].target
    assert manager.get_all_daemon_health()[DaemonType[kind]]["healthy"] is False


def test_a_daemon_without_its_setting_has_no_duty_and_does_not_run(home: Path) -> None:
    """While no folder for models is set its start is false with the key of the setting; with one it runs."""
    manager, kind = quick(), DaemonType.UNEVALUATED_MODEL_SCANNER

    assert asyncio.run(manager.start_all(profile="full"))[DaemonType.IMPORT_MODELS]
    assert asyncio.run(manager.start(kind)) is False
    assert not manager.is_running(kind)
    assert "imports.folder is ''" in manager.get_daemon_status(kind).reason
    embedded.shutdown()
    (home / "ringrift.toml").write_text(f'[imports]\nfolder = "{home / "inbox"}"\n[cluster]\nheal = "off"\n')
    assert asyncio.run(manager.start(kind)) is True
    assert manager.is_running(kind)
    assert asyncio.run(manager.start(DaemonType.RECOVERY_ORCHESTRATOR)) is False


def test_untouched_daemons_are_not_listed() -> None:
    """The status lists daemons that were started, registered or run; every other one reads as stopped."""
    manager = quick()
    assert manager.get_status() == {}
    manager.register_factory(FIRST, for_ever)
    asyncio.run(manager.start(DaemonType.AUTO_SYNC))

    assert set(manager.get_status()) == {FIRST, DaemonType.AUTO_SYNC}
    assert manager.get_daemon_status(DaemonType.DATA_PIPELINE).state is DaemonState.STOPPED
    assert not manager.is_running(DaemonType.DATA_PIPELINE)
    assert manager.get_status()[FIRST].state is DaemonState.STOPPED
    assert [info.category for info in manager.get_status().values()] == ["sync", "other"]


def test_names_of_one_daemon_share_it() -> None:
    """It runs under each of them, and ends with the last that was started."""
    manager = quick()

    async def story() -> None:
        assert await manager.start(DaemonType.EVALUATION)
        assert await manager.start(DaemonType.AUTO_PROMOTION)
        assert manager.is_running(DaemonType.DATA_PIPELINE), "the duty runs, whichever caller started it"
        assert await manager.stop(DaemonType.EVALUATION)
        assert not manager.is_running(DaemonType.EVALUATION)
        assert "goes on for auto_promotion" in manager.get_daemon_status(DaemonType.EVALUATION).reason
        assert supervisor().status("pipeline").state == "running"
        assert await manager.stop(DaemonType.AUTO_PROMOTION)
        assert supervisor().status("pipeline").state == "stopped"
        await manager.start_all(profile="coordinator")
        assert await manager.stop(DaemonType.TRAINING_TRIGGER), "what only a profile started gives way"
        assert supervisor().status("pipeline").state == "stopped"
        assert not manager.is_running(DaemonType.DATA_PIPELINE)
        assert await manager.start(DaemonType.DATA_PIPELINE)
        assert manager.is_running(DaemonType.DATA_PIPELINE)

    asyncio.run(story())


def test_calls_work_without_a_loop_on_one_and_in_threads() -> None:
    """Every plain call answers outside a loop, inside one, in a thread, and on the loop of the node itself."""
    manager = quick()
    results: list[object] = []

    def look() -> None:
        results.append(
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
    embedded.call(looks())

    assert results == [results[0]] * 4
    assert results[0][:2] == (True, True)  # type: ignore[index]  # it is what look() put there


@async_test
async def test_the_probe_is_true_only_when_true() -> None:
    """A failed daemon that is not critical changes nothing; a critical one makes it false, with its name."""
    manager = quick(auto_restart_failed=False)
    assert manager.liveness_probe()

    async def crashes() -> None:
        raise ValueError("no")

    manager.register_factory(FIRST, for_ever, critical=True)
    manager.register_factory(SECOND, crashes)
    assert await manager.start(FIRST)
    assert not await manager.start(SECOND)
    assert manager.liveness_probe()
    manager.register_factory("TEST_THIRD", crashes, critical=True)
    assert not await manager.start("TEST_THIRD")
    probe = manager.liveness_probe()
    assert not probe
    assert any("test_third" in reason for reason in probe.reasons)


def test_invalid_requests_are_refused() -> None:
    """Unknown profiles and categories, and factories for duties of the node itself, are errors."""
    manager = quick()

    with pytest.raises(UnknownName, match="'worker'"):
        asyncio.run(manager.start_all(profile="worker"))
    for kind in (DaemonType.EVENT_ROUTER, DaemonType.FILL):
        with pytest.raises(SettingsError, match="of the node itself"):
            manager.register_factory(kind, for_ever)
    with pytest.raises(SettingsError, match="categories are"):
        manager.register_factory(FIRST, for_ever, category="misc")
    with pytest.raises(ValueError, match="nothing_like_it"):
        manager.is_running("nothing_like_it")


def test_the_shared_manager_and_others_see_the_same_daemons() -> None:
    """The instance is always the same; other managers work on the same node and see the same daemons."""
    first, own = get_daemon_manager(), quick()
    asyncio.run(own.start(DaemonType.AUTO_SYNC))

    assert first is DaemonManager.get_instance()
    assert first.is_running(DaemonType.AUTO_SYNC)
    assert asyncio.run(first.shutdown()) == {}
    assert first.is_running(DaemonType.AUTO_SYNC), "another manager started it"


def test_the_loops_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """With RINGRIFT_EXTRACTED_LOOPS=false their duties do not start, and the status shows it; the rest does."""
    monkeypatch.setenv("RINGRIFT_EXTRACTED_LOOPS", "false")
    manager = quick()
    started = asyncio.run(manager.start_all(profile="full"))

    refused = {kind for kind, runs in started.items() if not runs}
    assert {DUTIES[kind.name].target for kind in refused} == {"fill", "rate", "import_models"}
    assert all("disabled_daemons" in manager.get_daemon_status(kind).reason for kind in refused)
    assert manager.is_running(DaemonType.DATA_PIPELINE)
    assert manager.is_running(DaemonType.RESCUE), "expired leases are always returned"


def test_a_coordinator_is_a_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """RINGRIFT_IS_COORDINATOR chooses what start_all() starts, and the registered come with it."""
    monkeypatch.setenv("RINGRIFT_IS_COORDINATOR", "false")
    manager = quick()

    async def story() -> None:
        manager.register_factory(FIRST, for_ever)
        started = await manager.start_all()
        assert set(started) == {*get_profile_daemons("training_node"), FIRST} - UNSET
        assert all(started.values())
        assert not manager.is_running(DaemonType.DATA_PIPELINE)

    asyncio.run(story())


SCRIPT = """
import asyncio
from app.coordination.daemon_manager import DaemonType, get_daemon_manager
assert all(asyncio.run(get_daemon_manager().start_all(profile="full")).values())
"""


def test_a_script_that_starts_everything_just_ends(tmp_path: Path) -> None:
    """Without a shutdown the daemons end with the program, and it prints nothing."""
    environ = os.environ | {"RINGRIFT_HOME": str(tmp_path / "other")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT], env=environ, capture_output=True, text=True, timeout=LONG
    )

    assert (done.returncode, done.stderr) == (0, "")
