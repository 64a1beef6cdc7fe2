"""Daemons of users: on the loop where they were given, watched, asked how they are, and ended in good order."""

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from compat.ears import home, on_a_loop
from compat.guests import FIRST, LONG, SECOND, THIRD, Doctored, failing, for_ever, quick, until
from ringrift.kernel.health import Health, Status
from ringrift_compat.ambient import ambient
from ringrift_compat.daemon_manager import DaemonManager
from ringrift_compat.daemon_types import DaemonState, DaemonType
from ringrift_compat.health import CoordinatorStatus, HealthCheckResult
from waiting import wait_until

__all__ = ["home"]


def test_a_factory_runs_where_it_was_given() -> None:
    """On the loop that ran there, or else on that of the node; and it ends with its own clean-up done."""
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
    manager.register_factory(FIRST, factory("ambient"))

    async def story() -> None:
        manager.register_factory(SECOND, factory("here"))
        assert all((await manager.start_all(types=[FIRST, SECOND])).values())
        assert where["here"] == threading.get_ident() != where["ambient"]
        assert await manager.stop(SECOND)
        assert ended == ["here"]

    asyncio.run(story())
    assert asyncio.run(manager.stop(FIRST))
    assert ended == ["here", "ambient"]


@pytest.mark.parametrize("ends", [lambda: None, lambda: 1 / 0, lambda: sys.exit(3)])
@on_a_loop
async def test_an_end_that_nobody_asked_for_is_a_failure(ends: Callable[[], object]) -> None:
    """Returning, raising, or ending the program: the daemon is started again, and given up after its budget."""
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


@on_a_loop
async def test_a_factory_has_its_own_budget() -> None:
    """auto_restart, max_restarts and health_check_interval of a registration come before the values of the manager."""
    manager = quick(max_restart_attempts=50)
    manager.register_factory(FIRST, failing(9), auto_restart=False)
    manager.register_factory(SECOND, failing(9), max_restarts=1, health_check_interval=7.0)
    manager.register_factory(THIRD, failing(9), max_restarts=20)
    await manager.start_all(types=[FIRST, SECOND, THIRD])
    for kind in (FIRST, SECOND):
        await until(manager, kind, lambda info: info.state is DaemonState.FAILED)
    info = await until(manager, THIRD, lambda info: info.is_running)

    assert [manager.get_daemon_status(kind).restart_count for kind in (FIRST, SECOND)] == [0, 1]
    assert info.restart_count == 9
    asked = {kind: manager.get_daemon_status(kind).health_check_interval for kind in (SECOND, THIRD)}
    assert asked == {SECOND: 7.0, THIRD: manager.config.health_check_interval}


def test_the_end_of_its_loop_ends_a_daemon() -> None:
    """It is given up at once with an error that says so; who has another loop goes on."""
    manager = quick()
    manager.register_factory(SECOND, for_ever)

    async def story() -> None:
        manager.register_factory(FIRST, for_ever)
        assert all((await manager.start_all(types=[FIRST, SECOND])).values())

    asyncio.run(story())
    info = asyncio.run(until(manager, FIRST, lambda info: info.state is DaemonState.FAILED))

    assert "loop that it ran on has been closed" in info.reason
    assert info.restart_count == 0
    assert manager.is_running(SECOND)


def test_a_loop_that_does_not_answer_is_silent() -> None:
    """A daemon whose loop is held up shows no progress, is found to hang, and is named."""
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


Said = Callable[[], Any]
BAD: list[tuple[Said, str, str]] = [
    (lambda: 1 / 0, "unhealthy", "ZeroDivisionError"),
    (lambda: HealthCheckResult(False, CoordinatorStatus.STOPPED, "High error rate"), "unhealthy", "High error rate"),
    (lambda: HealthCheckResult(False, CoordinatorStatus.DEGRADED, "slow"), "degraded", "slow"),
    (lambda: {"healthy": False, "message": "no disk"}, "unhealthy", "no disk"),
    (lambda: False, "unhealthy", "says unhealthy"),
    (lambda: None, "unknown", "says nothing"),
    (lambda: "fine", "unknown", "says 'fine'"),
    (lambda: Health(part="x", status=Status.DEGRADED, reason="so so"), "degraded", "so so"),
]


@pytest.mark.parametrize("here", [True, False], ids=["own loop", "ambient loop"])
@pytest.mark.parametrize(("said", "health", "reason"), BAD)
def test_a_complaint_of_its_own_check_enters_its_health(said: Said, health: str, reason: str, here: bool) -> None:
    """Raising, saying no, and saying nothing are each found within its interval; getting well too."""
    manager, words = quick(), [said]
    daemon = Doctored(lambda: words[0]())
    if not here:
        manager.register_daemon(FIRST, daemon)

    async def story() -> None:
        if here:
            manager.register_daemon(FIRST, daemon)
        assert await manager.start(FIRST)
        info = await until(manager, FIRST, lambda info: info.health == health)
        assert reason in info.reason
        assert manager.get_all_daemon_health()[FIRST]["healthy"] is False
        words[0] = lambda: HealthCheckResult(healthy=True)
        await until(manager, FIRST, lambda info: info.healthy)
        assert await manager.stop(FIRST)

    asyncio.run(story())
    assert daemon.steps == ["start", "stop"]


