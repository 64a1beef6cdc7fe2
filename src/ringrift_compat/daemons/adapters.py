"""Daemon adapters: daemons that run only while this process holds their role."""

import asyncio
import logging
from typing import ClassVar

from ringrift.threads import to_its_end
from ringrift_compat.daemons.manager import DaemonManager
from ringrift_compat.daemons.runners import DaemonRunner
from ringrift_compat.daemons.types import DaemonType
from ringrift_compat.health.protocols import CoordinatorStatus, HealthCheckResult
from ringrift_compat.tasks import orchestrator_registry as roles

_ROLE_SECONDS = 5.0
"""Between two attempts to get a role that another process holds, and two checks whether it is still ours."""
log = logging.getLogger(__name__)


class _DaemonAdapter(DaemonRunner):
    """Runs one daemon under one role, until cancelled."""

    role: ClassVar[str | None] = None

    def __init__(
        self,
        daemon_type: DaemonType | str | None = None,
        manager: DaemonManager | None = None,
        *,
        role_seconds: float = _ROLE_SECONDS,
    ) -> None:
        super().__init__(daemon_type, manager)
        self._seconds = role_seconds
        self.holds_role = self._has_requested = False

    async def run(self) -> None:
        """Wait for the role, run the daemon under it until cancelled, and release the role.

        Raises NotYet for a daemon whose duty is not built: its role stays free.
        """
        self.require_duty()
        try:
            while not await self._run_under_role():
                log.warning("%s has lost its role %s and waits for it", self.daemon_type.value, self.role)
        finally:
            # A cancelled request may have got the role.
            if self.role is not None and self._has_requested:
                self.holds_role = self._has_requested = False
                await to_its_end(None, roles.release_orchestrator_role, self.role)

    async def _run_under_role(self) -> bool:
        """Run until the daemon was stopped, or the role is lost; whether it was stopped.  Raises its error."""
        while self.role is not None and not self.holds_role:
            self._has_requested = True
            self.holds_role = await to_its_end(None, roles.acquire_orchestrator_role, self.role)
            if not self.holds_role:
                await asyncio.sleep(self._seconds)
        daemon = asyncio.ensure_future(super().run())
        try:
            while self.holds_role or self.role is None:
                done, _ = await asyncio.wait((daemon,), timeout=self._seconds)
                if done:
                    daemon.result()
                    return True
                if self.role is not None:
                    self.holds_role = await to_its_end(None, roles.has_orchestrator_role, self.role)
            return False
        finally:
            daemon.cancel()
            await asyncio.wait((daemon,))

    def health_check(self) -> HealthCheckResult:
        """The health of the daemon; without the role it is healthy that nothing runs here, if the duty is built."""
        if self.role is not None and not self.holds_role and self.unbuilt_duty() is None:
            return HealthCheckResult(True, CoordinatorStatus.READY, f"waits for the role {self.role}")
        return super().health_check()


class DistillationDaemonAdapter(_DaemonAdapter):
    """Distillation, under the role DISTILLATION_LEADER."""

    role, default = "distillation_leader", DaemonType.DISTILLATION


class PromotionDaemonAdapter(_DaemonAdapter):
    """Promotion, under the role PROMOTION_LEADER."""

    role, default = "promotion_leader", DaemonType.UNIFIED_PROMOTION


class ExternalDriveSyncAdapter(_DaemonAdapter):
    """Sync with external drives, under the role EXTERNAL_SYNC_LEADER."""

    role, default = "external_sync_leader", DaemonType.EXTERNAL_DRIVE_SYNC


class VastCpuPipelineAdapter(_DaemonAdapter):
    """The pipeline on rented processors, under the role VAST_PIPELINE_LEADER."""

    role, default = "vast_pipeline_leader", DaemonType.VAST_CPU_PIPELINE


_ADAPTERS: dict[DaemonType, type[_DaemonAdapter]] = {
    DaemonType.DISTILLATION: DistillationDaemonAdapter,
    DaemonType.UNIFIED_PROMOTION: PromotionDaemonAdapter,
    DaemonType.AUTO_PROMOTION: PromotionDaemonAdapter,
    DaemonType.EXTERNAL_DRIVE_SYNC: ExternalDriveSyncAdapter,
    DaemonType.VAST_CPU_PIPELINE: VastCpuPipelineAdapter,
}


def get_daemon_adapter(daemon_type: DaemonType | str, manager: DaemonManager | None = None) -> _DaemonAdapter:
    """The adapter that runs *daemon_type*, under its role where it has one."""
    kind = DaemonType(daemon_type)
    return _ADAPTERS.get(kind, _DaemonAdapter)(kind, manager)
