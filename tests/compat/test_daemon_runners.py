"""Runners and adapters: a daemon that runs until it is cancelled, under its role where it has one."""

import asyncio
import inspect
from pathlib import Path

import pytest

from compat.file_scene import FileScene
from compat.subscribers import QUICK, async_test, home
from compat.test_embedded_node import start
from compat.user_daemons import FIRST, LONG, for_ever, quick
from ringrift.kernel.errors import SupervisionError
from ringrift_compat.daemons.adapters import PromotionDaemonAdapter, get_daemon_adapter
from ringrift_compat.daemons.duties import NotYet
from ringrift_compat.daemons.manager import get_daemon_manager
from ringrift_compat.daemons.runners import (
    DaemonRunner,
    DataConsolidationDaemon,
    DiskSpaceManagerDaemon,
    OrphanDetectionDaemon,
    S3BackupDaemon,
    TrainingActivityDaemon,
    UnifiedDistributionDaemon,
    UnifiedQueuePopulator,
    UnifiedReplicationDaemon,
    get_runner,
)
from ringrift_compat.daemons.types import DaemonType
from ringrift_compat.embedded_host import get_host
from ringrift_compat.embedded_node import embedded
from ringrift_compat.health.protocols import CoordinatorStatus
from ringrift_compat.tasks.orchestrator_registry import acquire_orchestrator_role, has_orchestrator_role
from wait import wait_until

__all__ = ["home"]


def state(name: str) -> str:
    """Return the state of a daemon of this program's node."""
    whole = get_host(embedded.node())
    return "nothing" if whole is None else whole.supervisor.status(name).state


async def ended(task: "asyncio.Task[None]") -> None:
    """Cancel *task*, which must end by that and nothing else."""
    task.cancel()
    await asyncio.wait((task,), timeout=LONG)
    assert task.cancelled()


@async_test
async def test_a_runner_runs_until_cancelled() -> None:
    """It is an async function; cancelling it stops the daemon."""
    runner = get_runner(DaemonType.AUTO_SYNC)
    assert inspect.iscoroutinefunction(runner)
    task = asyncio.ensure_future(runner())
    await wait_until(lambda: state("replicate") == "running", LONG)
    await ended(task)

    assert state("replicate") == "stopped"


@async_test
async def test_a_runner_joins_a_running_daemon() -> None:
    """A daemon that was started explicitly goes on when a runner for it is cancelled, and its stop ends the runner."""
    assert await get_daemon_manager().start(DaemonType.AUTO_SYNC)
    first, second = (asyncio.ensure_future(get_runner(DaemonType.AUTO_SYNC)()) for _ in range(2))
    await asyncio.sleep(0)
    await ended(first)
    assert state("replicate") == "running"
    await get_daemon_manager().stop(DaemonType.AUTO_SYNC)

    async with asyncio.timeout(LONG):
        await second


@async_test
async def test_a_runner_raises_why_it_cannot_run() -> None:
    """An unbuilt daemon, a retired one and one that was given up are errors with the reason."""
    manager = quick(max_restart_attempts=0)

    async def crashes() -> None:
        raise ValueError("no")

    manager.register_factory(FIRST, crashes)
    with pytest.raises(NotYet, match="distillation is not built yet; it comes with: distillation"):
        await get_runner(DaemonType.DISTILLATION)()
    with pytest.raises(SupervisionError, match=r"voter_health_monitor cannot run: retired: .* no node votes"):
        await get_runner(DaemonType.VOTER_HEALTH_MONITOR)()
    with pytest.raises(SupervisionError, match="ValueError: no"):
        await DaemonRunner(FIRST, manager).run()
    health = DaemonRunner(FIRST, manager).health_check()
    assert not health
    assert health.status is CoordinatorStatus.ERROR


@async_test
async def test_a_documented_class_is_the_daemon_of_the_manager() -> None:
    """A start here is seen there, and two objects are one daemon; before its start it is not healthy."""
    daemon = UnifiedReplicationDaemon()
    assert not daemon.health_check()
    assert await daemon.start()
    other = UnifiedReplicationDaemon.get_instance()
    assert other.is_running
    assert get_daemon_manager().is_running(DaemonType.REPLICATION_MONITOR)
    assert daemon.health_check()
    assert await other.stop()
    assert not daemon.is_running


@pytest.mark.parametrize(
    ("documented", "daemon"),
    [
        (UnifiedDistributionDaemon, "pipeline"),
        (UnifiedReplicationDaemon, "replicate"),
        (UnifiedQueuePopulator, "fill"),
        (DataConsolidationDaemon, "consolidate"),
        (DiskSpaceManagerDaemon, "disk"),
        (OrphanDetectionDaemon, "adopt"),
        (TrainingActivityDaemon, "replicate"),
    ],
)
@async_test
async def test_each_documented_class_is_its_daemon(documented: type[DaemonRunner], daemon: str) -> None:
    """A start of it starts the daemon of ours that has its duty, and no other; a stop ends it."""
    assert await documented().start()
    names = ("pipeline", "replicate", "fill", "consolidate", "disk", "adopt")
    assert {name for name in names if state(name) == "running"} == {daemon}
    assert await documented().stop()
    assert state(daemon) == "stopped"


@async_test
async def test_a_backup_daemon_needs_a_place() -> None:
    """Without the setting its run says what is missing."""
    with pytest.raises(SupervisionError, match=r"backup\.place"):
        await S3BackupDaemon().run()


