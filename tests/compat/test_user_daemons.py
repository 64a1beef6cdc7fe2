"""Users' daemons: run on the loop where they were registered, watched, health-checked, and stopped cleanly."""

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from compat.subscribers import async_test, home
from compat.user_daemons import FIRST, LONG, SECOND, THIRD, DaemonObject, failing, for_ever, quick, start, until
from ringrift.kernel.health import Health, Status
from ringrift_compat.daemons.manager import DaemonManager
from ringrift_compat.daemons.types import DaemonState, DaemonType
from ringrift_compat.embedded_node import embedded
from ringrift_compat.health.protocols import CoordinatorStatus, HealthCheckResult
from wait import wait_until

__all__ = ["home"]


def test_a_factory_runs_where_it_was_registered() -> None:
    """It runs on the loop of the registration, or else on that of the node; and it ends with its own clean-up done."""
    where: dict[str, int] = {}
    ended: list[str] = []

    def factory(name: str) -> Callable[[], Any]:
        async def run() -> None:
            where[name] = threading.get_ident()
            try:
                await for_ever()
            finally:
                await asyncio.sleep(0)
                ended.append(name)

        return run

    manager = quick()
    manager.register_factory(FIRST, factory("embedded"))

    async def story() -> None:
        manager.register_factory(SECOND, factory("here"))
        assert all(await start(manager, FIRST, SECOND))
        assert where["here"] == threading.get_ident() != where["embedded"]
        assert await manager.stop(SECOND)
        assert ended == ["here"]

    asyncio.run(story())
    assert asyncio.run(manager.stop(FIRST))
    assert ended == ["here", "embedded"]


@pytest.mark.parametrize("ends", [lambda: None, lambda: 1 / 0, lambda: sys.exit(3)])
@async_test
async def test_an_unexpected_end_is_a_failure(ends: Callable[[], object]) -> None:
    """Returning, raising, or ending the program: the daemon is restarted, and given up after its budget."""
    runs: list[int] = []

    async def factory() -> None:
        runs.append(1)
        ends()

    manager = quick(max_restart_attempts=2)
    manager.register_factory(FIRST, factory)
    manager.register_factory(SECOND, for_ever)
    assert await manager.start(SECOND)
    assert not await manager.start(FIRST)
    info = await until(manager, FIRST, lambda info: info.state is DaemonState.FAILED)

    assert len(runs) == 3
    assert info.last_error
    assert manager.get_daemon_status(SECOND).restart_count == 0


@async_test
async def test_a_factory_has_its_own_budget() -> None:
    """auto_restart, max_restarts and health_check_interval of a registration come before the values of the manager."""
    manager = quick(max_restart_attempts=50)
    manager.register_factory(FIRST, failing(9), auto_restart=False)
    manager.register_factory(SECOND, failing(9), max_restarts=1, health_check_interval=7.0)
    manager.register_factory(THIRD, failing(9), max_restarts=20)
    await start(manager, FIRST, SECOND, THIRD)
    for kind in (FIRST, SECOND):
        await until(manager, kind, lambda info: info.state is DaemonState.FAILED)
    info = await until(manager, THIRD, lambda info: info.is_running)

    assert [manager.get_daemon_status(kind).restart_count for kind in (FIRST, SECOND)] == [0, 1]
    assert info.restart_count == 9
    intervals = {kind: manager.get_daemon_status(kind).health_check_interval for kind in (SECOND, THIRD)}
    assert intervals == {SECOND: 7.0, THIRD: manager.config.health_check_interval}


def test_the_end_of_its_loop_ends_a_daemon() -> None:
    """It is given up at once with that reason; a daemon on another loop goes on."""
    manager = quick()
    manager.register_factory(SECOND, for_ever)

    async def story() -> None:
        manager.register_factory(FIRST, for_ever)
        assert all(await start(manager, FIRST, SECOND))

    asyncio.run(story())
    info = asyncio.run(until(manager, FIRST, lambda info: info.state is DaemonState.FAILED))

    assert "loop that it ran on has been closed" in info.reason
    assert info.restart_count == 0
    assert manager.is_running(SECOND)


def test_a_blocked_loop_counts_as_a_hang() -> None:
    """A daemon on a blocked loop shows no progress, is detected as hanging, and is named."""
    manager, let_go, holds = quick(), threading.Event(), threading.Event()

    async def hold_up() -> None:
        holds.set()
        await asyncio.to_thread(lambda: None)
        let_go.wait(LONG)

    async def story() -> None:
        manager.register_factory(FIRST, for_ever, health_check_interval=0.05)
        assert await manager.start(FIRST)
        await hold_up()

    user = threading.Thread(target=lambda: asyncio.run(story()))
    user.start()
    assert holds.wait(LONG)
    asyncio.run(wait_until(lambda: not manager.get_daemon_status(FIRST).healthy, LONG))
    info = asyncio.run(until(manager, FIRST, lambda info: "no progress" in info.reason or "hang" in info.reason))
    let_go.set()
    user.join(LONG)

    assert not info.healthy


