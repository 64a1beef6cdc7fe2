"""The twelve values of a manager: each governs what it starts, and each has a test that fails when it is ignored."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from compat.ears import home, on_a_loop
from compat.guests import FIRST, LONG, SECOND, Clinging, Doctored, failing, for_ever, quick, until
from ringrift.kernel.errors import SettingsError
from ringrift_compat.ambient import ambient
from ringrift_compat.daemon_types import DaemonManagerConfig, DaemonState, DaemonType
from ringrift_compat.events import get_router
from ringrift_compat.handlers import HandlerBase
from ringrift_compat.hosting import hosted
from ringrift_compat.router_event import RouterEvent
from waiting import wait_until

__all__ = ["home"]


def clock() -> float:
    """Seconds of the clock that measures."""
    return ambient.node().clock.tick()


def test_the_defaults_are_those_of_the_documents() -> None:
    """All twelve, as they are printed; a value out of range is refused."""
    found = DaemonManagerConfig()

    assert found.__dict__ == {
        "auto_start": False, "enable_coordination_wiring": True, "dependency_wait_timeout": 30.0,
        "dependency_poll_interval": 0.5, "health_check_interval": 30.0, "shutdown_timeout": 30.0,
        "force_kill_timeout": 5.0, "auto_restart_failed": True, "strict_registry_validation": False,
        "max_restart_attempts": 5, "recovery_cooldown": 10.0, "critical_daemon_health_interval": 15.0,
    }  # fmt: skip
    wrong: list[Mapping[str, Any]] = [
        {"health_check_interval": 0.0}, {"shutdown_timeout": -1.0}, {"max_restart_attempts": -1},
    ]  # fmt: skip
    for values in wrong:
        with pytest.raises(SettingsError, match=next(iter(values))):
            DaemonManagerConfig(**values)


@pytest.mark.parametrize("auto_start", [False, True])
def test_auto_start_starts_everything_when_the_manager_is_made(auto_start: bool) -> None:
    """With it the profile runs without another word; without it nothing does."""
    manager = quick(auto_start=auto_start)

    async def story() -> None:
        if auto_start:
            await until(manager, DaemonType.AUTO_SYNC, lambda info: info.is_running)
            await until(manager, DaemonType.MAINTENANCE, lambda info: info.is_running)
        else:
            await asyncio.sleep(0)
            assert hosted(ambient.node()) is None

    asyncio.run(story())


class Listens(HandlerBase):
    """A daemon that listens to one event."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[RouterEvent] = []

    def start(self) -> None:
        """It only works when it is wired."""

    def stop(self) -> None:
        """There is nothing to end."""

    def _get_event_subscriptions(self) -> dict[str, Any]:
        return {"EVENT_A": self._on_event}

    async def _on_event(self, event: RouterEvent) -> None:
        self.heard.append(event)


@pytest.mark.parametrize("wired", [False, True])
@on_a_loop
async def test_wiring_subscribes_what_a_daemon_listens_to(wired: bool) -> None:
    """A daemon object hears its events while it runs, and not at all where the wiring is off."""
    manager, daemon = quick(enable_coordination_wiring=wired), Listens()
    manager.register_daemon(FIRST, daemon)
    assert await manager.start(FIRST)

    assert daemon.is_subscribed is wired
    await get_router().publish("EVENT_A", {"n": 1})
    if wired:
        await wait_until(lambda: len(daemon.heard) == 1, LONG)
    await manager.stop(FIRST)
    assert not daemon.is_subscribed