@async_test
async def test_an_adapter_holds_its_role_while_it_runs() -> None:
    """It acquires the role, does the duty under it, and releases the role when cancelled."""
    adapter = get_daemon_adapter(DaemonType.UNIFIED_PROMOTION)
    role = "promotion_leader"
    assert adapter.health_check().message == f"waits for the role {role}"
    task = asyncio.ensure_future(adapter.run())
    await wait_until(lambda: adapter.holds_role and has_orchestrator_role(role), LONG)
    await wait_until(lambda: bool(adapter.health_check()), LONG)
    assert state("pipeline") == "running"
    await ended(task)

    assert not has_orchestrator_role(role)
    assert acquire_orchestrator_role(role)
    assert state("pipeline") != "running"


@async_test
async def test_the_adapter_of_a_drive_copies_to_it(home: Path) -> None:
    """Without the setting it says what is missing; with it the files of the node are on the drive under its role."""
    with pytest.raises(SupervisionError, match=r"backup\.mirror"):
        await get_daemon_adapter(DaemonType.EXTERNAL_DRIVE_SYNC).run()
    await asyncio.to_thread(embedded.shutdown)
    drive = home / "drive"
    drive.mkdir()
    (home / "ringrift.toml").write_text(f'{QUICK}\n[backup]\nmirror = "{drive}"\nmirror_seconds = 0.1\n')
    scene = await asyncio.to_thread(FileScene, home)
    blob = await asyncio.to_thread(scene.put, b"games", scene.host.node_id)
    await asyncio.to_thread(scene.open_line, games=[blob])

    task = asyncio.ensure_future(get_daemon_adapter(DaemonType.EXTERNAL_DRIVE_SYNC).run())
    await wait_until(lambda: any(path.name == blob for path in drive.rglob("*")), LONG)

    assert has_orchestrator_role("external_sync_leader")
    await ended(task)


UNBUILT = {
    "DISTILLATION": ("distillation_leader", "distillation"),
    "VAST_CPU_PIPELINE": ("vast_pipeline_leader", "providers"),
}
"""The adapters whose duty is not built: the role of each, and the work that brings the duty."""


@pytest.mark.parametrize("kind", UNBUILT)
@async_test
async def test_an_adapter_without_a_duty_raises_not_yet_and_holds_no_role(kind: str) -> None:
    """The error names the daemon and the work that brings its duty, the health is not good, and the role stays free."""
    role, brings = UNBUILT[kind]
    adapter = get_daemon_adapter(DaemonType[kind])

    with pytest.raises(NotYet) as raised:
        await adapter.run()

    assert (raised.value.name, raised.value.brings) == (kind.lower(), brings)
    assert not adapter.health_check()
    assert not adapter.holds_role
    assert not has_orchestrator_role(role)
    assert state("beat") == "nothing", "nothing was opened for it"


@async_test
async def test_a_user_may_bring_the_duty_of_an_adapter() -> None:
    """A factory that a user registers for an unbuilt daemon runs under the role of its adapter."""
    manager = quick()
    manager.register_factory(DaemonType.DISTILLATION, for_ever)
    adapter = get_daemon_adapter(DaemonType.DISTILLATION, manager)
    task = asyncio.ensure_future(adapter.run())
    await wait_until(lambda: adapter.holds_role and manager.is_running(DaemonType.DISTILLATION), LONG)
    await ended(task)

    assert not has_orchestrator_role("distillation_leader")


HOLDS = """
import sys
from app.coordination.orchestrator_registry import acquire_orchestrator_role
print(all([acquire_orchestrator_role(role) for role in sys.stdin.readline().split()]), flush=True)
sys.stdin.readline()
"""


@async_test
async def test_a_role_of_an_unbuilt_daemon_can_be_held_by_one_process(home: Path) -> None:
    """Each of the three roles is refused while another process holds it, and free when that process ends."""
    roles = [role for role, _ in UNBUILT.values()]
    other = start(HOLDS, home)
    assert other.stdin is not None
    assert other.stdout is not None
    other.stdin.write(" ".join(roles) + "\n")
    other.stdin.flush()
    assert await asyncio.to_thread(other.stdout.readline) == "True\n"
    assert not any(acquire_orchestrator_role(role) for role in roles)
    await asyncio.to_thread(other.communicate, "\n", LONG)
    for role in roles:
        await wait_until(lambda role=role: acquire_orchestrator_role(role), LONG)  # type: ignore[misc]  # bound now


@async_test
async def test_an_adapter_waits_for_a_role_that_another_holds(home: Path) -> None:
    """While another process is the leader nothing runs here; when it ends the adapter takes over."""
    other = start(HOLDS, home)
    assert other.stdin is not None
    assert other.stdout is not None
    other.stdin.write("promotion_leader\n")
    other.stdin.flush()
    assert await asyncio.to_thread(other.stdout.readline) == "True\n"
    adapter = PromotionDaemonAdapter(role_seconds=0.05)
    task = asyncio.ensure_future(adapter.run())
    await asyncio.wait((task,), timeout=0.2)
    assert state("pipeline") == "nothing"
    assert DaemonType.UNIFIED_PROMOTION not in get_daemon_manager().get_status(), "it was not even asked to start"
    assert not adapter.holds_role
    await asyncio.to_thread(other.communicate, "\n", LONG)
    await wait_until(lambda: adapter.holds_role and state("pipeline") == "running", LONG)
    await ended(task)

    assert state("pipeline") == "stopped"


@async_test
async def test_an_adapter_without_a_role_just_runs() -> None:
    """Any daemon has one, also a user's own."""
    manager = quick()
    manager.register_factory(FIRST, for_ever)
    adapter = get_daemon_adapter(FIRST, manager)
    task = asyncio.ensure_future(adapter.run())
    await wait_until(lambda: manager.is_running(FIRST), LONG)
    await ended(task)

    assert not manager.is_running(FIRST)