@on_a_loop
async def test_a_check_that_hangs_is_unhealthy() -> None:
    """It is not waited for longer than a check may take, and the daemon is named."""

    class Hangs(Doctored):
        async def health_check(self) -> None:
            await for_ever()

    manager = quick()
    manager.register_daemon(FIRST, Hangs(), critical=True)
    assert await manager.start(FIRST)
    info = await until(manager, FIRST, lambda info: info.health == "unhealthy")

    assert "did not answer" in info.reason
    assert not manager.liveness_probe()


@on_a_loop
async def test_a_daemon_that_starts_has_a_time_of_grace() -> None:
    """Within it a complaint makes it degraded and no worse."""
    manager = quick()
    manager.register_daemon(FIRST, Doctored(lambda: False), startup_grace_period=LONG)
    assert await manager.start(FIRST)
    info = await until(manager, FIRST, lambda info: "it starts" in info.reason)

    assert info.health == "degraded"


@on_a_loop
async def test_a_factory_may_hand_its_daemon_over() -> None:
    """What it returns is asked how it is and stopped; so is asked the object whose method a factory is."""

    class Runs(Doctored):
        async def go(self) -> None:
            await for_ever()

    handed, bound = Doctored(lambda: False), Runs(lambda: False)

    async def factory() -> Doctored:
        await handed.start()
        return handed

    manager = quick()
    manager.register_factory(FIRST, factory)
    manager.register_factory(SECOND, bound.go)
    assert all((await manager.start_all(types=[FIRST, SECOND])).values())
    for kind in (FIRST, SECOND):
        await until(manager, kind, lambda info: info.health == "unhealthy")
    assert await manager.stop(FIRST)

    assert handed.steps == ["start", "stop"]


async def order_of(manager: DaemonManager, begun: list[str], **modes: Any) -> bool:
    """Register THIRD behind SECOND behind FIRST, each noting its start, and start THIRD."""

    def noting(name: str) -> Callable[[], Any]:
        async def run() -> None:
            begun.append(name)
            await for_ever()

        return run

    manager.register_factory(FIRST, noting("first"), depends_on=[DaemonType.EVENT_ROUTER])
    manager.register_factory(SECOND, noting("second"), depends_on=[FIRST])
    manager.register_factory(THIRD, noting("third"), depends_on=["TEST_SECOND"], **modes)
    return await manager.start(THIRD)


@on_a_loop
async def test_dependencies_start_first() -> None:
    """A daemon starts behind all that it depends on, and alone if it is told not to wait."""
    begun: list[str] = []

    assert await order_of(quick(), begun)
    assert begun == ["first", "second", "third"]


@on_a_loop
async def test_who_does_not_wait_starts_alone() -> None:
    """The start mode *local*, and a call that says so, look at no dependency."""
    begun: list[str] = []

    assert await order_of(quick(), begun, startup_mode="local")
    assert begun == ["third"]
    manager = quick()
    manager.register_factory(DaemonType.declare("TEST_FOURTH"), for_ever, depends_on=[SECOND])
    assert await manager.start("test_fourth", wait_for_deps=False)
    assert begun == ["third"]


@pytest.mark.parametrize("mode", ["strict", "degraded"])
@on_a_loop
async def test_what_it_depends_on_must_run(mode: str) -> None:
    """A dependency that is not built keeps it from starting; one that may start degraded says what it lacks."""
    manager = quick()
    manager.register_factory(FIRST, for_ever, depends_on=[DaemonType.DISTILLATION], startup_mode=mode)
    runs = await manager.start(FIRST)
    reason = manager.get_daemon_status(FIRST).reason

    assert runs is (mode == "degraded")
    assert "depends on" in reason
    assert "not yet: distillation" in reason


@on_a_loop
async def test_a_wish_is_waited_for_and_no_more() -> None:
    """A soft dependency that was started is waited for; one that fails or that nobody started changes nothing."""
    manager = quick(dependency_wait_timeout=LONG, dependency_poll_interval=0.01)
    manager.register_factory(FIRST, failing(1))
    manager.register_factory(SECOND, for_ever, soft_depends_on=[FIRST, THIRD, DaemonType.DISTILLATION])
    await manager.start(FIRST)

    assert await manager.start(SECOND)
    assert manager.is_running(FIRST)
    assert not manager.is_running(THIRD)


def test_a_registration_survives_the_node() -> None:
    """After a shutdown of the ambient node the manager starts what was registered on the next one."""
    manager = quick()
    manager.register_factory(FIRST, for_ever)
    assert asyncio.run(manager.start(FIRST))
    ambient.shutdown()

    assert not manager.is_running(FIRST)
    assert asyncio.run(manager.start(FIRST))
