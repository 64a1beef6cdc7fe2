"""Runners and adapters: a daemon that runs until it is cancelled, under its role where it has one."""

import asyncio
import inspect
from pathlib import Path

import pytest

from compat.subscribers import async_test, home
from compat.test_embedded_node import start
from compat.user_daemons import FIRST, LONG, for_ever, quick
from ringrift.kernel.errors import SupervisionError
from ringrift_compat.daemons.adapters import PromotionDaemonAdapter, get_daemon_adapter
from ringrift_compat.daemons.manager import get_daemon_manager
from ringrift_compat.daemons.runners import DaemonRunner, UnifiedReplicationDaemon, get_runner
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

    await asyncio.wait_for(second, LONG)


@async_test
async def test_a_runner_raises_why_it_cannot_run() -> None:
    """An unbuilt daemon and one that was given up are errors with the reason."""
    manager = quick(max_restart_attempts=0)

    async def crashes() -> None:
        raise ValueError("no")

    manager.register_factory(FIRST, crashes)
    with pytest.raises(SupervisionError, match="distillation cannot run: not yet: distillation"):
        await get_runner(DaemonType.DISTILLATION)()
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
    ("kind", "role"),
    [
        ("DISTILLATION", "distillation_leader"),
        ("UNIFIED_PROMOTION", "promotion_leader"),
        ("EXTERNAL_DRIVE_SYNC", "external_sync_leader"),
        ("VAST_CPU_PIPELINE", "vast_pipeline_leader"),
    ],
)
@async_test
async def test_an_adapter_holds_its_role_while_it_runs(kind: str, role: str) -> None:
    """It acquires the role, does the duty or reports that it is not built, and releases the role when cancelled."""
    adapter = get_daemon_adapter(DaemonType[kind])
    assert adapter.health_check().message == f"waits for the role {role}"
    task = asyncio.ensure_future(adapter.run())
    await wait_until(lambda: adapter.holds_role and has_orchestrator_role(role), LONG)
    if kind == "UNIFIED_PROMOTION":
        await wait_until(lambda: bool(adapter.health_check()), LONG)
        assert state("pipeline") == "running"
    else:
        await wait_until(lambda: adapter.health_check().message.startswith("not yet: "), LONG)
        assert not adapter.health_check()
    await ended(task)

    assert not has_orchestrator_role(role)
    assert acquire_orchestrator_role(role)
    assert state("pipeline") != "running"


HOLDS = """
import sys
from app.coordination.orchestrator_registry import acquire_orchestrator_role
print(acquire_orchestrator_role("promotion_leader"), flush=True)
sys.stdin.readline()
"""


@async_test
async def test_an_adapter_waits_for_a_role_that_another_holds(home: Path) -> None:
    """While another process is the leader nothing runs here; when it ends the adapter takes over."""
    other = start(HOLDS, home)
    assert other.stdout is not None
    assert await asyncio.to_thread(other.stdout.readline) == "True\n"
    adapter = PromotionDaemonAdapter(role_seconds=0.05)
    task = asyncio.ensure_future(adapter.run())
    await asyncio.wait((task,), timeout=0.2)
    assert state("pipeline") == "nothing"
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
