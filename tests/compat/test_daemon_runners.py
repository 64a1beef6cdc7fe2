"""Runners and adapters: a daemon that runs until it is cancelled, under its role where it has one."""

import asyncio
import inspect
from pathlib import Path

import pytest

from compat.ears import home, on_a_loop
from compat.guests import FIRST, LONG, for_ever, quick
from compat.test_ambient import run, start
from ringrift.kernel.errors import SupervisionError
from ringrift_compat import daemon_runners
from ringrift_compat.ambient import ambient
from ringrift_compat.daemon_adapters import DaemonAdapter, PromotionDaemonAdapter, get_daemon_adapter
from ringrift_compat.daemon_duties import DUTIES
from ringrift_compat.daemon_manager import DaemonManager, get_daemon_manager
from ringrift_compat.daemon_runners import DaemonRun, get_daemon_factory, get_runner
from ringrift_compat.daemon_types import DaemonType
from ringrift_compat.health import CoordinatorStatus
from ringrift_compat.hosting import hosted
from ringrift_compat.roles import has_orchestrator_role, is_orchestrator_role_available
from waiting import wait_until

__all__ = ["home"]


def state(name: str) -> str:
    """What a daemon of this program's node is doing."""
    whole = hosted(ambient.node())
    return "nothing" if whole is None else whole.supervisor.report(name).state


async def ended(task: "asyncio.Task[None]") -> None:
    """Cancel *task*, which must end by that and nothing else."""
    task.cancel()
    await asyncio.wait((task,), timeout=LONG)
    assert task.cancelled()


@on_a_loop
async def test_a_runner_runs_until_cancelled() -> None:
    """It is an async function of the name of the daemon; cancelling it stops the daemon."""
    DaemonManager.reset_instance()
    runner = get_runner(DaemonType.AUTO_SYNC)
    assert inspect.iscoroutinefunction(runner)
    assert runner.__name__ == "create_auto_sync"
    task = asyncio.ensure_future(runner())
    await wait_until(lambda: state("replicate") == "running", LONG)
    await ended(task)

    assert state("replicate") == "stopped"


@on_a_loop
async def test_a_runner_joins_what_runs() -> None:
    """One that was started by hand goes on when a runner for it is cancelled, and its stop ends the runner."""
    DaemonManager.reset_instance()
    assert await get_daemon_manager().start(DaemonType.AUTO_SYNC)
    first, second = (asyncio.ensure_future(get_daemon_factory().create(DaemonType.AUTO_SYNC).run()) for _ in range(2))
    await asyncio.sleep(0)
    await ended(first)
    assert state("replicate") == "running"
    await get_daemon_manager().stop(DaemonType.AUTO_SYNC)

    await asyncio.wait_for(second, LONG)


@on_a_loop
async def test_a_runner_tells_why_it_cannot_run() -> None:
    """What is not built, and what was given up, is an error with the reason."""
    manager = quick(max_restart_attempts=0)

    async def crashes() -> None:
        raise ValueError("no")

    manager.register_factory(FIRST, crashes)
    with pytest.raises(SupervisionError, match="distillation cannot run: not yet: distillation"):
        await get_runner(DaemonType.DISTILLATION)()
    with pytest.raises(SupervisionError, match="ValueError: no"):
        await DaemonRun(FIRST, manager).run()
    health = DaemonRun(FIRST, manager).health_check()
    assert not health
    assert health.status is CoordinatorStatus.ERROR
    assert not get_daemon_factory().is_available(DaemonType.DISTILLATION)
    assert get_daemon_factory().is_available("auto_sync")


def test_there_is_a_function_for_every_daemon() -> None:
    """create_ and run_ with its name, and nothing for names that nobody has."""
    documented = [DaemonType[name] for name in DUTIES]
    assert len(documented) > 100

    for kind in documented:
        for name in (f"create_{kind.value}", f"run_{kind.value}"):
            assert name in daemon_runners.__all__
            assert inspect.iscoroutinefunction(getattr(daemon_runners, name))
    assert daemon_runners.create_health_server.__name__ == "create_health_server"
    with pytest.raises(AttributeError, match="create_nothing"):
        _ = daemon_runners.create_nothing  # type: ignore[attr-defined]  # it is not there


@pytest.mark.parametrize(
    ("kind", "role"),
    [
        ("DISTILLATION", "distillation_leader"), ("UNIFIED_PROMOTION", "promotion_leader"),
        ("EXTERNAL_DRIVE_SYNC", "external_sync_leader"), ("VAST_CPU_PIPELINE", "vast_pipeline_leader"),
    ],
)  # fmt: skip
@on_a_loop
async def test_an_adapter_holds_its_role_while_it_runs(kind: str, role: str) -> None:
    """It takes the role, does the duty or says that it is not built, and gives the role back when cancelled."""
    DaemonManager.reset_instance()
    adapter = get_daemon_adapter(DaemonType[kind])
    assert adapter.health_check().message == f"waits for the role {role}"
    task = asyncio.ensure_future(adapter.run())
    await wait_until(lambda: has_orchestrator_role(role), LONG)
    if kind == "UNIFIED_PROMOTION":
        await wait_until(lambda: bool(adapter.health_check()), LONG)
        assert state("pipeline") == "running"
    else:
        await wait_until(lambda: adapter.health_check().message.startswith("not yet: "), LONG)
        assert not adapter.health_check()
    await ended(task)

    assert is_orchestrator_role_available(role)
    assert state("pipeline") != "running"


HOLDS = """
import sys
from app.coordination.orchestrator_registry import acquire_orchestrator_role
print(acquire_orchestrator_role("promotion_leader"), flush=True)
sys.stdin.readline()
"""


@on_a_loop
async def test_an_adapter_waits_for_a_role_that_another_holds(home: Path) -> None:
    """While another process is the leader nothing runs here; when it ends the adapter takes over."""
    DaemonManager.reset_instance()
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


@on_a_loop
async def test_an_adapter_without_a_role_just_runs() -> None:
    """Any daemon has one, also a user's own; without a daemon there is none."""
    manager = quick()
    manager.register_factory(FIRST, for_ever)
    adapter = get_daemon_adapter(FIRST, manager)
    task = asyncio.ensure_future(adapter.run())
    await wait_until(lambda: manager.is_running(FIRST), LONG)
    await ended(task)

    assert not manager.is_running(FIRST)
    with pytest.raises(SupervisionError, match="needs a daemon_type"):
        DaemonAdapter()


def test_the_functions_are_served_under_their_old_paths(tmp_path: Path) -> None:
    """By rule, from both modules of the documents."""
    code = """
from app.coordination.daemon_factory_implementations import create_auto_sync, create_health_server
from app.coordination.daemon_runners import get_runner, run_auto_sync
from app.coordination.daemon_types import DaemonType
assert get_runner(DaemonType.AUTO_SYNC) is create_auto_sync
print(run_auto_sync.__name__, create_health_server.__doc__)
"""

    assert run(code, tmp_path) == "run_auto_sync Run HEALTH_SERVER until cancelled.\n"