class Slow(Doctored):
    """A daemon that starts when it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()

    async def start(self) -> None:
        """Begin, late."""
        await self.go.wait()


@on_a_loop
async def test_dependencies_are_waited_for_so_long() -> None:
    """One that does not begin in time keeps who depends on it from starting, and the reason names it."""
    manager, slow = quick(dependency_wait_timeout=0.2, health_check_interval=5.0), Slow()
    manager.register_daemon(FIRST, slow)
    manager.register_factory(SECOND, for_ever, depends_on=[FIRST])
    begun = clock()
    assert not await manager.start(SECOND)

    assert 0.2 <= clock() - begun < 5.0
    assert "it depends on test_first, which does not run" in manager.get_daemon_status(SECOND).reason
    slow.go.set()
    assert await manager.start(SECOND)


@on_a_loop
async def test_dependencies_are_looked_at_so_often() -> None:
    """One that comes with its second try is seen at the next look, and not before."""
    manager = quick(dependency_poll_interval=0.9)
    manager.register_factory(FIRST, failing(1))
    manager.register_factory(SECOND, for_ever, depends_on=[FIRST])
    begun = clock()

    assert await manager.start(SECOND)
    assert clock() - begun >= 0.8
    assert manager.get_daemon_status(FIRST).restart_count == 1


@pytest.mark.parametrize(
    ("critical", "value"), [(False, "health_check_interval"), (True, "critical_daemon_health_interval")]
)
@on_a_loop
async def test_daemons_are_asked_as_often_as_the_value_says(critical: bool, value: str) -> None:
    """The check of a daemon, critical or not, is asked in its own interval and not in that of the others."""
    other = {"health_check_interval", "critical_daemon_health_interval"} - {value}
    manager = quick(**{value: 0.05, other.pop(): 3600.0})
    asked: list[float] = []

    def said() -> bool:
        asked.append(clock())
        return True

    manager.register_daemon(FIRST, Doctored(said), critical=critical)
    manager.register_daemon(SECOND, Doctored(lambda: 1 / 0), critical=not critical)
    assert await manager.start(FIRST)
    assert await manager.start(SECOND)
    await wait_until(lambda: len(asked) >= 3, LONG)

    assert manager.get_daemon_status(FIRST).health_check_interval == 0.05
    assert manager.get_daemon_status(SECOND).health_check_interval == 3600.0
    before = len(asked)
    await wait_until(lambda: len(asked) >= before + 3, LONG)


@on_a_loop
async def test_daemons_of_ours_are_governed_too() -> None:
    """What a manager starts of ours has its budget, its pause and its interval."""
    manager = quick(max_restart_attempts=3, recovery_cooldown=0.5, health_check_interval=7.0)
    assert await manager.start(DaemonType.AUTO_SYNC)
    whole = hosted(ambient.node())
    assert whole is not None
    spec = whole.supervisor.spec("replicate")

    assert (spec.restart.times, spec.restart.first_seconds, spec.look_seconds) == (3, 0.5, 7.0)
    assert manager.get_daemon_status(DaemonType.AUTO_SYNC).max_restarts == 3


@on_a_loop
async def test_a_shutdown_takes_so_long_and_then_a_little() -> None:
    """Who ignores the first word has until the timeout; then all are told again, with the rest of the time."""
    manager = quick(shutdown_timeout=0.3, force_kill_timeout=LONG)
    stubborn = Clinging(times=1)
    manager.register_factory(FIRST, for_ever)
    manager.register_factory(SECOND, stubborn)
    assert all((await manager.start_all(types=[FIRST, SECOND])).values())
    begun = clock()
    ended = await manager.shutdown()

    assert ended == {FIRST: True, SECOND: True}
    assert 0.3 <= clock() - begun < LONG
    assert stubborn.told == 2


@pytest.mark.parametrize("force", [False, True])
@on_a_loop
async def test_what_never_ends_is_left_behind(force: bool) -> None:
    """After its last seconds the shutdown is over without it, and everybody can see that it still runs."""
    manager = quick(shutdown_timeout=LONG, force_kill_timeout=0.1)
    stubborn = Clinging(times=1000)
    manager.register_factory(FIRST, stubborn)
    assert await manager.start(FIRST)
    begun = clock()
    try:
        ended = await manager.shutdown(timeout=0.2, force=force)
        assert ended == {FIRST: False}
        assert clock() - begun < 4.0, "the default of the second word alone is longer"
        assert manager.get_daemon_status(FIRST).state is DaemonState.STOPPING
        assert "still runs" in manager.get_all_daemon_health()[FIRST]["reason"]
    finally:
        stubborn.let_go.set()
    await until(manager, FIRST, lambda info: info.state is DaemonState.STOPPED)


@pytest.mark.parametrize(("again", "restarts"), [(True, 2), (False, 0)])
@on_a_loop
async def test_what_fails_is_started_again_if_that_is_wished(again: bool, restarts: int) -> None:
    """Without it the first failure is the last."""
    manager = quick(auto_restart_failed=again)
    manager.register_factory(FIRST, failing(2))
    await manager.start(FIRST)
    info = await until(manager, FIRST, lambda info: info.state in (DaemonState.FAILED, DaemonState.DEGRADED))

    assert info.restart_count == restarts
    assert manager.is_permanently_failed(FIRST) is not again


@pytest.mark.parametrize("strict", [False, True])
@on_a_loop
async def test_a_wrong_registry_is_an_error_or_a_reason(strict: bool) -> None:
    """A circle and a name that nobody registered keep a daemon from starting; a strict manager raises."""
    manager = quick(strict_registry_validation=strict)
    manager.register_factory(FIRST, for_ever, depends_on=[SECOND])
    manager.register_factory(SECOND, for_ever, depends_on=[FIRST])
    unknown = DaemonType.declare("TEST_NOBODY")
    if strict:
        with pytest.raises(SettingsError, match="test_first → test_second → test_first"):
            await manager.start(FIRST)
        with pytest.raises(SettingsError, match="nothing is registered"):
            await manager.start(unknown)
        return

    assert not await manager.start(FIRST)
    assert "it depends on itself: test_first → test_second → test_first" in manager.get_daemon_status(FIRST).reason
    assert not await manager.start(unknown)
    assert "register_factory" in manager.get_daemon_status(unknown).reason


@pytest.mark.parametrize("times", [1, 3])
@on_a_loop
async def test_a_daemon_may_fail_so_often(times: int) -> None:
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


@on_a_loop
async def test_a_failure_is_followed_by_so_long_a_pause() -> None:
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
