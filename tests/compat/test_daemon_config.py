"""The twelve values of a manager: each governs what it starts, and each has a test that fails when it is ignored."""

import asyncio
from typing import Any

import pytest

from compat.subscribers import async_test, home
from compat.user_daemons import FIRST, LONG, SECOND, Clinging, DaemonObject, failing, for_ever, quick, start, until
from ringrift.kernel.errors import SettingsError
from ringrift_compat.daemons.types import DaemonManagerConfig, DaemonState, DaemonType
from ringrift_compat.embedded_host import get_host
from ringrift_compat.embedded_node import embedded
from ringrift_compat.events.event_router import get_router
from ringrift_compat.events.handler_base import HandlerBase
from ringrift_compat.events.router_event import RouterEvent
from wait import wait_until

__all__ = ["home"]


def clock() -> float:
    """Seconds of the clock that measures."""
    return embedded.node().clock.tick()


def test_the_defaults_are_those_of_the_documents() -> None:
    """All twelve, as they are printed; a value out of range is refused."""
    assert DaemonManagerConfig().__dict__ == {
        "auto_start": False,
        "enable_coordination_wiring": True,
        "dependency_wait_timeout": 30.0,
        "dependency_poll_interval": 0.5,
        "health_check_interval": 30.0,
        "shutdown_timeout": 30.0,
        "force_kill_timeout": 5.0,
        "auto_restart_failed": True,
        "strict_registry_validation": False,
        "max_restart_attempts": 5,
        "recovery_cooldown": 10.0,
        "critical_daemon_health_interval": 15.0,
    }
    refused = {"health_check_interval": 0.0, "shutdown_timeout": -1.0, "max_restart_attempts": -1}
    for name, value in refused.items():
        with pytest.raises(SettingsError, match=name):
            DaemonManagerConfig(**{name: value})  # type: ignore[arg-type]  # the values are numbers


@pytest.mark.parametrize("auto_start", [False, True])
def test_auto_start_starts_everything_when_the_manager_is_made(auto_start: bool) -> None:
    """With auto_start the profile runs without another call; without it nothing does."""
    manager = quick(auto_start=auto_start)

    async def story() -> None:
        if auto_start:
            await until(manager, DaemonType.AUTO_SYNC, lambda info: info.is_running)
            await until(manager, DaemonType.MAINTENANCE, lambda info: info.is_running)
        else:
            await asyncio.sleep(0)
            assert get_host(embedded.node()) is None

    asyncio.run(story())


class Subscriber(HandlerBase):
    """A daemon that handles one event."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[RouterEvent] = []

    async def factory(self) -> "Subscriber":
        """It only works when it is wired."""
        return self

    def stop(self) -> None:
        """There is nothing to end."""

    def _get_event_subscriptions(self) -> dict[str, Any]:
        return {"EVENT_A": self._on_event}

    async def _on_event(self, event: RouterEvent) -> None:
        self.events.append(event)


@pytest.mark.parametrize("wired", [False, True])
@async_test
async def test_wiring_subscribes_the_handlers_of_a_daemon(wired: bool) -> None:
    """A daemon object gets its events while it runs, and none where the wiring is off."""
    manager, daemon = quick(enable_coordination_wiring=wired), Subscriber()
    manager.register_factory(FIRST, daemon.factory)
    assert await manager.start(FIRST)

    assert daemon.is_subscribed is wired
    await get_router().publish("EVENT_A", {"n": 1})
    if wired:
        await wait_until(lambda: len(daemon.events) == 1, LONG)
    await manager.stop(FIRST)
    assert not daemon.is_subscribed


@async_test
async def test_the_wait_for_dependencies_has_a_limit() -> None:
    """A dependency that does not run in time keeps a daemon from starting, and the reason names it."""
    manager = quick(dependency_wait_timeout=0.2, dependency_poll_interval=0.05, recovery_cooldown=2.0)
    manager.register_factory(FIRST, failing(1))
    manager.register_factory(SECOND, for_ever, depends_on=[FIRST])
    began = clock()
    assert not await manager.start(SECOND)

    assert 0.2 <= clock() - began < 2.0
    assert "it depends on test_first, which does not run" in manager.get_daemon_status(SECOND).reason
    await until(manager, FIRST, lambda info: info.is_running)
    assert await manager.start(SECOND)


@async_test
async def test_dependencies_are_polled_at_their_interval() -> None:
    """A dependency that starts at its second attempt is noticed at the next poll, and not before."""
    manager = quick(dependency_poll_interval=0.9)
    manager.register_factory(FIRST, failing(1))
    manager.register_factory(SECOND, for_ever, depends_on=[FIRST])
    began = clock()

    assert await manager.start(SECOND)
    assert clock() - began >= 0.8
    assert manager.get_daemon_status(FIRST).restart_count == 1


@pytest.mark.parametrize(
    ("critical", "value"), [(False, "health_check_interval"), (True, "critical_daemon_health_interval")]
)
@async_test
async def test_daemons_are_checked_at_the_configured_interval(critical: bool, value: str) -> None:
    """The check of a daemon, critical or not, runs at its own interval and not at that of the others."""
    other = {"health_check_interval", "critical_daemon_health_interval"} - {value}
    manager = quick(**{value: 0.05, other.pop(): 3600.0})
    checks: list[float] = []

    def check() -> bool:
        checks.append(clock())
        return True

    manager.register_factory(FIRST, DaemonObject(check).factory, critical=critical)
    manager.register_factory(SECOND, DaemonObject(lambda: 1 / 0).factory, critical=not critical)
    assert await manager.start(FIRST)
    assert await manager.start(SECOND)
    await wait_until(lambda: len(checks) >= 3, LONG)

    assert manager.get_daemon_status(FIRST).health_check_interval == 0.05
    assert manager.get_daemon_status(SECOND).health_check_interval == 3600.0
    before = len(checks)
    await wait_until(lambda: len(checks) >= before + 3, LONG)


@async_test
async def test_our_daemons_obey_the_config_too() -> None:
    """A daemon of ours that a manager starts has the manager's budget, pause and interval."""
    manager = quick(max_restart_attempts=3, recovery_cooldown=0.5, health_check_interval=7.0)
    assert await manager.start(DaemonType.AUTO_SYNC)
    whole = get_host(embedded.node())
    assert whole is not None
    spec = whole.supervisor.spec("replicate")

    assert (spec.restart.times, spec.restart.first_seconds, spec.check_seconds) == (3, 0.5, 7.0)
    assert manager.get_daemon_status(DaemonType.AUTO_SYNC).max_restarts == 3


