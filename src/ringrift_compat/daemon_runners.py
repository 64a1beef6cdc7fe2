"""Daemon runners: ``create_<name>()`` and ``run_<name>()`` for every daemon there is, which run it until cancelled."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

from ringrift.kernel.errors import SupervisionError
from ringrift_compat.daemon_duties import DUTIES
from ringrift_compat.daemon_manager import DaemonManager, get_daemon_manager
from ringrift_compat.daemon_types import DaemonInfo, DaemonState, DaemonType
from ringrift_compat.health import CoordinatorStatus, HealthCheckResult

LOOK_SECONDS = 0.5
"""How often a runner looks whether its daemon was stopped or given up."""
PREFIXES = ("create_", "run_")
_STATUSES = {
    DaemonState.STARTING: CoordinatorStatus.STARTING, DaemonState.RUNNING: CoordinatorStatus.RUNNING,
    DaemonState.DEGRADED: CoordinatorStatus.DEGRADED, DaemonState.RESTARTING: CoordinatorStatus.DEGRADED,
    DaemonState.STOPPING: CoordinatorStatus.STOPPING, DaemonState.STOPPED: CoordinatorStatus.STOPPED,
}  # fmt: skip

__all__ = ["DaemonRun", "get_runner", *(f"{prefix}{name.lower()}" for prefix in PREFIXES for name in DUTIES)]


class DaemonRun:
    """One daemon, to be run until cancelled, or started and stopped by hand."""

    def __init__(self, daemon_type: DaemonType | str, manager: DaemonManager | None = None) -> None:
        self.daemon_type = DaemonType(daemon_type)
        self.manager = manager or get_daemon_manager()

    @property
    def info(self) -> DaemonInfo:
        """What is known of it."""
        return self.manager.get_daemon_status(self.daemon_type)

    @property
    def is_running(self) -> bool:
        """Whether its duty is being done."""
        return self.info.is_running

    async def start(self) -> bool:
        """Start it; whether it runs."""
        return await self.manager.start(self.daemon_type)

    async def stop(self) -> bool:
        """Stop it; whether it no longer runs under this name."""
        return await self.manager.stop(self.daemon_type)

    async def run(self) -> None:
        """Run it until cancelled, which stops it, or until it is stopped by hand.

        Joins one that runs already, and leaves it running at the end.  Raises SupervisionError, with the reason, for
        one that cannot run or was given up.
        """
        joined = self.is_running
        try:
            if not joined and not await self.start() and self.info.state is not DaemonState.RESTARTING:
                raise SupervisionError(f"{self.daemon_type.value} cannot run: {self.info.reason}")
            await self._watch()
        finally:
            if not joined and self.info.state not in (DaemonState.FAILED, DaemonState.IMPORT_FAILED):
                await self.stop()

    async def _watch(self) -> None:
        while (state := self.info.state) is not DaemonState.STOPPED:
            if state is DaemonState.FAILED:
                raise SupervisionError(f"{self.daemon_type.value} was given up: {self.info.reason}")
            await asyncio.sleep(LOOK_SECONDS)

    __call__ = run

    def health_check(self) -> HealthCheckResult:
        """How it is."""
        info = self.info
        status = _STATUSES.get(info.state, CoordinatorStatus.ERROR)
        details = {"duty": info.duty, "restart_count": info.restart_count, "last_error": info.last_error}
        return HealthCheckResult(healthy=info.healthy, status=status, message=info.reason, details=details)


def get_runner(daemon_type: DaemonType | str) -> Callable[[], Awaitable[None]]:
    """The function that runs this daemon until cancelled."""
    return _runner(DaemonType(daemon_type), PREFIXES[0])


@cache
def _runner(kind: DaemonType, prefix: str) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        await DaemonRun(kind).run()

    run.__name__ = run.__qualname__ = f"{prefix}{kind.value}"
    run.__doc__ = f"Run {kind.name} until cancelled."
    return run


class DaemonFactory:
    """Makes what runs a daemon."""

    def create(self, daemon_type: DaemonType | str) -> DaemonRun:
        """What runs *daemon_type*.  Raises ValueError for a name that nobody declared."""
        return DaemonRun(daemon_type)

    def get_runner(self, daemon_type: DaemonType | str) -> Callable[[], Awaitable[None]]:
        """As the function of that name."""
        return get_runner(daemon_type)

    def is_available(self, daemon_type: DaemonType | str) -> bool:
        """Whether somebody does this duty today."""
        duty = DUTIES.get(DaemonType(daemon_type).name)
        return duty is not None and duty.kind != "later"


@cache
def get_daemon_factory() -> DaemonFactory:
    """The factory of daemons."""
    return DaemonFactory()


def __getattr__(name: str) -> Any:
    for prefix in PREFIXES:
        word = name.removeprefix(prefix)
        if word != name and word.upper() in DUTIES and word == word.lower():
            made = globals()[name] = _runner(DaemonType(word), prefix)
            return made
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}: no daemon is called so")
