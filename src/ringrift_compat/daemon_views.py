"""The documented daemon classes whose duty is done here: each is a view of one daemon of the manager, and no more."""

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

from ringrift_compat.daemon_figures import get_daemon_stats
from ringrift_compat.daemon_manager import get_daemon_manager
from ringrift_compat.daemon_types import DaemonState, DaemonType
from ringrift_compat.health import CoordinatorStatus, HealthCheckResult

CLASSES: Mapping[str, str] = {
    "AutoExportDaemon": "AUTO_EXPORT",
    "AutoPromotionDaemon": "AUTO_PROMOTION",
    "EvaluationDaemon": "EVALUATION",
    "TrainingTriggerDaemon": "TRAINING_TRIGGER",
    "ModelDistributionDaemon": "MODEL_DISTRIBUTION",
    "NpzDistributionDaemon": "NPZ_DISTRIBUTION",
    "UnifiedDistributionDaemon": "MODEL_DISTRIBUTION",
    "UnifiedReplicationDaemon": "REPLICATION_MONITOR",
    "UnifiedQueuePopulator": "QUEUE_POPULATOR",
    "WorkQueueMonitorDaemon": "WORK_QUEUE_MONITOR",
    "TournamentDaemon": "TOURNAMENT_DAEMON",
    "MaintenanceDaemon": "MAINTENANCE",
    "FeedbackLoopController": "FEEDBACK_LOOP",
    "GauntletFeedbackController": "GAUNTLET_FEEDBACK",
    "ModelPerformanceWatchdog": "MODEL_PERFORMANCE_WATCHDOG",
    "ClusterMonitorDaemon": "CLUSTER_MONITOR",
}
"""Class → the daemon that it is a view of."""
_STATUSES = {
    DaemonState.RUNNING: CoordinatorStatus.RUNNING,
    DaemonState.DEGRADED: CoordinatorStatus.DEGRADED,
    DaemonState.STARTING: CoordinatorStatus.STARTING,
    DaemonState.RESTARTING: CoordinatorStatus.STARTING,
    DaemonState.STOPPING: CoordinatorStatus.STOPPING,
    DaemonState.FAILED: CoordinatorStatus.ERROR,
    DaemonState.IMPORT_FAILED: CoordinatorStatus.ERROR,
}


class DaemonView:
    """One daemon of this program's node: two of a class are the same daemon."""

    DAEMON: ClassVar[DaemonType]

    @classmethod
    def get_instance(cls) -> "DaemonView":
        """A view like any other."""
        return cls()

    async def start(self) -> bool:
        """Start the daemon; whether its duty is being done now."""
        return await get_daemon_manager().start(self.DAEMON)

    async def stop(self) -> bool:
        """Stop the daemon; whether it no longer runs under this name."""
        return await get_daemon_manager().stop(self.DAEMON)

    @property
    def is_running(self) -> bool:
        """Whether the duty is being done now, whoever started it."""
        return get_daemon_manager().is_running(self.DAEMON)

    def health_check(self) -> HealthCheckResult:
        """How the daemon is; one that does not run is not healthy."""
        info = get_daemon_manager().get_daemon_status(self.DAEMON)
        return HealthCheckResult(
            healthy=info.healthy, status=_STATUSES.get(info.state, CoordinatorStatus.STOPPED), message=info.reason,
            details={"duty": info.duty, "restarts": info.restart_count, "last_error": info.last_error},
        )  # fmt: skip

    def get_stats(self) -> dict[str, Any]:
        """What was counted of it since the node opened."""
        found = get_daemon_stats(self.DAEMON)
        return {
            "runs": found.runs, "failures": found.failures, "restarts": found.restarts,
            "last_success": found.last_success, "success_rate": found.success_rate,
        }  # fmt: skip


@cache
def _class(name: str) -> type[DaemonView]:
    kind = DaemonType[CLASSES[name]]
    about = f"A view of the daemon {kind.name}."
    return type(name, (DaemonView,), {"DAEMON": kind, "__doc__": about, "__module__": __name__})


def __getattr__(name: str) -> type[DaemonView]:
    if name not in CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _class(name)