@async_test
async def test_a_shutdown_has_a_timeout_and_a_grace() -> None:
    """A daemon that ignores the first stop has until the timeout; then all are stopped again within the grace
    period."""
    manager = quick(shutdown_timeout=0.3, force_kill_timeout=LONG)
    stubborn = Clinging(times=1)
    manager.register_factory(FIRST, for_ever)
    manager.register_factory(SECOND, stubborn)
    assert all(await start(manager, FIRST, SECOND))
    began = clock()
    ended = await manager.shutdown()

    assert ended == {FIRST: True, SECOND: True}
    assert 0.3 <= clock() - began < LONG
    assert stubborn.cancellations == 2


@pytest.mark.parametrize("force", [False, True])
@async_test
async def test_a_daemon_that_never_ends_is_left_behind(force: bool) -> None:
    """After the grace period the shutdown ends without it, and the status shows that it still runs."""
    manager = quick(shutdown_timeout=LONG, force_kill_timeout=0.1)
    stubborn = Clinging(times=1000)
    manager.register_factory(FIRST, stubborn)
    assert await manager.start(FIRST)
    began = clock()
    try:
        ended = await manager.shutdown(timeout=0.2, force=force)
        assert ended == {FIRST: False}
        assert clock() - began < 4.0, "the default grace period alone is longer"
        assert manager.get_daemon_status(FIRST).state is DaemonState.STOPPING
        assert "still runs" in manager.get_all_daemon_health()[FIRST]["reason"]
    finally:
        stubborn.release.set()
    await until(manager, FIRST, lambda info: info.state is DaemonState.STOPPED)


@pytest.mark.parametrize(("again", "restarts"), [(True, 2), (False, 0)])
@async_test
async def test_a_failed_daemon_restarts_if_configured(again: bool, restarts: int) -> None:
    """Without auto-restart the first failure is the last."""
    manager = quick(auto_restart_failed=again)
    manager.register_factory(FIRST, failing(2))
    await manager.start(FIRST)
    info = await until(manager, FIRST, lambda info: info.state in (DaemonState.FAILED, DaemonState.DEGRADED))

    assert info.restart_count == restarts
    assert manager.is_permanently_failed(FIRST) is not again


@pytest.mark.parametrize("strict", [False, True])
@async_test
async def test_a_wrong_registry_is_an_error_or_a_reason(strict: bool) -> None:
    """A dependency cycle or an unregistered name keeps a daemon from starting; a strict manager raises."""
    manager = quick(strict_registry_validation=strict)
    manager.register_factory(FIRST, for_ever, depends_on=[SECOND])
    manager.register_factory(SECOND, for_ever, depends_on=[FIRST])
    unknown = DaemonType.declare("TEST_NOBODY")
    if strict:
        with pytest.raises(SettingsError, match="test_first → test_second → test_first"):
            await manager.start(FIRST)
        with pytest.raises(SettingsError, match="no daemon is registered"):
            await manager.start(unknown)
        return

    assert not await manager.start(FIRST)
    assert "it depends on itself: test_first → test_second → test_first" in manager.get_daemon_status(FIRST).reason
    assert not await manager.start(unknown)
    assert "register_factory" in manager.get_daemon_status(unknown).reason


@pytest.mark.parametrize("times", [1, 3])
@async_test
async def test_a_daemon_has_a_failure_budget(times: int) -> None:
    """One more failure and it is given up, until it is cleared."""
    manager = quick(max_restart_attempts=times)
    manager.register_factory(FIRST, failing(times + 1))
    await manager.start(FIRST)
    info = await until(manager, FIRST, lambda info: info.state is DaemonState.FAILED)

    assert info.restart_count == times
    assert manager.is_permanently_failed(FIRST)
    assert not await manager.start(FIRST)
    assert "clear_permanently_failed" in manager.get_daemon_status(FIRST).reason
    assert manager.clear_permanently_failed(FIRST)
    assert not manager.is_permanently_failed(FIRST)
    await until(manager, FIRST, lambda info: info.is_running)
    assert not manager.clear_permanently_failed(FIRST)


@async_test
async def test_a_failure_is_followed_by_the_cooldown() -> None:
    """The second start comes after the cooldown."""
    starts: list[float] = []

    async def fails_once() -> None:
        starts.append(clock())
        if len(starts) == 1:
            raise ValueError("once")
        await for_ever()

    manager = quick(recovery_cooldown=0.4)
    manager.register_factory(FIRST, fails_once)
    await manager.start(FIRST)
    assert manager.get_daemon_status(FIRST).state is DaemonState.RESTARTING
    await until(manager, FIRST, lambda info: info.is_running)

    assert starts[1] - starts[0] >= 0.4
