"""Daemon adapters: daemons that run only where their role is held: take it, do the duty, give it back."""

import asyncio
import logging
from collections.abc import Mapping

from ringrift.kernel.errors import SupervisionError
from ringrift.threads import to_its_end
from ringrift_compat import roles
from ringrift_compat.daemon_manager import DaemonManager
from ringrift_compat.daemon_runners import DaemonRun
from ringrift_compat.daemon_types import DaemonState, DaemonType
from ringrift_compat.health import CoordinatorStatus, HealthCheckResult

ROLE_SECONDS = 5.0
"""Between two tries to take a role that another process holds, and two looks whether it is still ours."""
log = logging.getLogger(__name__)


class DaemonAdapter:
    """Runs one daemon under one role, for as long as it is not cancelled."""

    role: str | None = None
    default: DaemonType | None = None

    def __init__(
        self, daemon_type: DaemonType | str | None = None, manager: DaemonManager | None = None, *,
        role_seconds: float = ROLE_SECONDS,
    ) -> None:  # fmt: skip
        kind = daemon_type or self.default
        if kind is None:
            raise SupervisionError(f"{type(self).__name__} needs a daemon_type")
        self._run, self._seconds = DaemonRun(kind, manager), role_seconds
        self.holds_role = self._asked = False

    @property
    def daemon_type(self) -> DaemonType:
        """What it runs."""
        return self._run.daemon_type

    async def run(self) -> None:
        """Wait for the role, run the duty under it until cancelled, and give the role back.

        What is not built yet holds its role and does nothing: the health says so.
        """
        try:
            over = False
            while not over:
                await self._take()
                over = await self._under_role()
        finally:
            await self._give_back()

    async def _take(self) -> None:
        """Return once the role is ours; where there is none, at once."""
        while self.role is not None and not self.holds_role:
            self._asked = True
            self.holds_role = await to_its_end(None, roles.acquire_orchestrator_role, self.role)
            if not self.holds_role:
                await asyncio.sleep(self._seconds)

    async def _under_role(self) -> bool:
        """Run the duty until it was stopped by hand, or the role has gone; whether it is over.

        A duty that is given up is an error that travels.
        """
        duty = asyncio.ensure_future(self._duty())
        try:
            while self.holds_role or self.role is None:
                done, _ = await asyncio.wait((duty,), timeout=self._seconds)
                if done:
                    duty.result()
                    return True
                if self.role is not None:
                    self.holds_role = await to_its_end(None, roles.has_orchestrator_role, self.role)
            log.warning("%s has lost its role %s and stops until it gets it back", self.daemon_type.value, self.role)
            return False
        finally:
            duty.cancel()
            await asyncio.wait((duty,))

    async def _duty(self) -> None:
        try:
            await self._run.run()
        except SupervisionError:
            if self._run.info.state is not DaemonState.IMPORT_FAILED:
                raise
            log.warning("%s holds its role and does nothing: %s", self.daemon_type.value, self._run.info.reason)
            await asyncio.Event().wait()

    async def _give_back(self) -> None:
        # Who was cancelled while asking may have got it.
        if self.role is not None and self._asked:
            self.holds_role = self._asked = False
            await to_its_end(None, roles.release_orchestrator_role, self.role)

    def health_check(self) -> HealthCheckResult:
        """How the duty is; without the role it is no failure that nothing runs here."""
        if self.role is not None and not self.holds_role:
            message = f"waits for the role {self.role}"
            return HealthCheckResult(healthy=True, status=CoordinatorStatus.READY, message=message)
        return self._run.health_check()


class DistillationDaemonAdapter(DaemonAdapter):
    """Distillation, under the role DISTILLATION_LEADER."""

    role, default = "distillation_leader", DaemonType.DISTILLATION


class PromotionDaemonAdapter(DaemonAdapter):
    """Promotion, under the role PROMOTION_LEADER."""

    role, default = "promotion_leader", DaemonType.UNIFIED_PROMOTION


class ExternalDriveSyncAdapter(DaemonAdapter):
    """Sync with external drives, under the role EXTERNAL_SYNC_LEADER."""

    role, default = "external_sync_leader", DaemonType.EXTERNAL_DRIVE_SYNC


class VastCpuPipelineAdapter(DaemonAdapter):
    """The pipeline on rented processors, under the role VAST_PIPELINE_LEADER."""

    role, default = "vast_pipeline_leader", DaemonType.VAST_CPU_PIPELINE


ADAPTERS: Mapping[DaemonType, type[DaemonAdapter]] = {
    DaemonType.DISTILLATION: DistillationDaemonAdapter,
    DaemonType.UNIFIED_PROMOTION: PromotionDaemonAdapter,
    DaemonType.AUTO_PROMOTION: PromotionDaemonAdapter,
    DaemonType.EXTERNAL_DRIVE_SYNC: ExternalDriveSyncAdapter,
    DaemonType.VAST_CPU_PIPELINE: VastCpuPipelineAdapter,
}


def get_daemon_adapter(daemon_type: DaemonType | str, manager: DaemonManager | None = None) -> DaemonAdapter:
    """What runs *daemon_type*, under its role where it has one."""
    kind = DaemonType(daemon_type)
    return ADAPTERS.get(kind, DaemonAdapter)(kind, manager)
