"""Guests: daemons of users for the tests of the documented manager, and what these tests share."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ringrift_compat.daemon_manager import DaemonManager
from ringrift_compat.daemon_types import DaemonInfo, DaemonManagerConfig, DaemonType
from ringrift_compat.health import HealthCheckResult
from waiting import wait_until

LONG = 20.0
"""Far above what anything here takes, since machines that run tests are busy."""
FIRST, SECOND, THIRD = (DaemonType.declare(name) for name in ("TEST_FIRST", "TEST_SECOND", "TEST_THIRD"))


def quick(**values: Any) -> DaemonManager:
    """A manager that looks often and starts again soon, with these values of its own."""
    fast = {"health_check_interval": 0.05, "critical_daemon_health_interval": 0.05, "recovery_cooldown": 0.01}
    return DaemonManager(config=DaemonManagerConfig(**{**fast, **values}))


async def for_ever() -> None:
    """A factory that is well."""
    await asyncio.Event().wait()


def failing(times: int) -> Callable[[], Awaitable[None]]:
    """A factory that fails so often and is well from then on."""
    left = [times]

    async def factory() -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise ValueError(f"{left[0]} more to come")
        await for_ever()

    return factory


async def until(manager: DaemonManager, kind: DaemonType, holds: Callable[[DaemonInfo], bool]) -> DaemonInfo:
    """What is known of *kind*, once that holds."""
    await wait_until(lambda: holds(manager.get_daemon_status(kind)), LONG)
    return manager.get_daemon_status(kind)


class Clinging:
    """A factory that does not end when it is told to, until it has been told often enough or is let go."""

    def __init__(self, times: int) -> None:
        self.left, self.told = times, 0
        self.let_go = asyncio.Event()

    async def __call__(self) -> None:
        """Cling."""
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                self.told += 1
                if self.told > self.left:
                    raise


class Doctored:
    """A daemon object that says of itself what it was told to."""

    def __init__(self, said: Callable[[], Any] | None = None) -> None:
        self.steps: list[str] = []
        self.said = said or (lambda: HealthCheckResult(healthy=True))

    async def start(self) -> None:
        """Begin."""
        self.steps.append("start")

    async def stop(self) -> None:
        """End."""
        self.steps.append("stop")

    def health_check(self) -> Any:
        """As told."""
        return self.said()