_Check = Callable[[], Any]
BAD: list[tuple[_Check, str, str]] = [
    (lambda: 1 / 0, "unhealthy", "ZeroDivisionError"),
    (lambda: HealthCheckResult(False, CoordinatorStatus.STOPPED, "High error rate"), "unhealthy", "High error rate"),
    (lambda: HealthCheckResult(False, CoordinatorStatus.DEGRADED, "slow"), "degraded", "slow"),
    (lambda: {"healthy": False, "message": "no disk"}, "unhealthy", "no disk"),
    (lambda: False, "unhealthy", "returned unhealthy"),
    (lambda: None, "unknown", "returned None"),
    (lambda: "fine", "unknown", "returned 'fine'"),
    (lambda: Health(part="x", status=Status.DEGRADED, reason="so so"), "degraded", "so so"),
]


@pytest.mark.parametrize("here", [True, False], ids=["own loop", "embedded loop"])
@pytest.mark.parametrize(("check", "health", "reason"), BAD)
def test_a_failing_check_enters_the_health(check: _Check, health: str, reason: str, here: bool) -> None:
    """Raising, returning false and returning nothing are each noticed within its interval; recovery too."""
    manager, words = quick(), [check]
    daemon = DaemonObject(lambda: words[0]())
    if not here:
        manager.register_factory(FIRST, daemon.factory)

    async def story() -> None:
        if here:
            manager.register_factory(FIRST, daemon.factory)
        assert await manager.start(FIRST)
        info = await until(manager, FIRST, lambda info: info.health == health)
        assert reason in info.reason
        assert manager.get_all_daemon_health()[FIRST]["healthy"] is False
        words[0] = lambda: HealthCheckResult(healthy=True)
        await until(manager, FIRST, lambda info: info.healthy)
        assert await manager.stop(FIRST)

    asyncio.run(story())
    assert daemon.steps == ["start", "stop"]


@async_test
async def test_a_check_that_hangs_is_unhealthy() -> None:
    """It is not waited for longer than a check may take, and the daemon is named."""

    class Hangs(DaemonObject):
        async def health_check(self) -> None:
            await for_ever()

    manager = quick()
    manager.register_factory(FIRST, Hangs().factory, critical=True)
    assert await manager.start(FIRST)
    info = await until(manager, FIRST, lambda info: info.health == "unhealthy")

    assert "did not answer" in info.reason
    assert not manager.liveness_probe()


@async_test
async def test_a_factory_may_return_its_daemon() -> None:
    """The returned object is checked and stopped; so is the object that a factory method belongs to."""

    class Runs(DaemonObject):
        async def go(self) -> None:
            await for_ever()

    handed, bound = DaemonObject(lambda: False), Runs(lambda: False)

    async def factory() -> DaemonObject:
        await handed.start()
        return handed

    manager = quick()
    manager.register_factory(FIRST, factory)
    manager.register_factory(SECOND, bound.go)
    assert all(await start(manager, FIRST, SECOND))
    for kind in (FIRST, SECOND):
        await until(manager, kind, lambda info: info.health == "unhealthy")
    assert await manager.stop(FIRST)

    assert handed.steps == ["start", "stop"]


async def order_of(manager: DaemonManager, begun: list[str]) -> bool:
    """Register THIRD after SECOND after FIRST, each recording its start, and start THIRD."""

    def noting(name: str) -> Callable[[], Any]:
        async def run() -> None:
            begun.append(name)
            await for_ever()

        return run

    manager.register_factory(FIRST, noting("first"), depends_on=[DaemonType.EVENT_ROUTER])
    manager.register_factory(SECOND, noting("second"), depends_on=[FIRST])
    manager.register_factory(THIRD, noting("third"), depends_on=["TEST_SECOND"])
    return await manager.start(THIRD)


@async_test
async def test_dependencies_start_first() -> None:
    """A daemon starts after all its dependencies."""
    begun: list[str] = []

    assert await order_of(quick(), begun)
    assert begun == ["first", "second", "third"]


@async_test
async def test_without_waiting_a_daemon_starts_alone() -> None:
    """A call without waiting starts no dependency."""
    manager = quick()
    manager.register_factory(FIRST, for_ever)
    manager.register_factory(SECOND, for_ever, depends_on=[FIRST])

    assert await manager.start("test_second", wait_for_deps=False)
    assert not manager.is_running(FIRST)


@async_test
async def test_a_dependency_must_run() -> None:
    """A dependency that is not built keeps it from starting, and the reason names it."""
    manager = quick()
    manager.register_factory(FIRST, for_ever, depends_on=[DaemonType.DISTILLATION])

    assert not await manager.start(FIRST)
    reason = manager.get_daemon_status(FIRST).reason
    assert "it depends on distillation" in reason
    assert "not yet: distillation" in reason


def test_a_registration_survives_the_node() -> None:
    """After a shutdown of the embedded node the manager starts what was registered on the next one."""
    manager = quick()
    manager.register_factory(FIRST, for_ever)
    assert asyncio.run(manager.start(FIRST))
    embedded.shutdown()

    assert not manager.is_running(FIRST)
    assert asyncio.run(manager.start(FIRST))


@async_test
async def test_a_shutdown_stops_the_last_started_first() -> None:
    """Each has ended before the one that was started before it is stopped."""
    ended: list[str] = []

    def noting(name: str) -> Callable[[], Any]:
        async def run() -> None:
            try:
                await for_ever()
            finally:
                await asyncio.sleep(0)
                ended.append(name)

        return run

    manager = quick()
    for kind, name in ((FIRST, "first"), (SECOND, "second"), (THIRD, "third")):
        manager.register_factory(kind, noting(name))
    assert all(await start(manager, FIRST, SECOND, THIRD))
    assert all((await manager.shutdown()).values())

    assert ended == ["third", "second", "first"]
