"""Runners: one daemon of the manager as a thing of its own, to be run until cancelled or started and stopped."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import ClassVar

from ringrift.kernel.errors import SupervisionError
from ringrift_compat.daemons.duties import DUTIES, Duty, NotYet
from ringrift_compat.daemons.manager import DaemonManager, get_daemon_manager
from ringrift_compat.daemons.types import DaemonInfo, DaemonState, DaemonType
from ringrift_compat.health.protocols import HealthCheckResult

_POLL_SECONDS = 0.5
"""How often a runner looks whether its daemon was stopped or given up."""


class DaemonRunner:
    """One daemon of this program's node: two runners of one type are the same daemon."""

    default: ClassVar[DaemonType | None] = None

    def __init__(self, daemon_type: DaemonType | str | None = None, manager: DaemonManager | None = None) -> None:
        self.daemon_type = DaemonType(daemon_type or self.default or "")
        self.manager = manager or get_daemon_manager()

    @classmethod
    def get_instance(cls) -> "DaemonRunner":
        """A runner like any other of its class."""
        return cls()

    @property
    def info(self) -> DaemonInfo:
        """The status of the daemon."""
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
        """Run it until cancelled, which stops it, or until it is stopped otherwise.

        Joins one that runs already, and leaves it running at the end.  Raises NotYet for one whose duty is not built,
        SupervisionError, with the reason, for one that cannot run or was given up.
        """
        self.require_duty()
        has_joined = self.is_running
        try:
            if not has_joined and not await self.start() and self.info.state is not DaemonState.RESTARTING:
                raise SupervisionError(f"{self.daemon_type.value} cannot run: {self.info.reason}")
            while (state := self.info.state) is not DaemonState.STOPPED:
                if state is DaemonState.FAILED:
                    raise SupervisionError(f"{self.daemon_type.value} was given up: {self.info.reason}")
                await asyncio.sleep(_POLL_SECONDS)
        finally:
            if not has_joined and self.info.state not in (DaemonState.FAILED, DaemonState.IMPORT_FAILED):
                await self.stop()

    def require_duty(self) -> None:
        """Raise NotYet if nothing does the duty of this daemon yet, SupervisionError if it is retired."""
        duty, name = self.unbuilt_duty(), self.daemon_type.value
        if duty is not None and duty.kind == "later":
            raise NotYet(name, duty.target.removeprefix("not yet: "))
        if duty is not None:
            raise SupervisionError(f"{name} cannot run: {duty.target}")

    def unbuilt_duty(self) -> Duty | None:
        """The duty of this daemon if nothing does it, and no user has registered a factory for it."""
        duty = DUTIES.get(self.daemon_type.name)
        return duty if duty is not None and not duty.is_done and self.info.duty == duty.target else None

    def health_check(self) -> HealthCheckResult:
        """The health of the daemon; one that does not run is not healthy."""
        return self.info.to_result()


def get_runner(daemon_type: DaemonType | str) -> Callable[[], Awaitable[None]]:
    """The function that runs this daemon until cancelled."""
    return DaemonRunner(daemon_type).run


class UnifiedDistributionDaemon(DaemonRunner):
    """The daemon MODEL_DISTRIBUTION."""

    default = DaemonType.MODEL_DISTRIBUTION


class UnifiedReplicationDaemon(DaemonRunner):
    """The daemon REPLICATION_MONITOR."""

    default = DaemonType.REPLICATION_MONITOR


class UnifiedQueuePopulator(DaemonRunner):
    """The daemon QUEUE_POPULATOR."""

    default = DaemonType.QUEUE_POPULATOR


class DataConsolidationDaemon(DaemonRunner):
    """The daemon DATA_CONSOLIDATION."""

    default = DaemonType.DATA_CONSOLIDATION


class DiskSpaceManagerDaemon(DaemonRunner):
    """The daemon DISK_SPACE_MANAGER."""

    default = DaemonType.DISK_SPACE_MANAGER


class OrphanDetectionDaemon(DaemonRunner):
    """The daemon ORPHAN_DETECTION."""

    default = DaemonType.ORPHAN_DETECTION


class S3BackupDaemon(DaemonRunner):
    """The daemon S3_BACKUP."""

    default = DaemonType.S3_BACKUP


class TrainingActivityDaemon(DaemonRunner):
    """The daemon TRAINING_NODE_WATCHER."""

    default = DaemonType.TRAINING_NODE_WATCHER
