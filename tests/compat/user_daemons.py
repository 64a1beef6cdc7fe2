"""User daemons for the tests of the documented manager, and what these tests share."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ringrift_compat.daemons.manager import DaemonManager
from ringrift_compat.daemons.types import DaemonInfo, DaemonManagerConfig, DaemonType
from ringrift_compat.health.protocols import HealthCheckResult
from wait import wait_until

LONG = 20.0
"""Far above what anything here takes, since machines that run tests are busy."""
FIRST, SECOND, THIRD = (DaemonType.declare(name) for name in ("TEST_FIRST", "TEST_SECOND", "TEST_THIRD"))


def quick(**values: Any) -> DaemonManager:
    """A manager that checks often and restarts soon, with these values of its own."""
    fast = {"health_check_interval": 0.05, "critical_daemon_health_interval": 0.05, "recovery_cooldown": 0.01}
    return DaemonManager(config=DaemonManagerConfig(**{**fast, **values}))


async def start(manager: DaemonManager, *kinds: DaemonType) -> list[bool]:
    """Start these daemons; which of them run."""
    return [await manager.start(kind) for kind in kinds]


async def for_ever() -> None:
    """A factory that is healthy."""
    await asyncio.Event().wait()


def failing(times: int) -> Callable[[], Awaitable[None]]:
    """A factory that fails so often and is healthy from then on."""
    left = [times]

    async def factory() -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise ValueError(f"{left[0]} more to come")
        await for_ever()

    return factory


async def until(manager: DaemonManager, kind: DaemonType, condition: Callable[[DaemonInfo], bool]) -> DaemonInfo:
    """The status of *kind*, once *condition* is true of it."""
    await wait_until(lambda: condition(manager.get_daemon_status(kind)), LONG)
    return manager.get_daemon_status(kind)


class Clinging:
    """A factory that does not end when it is cancelled, until it was cancelled often enough or is released."""

    def __init__(self, times: int) -> None:
        self.left, self.cancellations = times, 0
        self.release = asyncio.Event()

    async def __call__(self) -> None:
        """Cling."""
        while not self.release.is_set():
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                self.cancellations += 1
                if self.cancellations > self.left:
                    raise


class DaemonObject:
    """A daemon object that reports the health that a test chooses."""

    def __init__(self, health: Callable[[], Any] | None = None) -> None:
        self.steps: list[str] = []
        self.health = health or (lambda: HealthCheckResult(healthy=True))

    async def factory(self) -> "DaemonObject":
        """Start it and hand it over."""
        await self.start()
        return self

    async def start(self) -> None:
        """Begin."""
        self.steps.append("start")

    async def stop(self) -> None:
        """End."""
        self.steps.append("stop")

    def health_check(self) -> Any:
        """Return the chosen result."""
        return self.health()
