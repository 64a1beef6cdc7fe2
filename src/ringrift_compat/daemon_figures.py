"""Daemon figures: the documented metrics, statistics and life cycle of daemons, as the supervisor counts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ringrift.kernel.errors import SupervisionError
from ringrift_compat.daemon_manager import DaemonManager, get_daemon_manager, read
from ringrift_compat.daemon_status import Book
from ringrift_compat.daemon_types import DaemonState, DaemonType

_S = DaemonState
LEGAL: Mapping[DaemonState, frozenset[DaemonState]] = {
    _S.STOPPED: frozenset({_S.STARTING, _S.IMPORT_FAILED}),
    _S.STARTING: frozenset({_S.RUNNING, _S.DEGRADED, _S.RESTARTING, _S.FAILED, _S.STOPPING, _S.STOPPED}),
    _S.RUNNING: frozenset({_S.DEGRADED, _S.RESTARTING, _S.FAILED, _S.STOPPING, _S.STOPPED}),
    _S.DEGRADED: frozenset({_S.RUNNING, _S.RESTARTING, _S.FAILED, _S.STOPPING, _S.STOPPED}),
    _S.RESTARTING: frozenset({_S.STARTING, _S.RUNNING, _S.DEGRADED, _S.FAILED, _S.STOPPING, _S.STOPPED}),
    _S.STOPPING: frozenset({_S.STOPPED, _S.FAILED}),
    _S.FAILED: frozenset({_S.STARTING, _S.STOPPED}),
    _S.IMPORT_FAILED: frozenset({_S.STARTING, _S.STOPPED}),
}
"""What may follow each state."""


@dataclass(frozen=True)
class DaemonStats:
    """What was counted of one daemon since the node opened; moments are wall time."""

    daemon_type: DaemonType
    state: DaemonState
    runs: int = 0
    failures: int = 0
    restarts: int = 0
    waits: int = 0
    stalls: int = 0
    last_error: str = ""
    last_error_time: float | None = None
    last_success: float | None = None
    last_duration_seconds: float | None = None
    history: tuple[tuple[float, str], ...] = ()
    """Moments and errors of the failures it was started again after, the latest last."""

    @property
    def success_rate(self) -> float:
        """The share of runs that went well; 1.0 before the first."""
        return 1.0 - self.failures / self.runs if self.runs else 1.0


def get_daemon_stats(daemon_type: DaemonType | str, manager: DaemonManager | None = None) -> DaemonStats:
    """What was counted of one daemon."""
    kind, own = DaemonType(daemon_type), (manager or get_daemon_manager()).registered

    def found(book: Book) -> DaemonStats:
        state, report = book.info(kind, own).state, book.report(book.unit(kind, own))
        if report is None:
            return DaemonStats(kind, state)
        return DaemonStats(
            kind, state, runs=report.runs, failures=report.failures, restarts=report.restarts, waits=report.waits,
            stalls=report.stalls, last_error=report.last_error, last_error_time=report.last_error_time,
            last_success=report.last_success, last_duration_seconds=report.last_seconds,
            history=tuple((one.time, one.error) for one in report.history),
        )  # fmt: skip

    return read(lambda node: found(Book.of(node)))


def get_all_daemon_stats(manager: DaemonManager | None = None) -> dict[DaemonType, DaemonStats]:
    """What was counted of everything that the manager's status shows."""
    chosen = manager or get_daemon_manager()
    return {kind: get_daemon_stats(kind, chosen) for kind in chosen.get_status()}


def get_daemon_metrics(manager: DaemonManager | None = None) -> dict[str, Any]:
    """The counts of all daemons together."""
    return (manager or get_daemon_manager()).get_metrics()


class DaemonMetrics:
    """The figures of one manager's daemons."""

    def __init__(self, manager: DaemonManager | None = None) -> None:
        self.manager = manager or get_daemon_manager()

    def collect(self) -> dict[str, Any]:
        """The counts of all together."""
        return get_daemon_metrics(self.manager)

    def for_daemon(self, daemon_type: DaemonType | str) -> DaemonStats:
        """The counts of one."""
        return get_daemon_stats(daemon_type, self.manager)


class DaemonLifecycleManager:
    """Starts and stops through the legal states, and knows which these are."""

    def __init__(self, manager: DaemonManager | None = None) -> None:
        self.manager = manager or get_daemon_manager()

    def state(self, daemon_type: DaemonType | str) -> DaemonState:
        """What a daemon is doing."""
        return self.manager.get_daemon_status(daemon_type).state

    @staticmethod
    def can_transition(before: DaemonState | str, after: DaemonState | str) -> bool:
        """Whether *after* may follow *before*."""
        return DaemonState(after) in LEGAL[DaemonState(before)]

    def require(self, daemon_type: DaemonType | str, after: DaemonState | str) -> None:
        """Raise SupervisionError unless *after* may follow what the daemon is doing now."""
        before = self.state(daemon_type)
        if not self.can_transition(before, after):
            allowed = ", ".join(sorted(LEGAL[before]))
            name = DaemonType(daemon_type).value
            raise SupervisionError(f"{name} is {before} and cannot become {DaemonState(after)}: next is {allowed}")

    async def start(self, daemon_type: DaemonType | str) -> bool:
        """Start one that may be started.  Raises SupervisionError for one that runs already."""
        self.require(daemon_type, DaemonState.STARTING)
        return await self.manager.start(daemon_type)

    async def stop(self, daemon_type: DaemonType | str) -> bool:
        """Stop one that may be stopped.  Raises SupervisionError for one that is stopped already."""
        self.require(daemon_type, DaemonState.STOPPED)
        return await self.manager.stop(daemon_type)

    async def restart(self, daemon_type: DaemonType | str) -> bool:
        """Stop it if it runs, and start it."""
        return await self.manager.restart(daemon_type)
