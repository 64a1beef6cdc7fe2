"""The coordinators of the documented bootstrap: in which layer each starts, what it needs, which duty of ours it is.

A coordinator is a part that every node has, one or more daemons, or work that is not built yet.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class CoordinatorSpec:
    """A coordinator: those of lower layers start first, and one whose needs have failed is skipped."""

    name: str
    layer: int
    needs: tuple[str, ...] = ()
    daemons: tuple[str, ...] = ()
    """Duties of ours that run for it; without any it is a part of every node."""
    later: str = ""
    """What it waits for, where its duty is not built yet."""
    skipped: str = ""
    """Why there is nothing to start."""
    without: str = ""
    """What goes on although it is disabled, because every node does it."""

    @property
    def served(self) -> bool:
        """Whether its duty is there."""
        return not self.later and not self.skipped


def _part(name: str, layer: int, *needs: str) -> CoordinatorSpec:
    return CoordinatorSpec(name, layer, needs)


def _duty(name: str, layer: int, daemons: str, *needs: str) -> CoordinatorSpec:
    return CoordinatorSpec(name, layer, needs, tuple(daemons.split()))


def _later(name: str, layer: int, what: str) -> CoordinatorSpec:
    return CoordinatorSpec(name, layer, later=f"not yet: {what}")


_SPECS = (
    _part("event_coordinator", 0),
    _duty("dead_letter_queue", 0, "redeliver", "event_coordinator"),
    _part("task_coordinator", 1),
    _part("global_task_coordinator", 1, "task_coordinator"),
    _later("resource_coordinator", 1, "nodes do not measure their resources"),
    _later("cache_orchestrator", 1, "nothing keeps models in a cache"),
    _duty("health_manager", 2, "watch alert", "event_coordinator"),
    _part("error_coordinator", 2, "health_manager"),
    CoordinatorSpec("recovery_manager", 2, skipped="health_manager and the supervisor of every node do its duty"),
    _duty("model_coordinator", 2, "point", "event_coordinator"),
    _duty("sync_coordinator", 3, "replicate", "task_coordinator"),
    _part("training_coordinator", 3, "task_coordinator"),
    _part("transfer_verifier", 4, "sync_coordinator"),
    _later("ephemeral_guard", 4, "nodes are not told that they will vanish"),
    _duty("queue_populator", 4, "fill gauge", "task_coordinator"),
    _part("selfplay_orchestrator", 5, "queue_populator"),
    _later("selfplay_scheduler", 5, "all variants have the same weight"),
    _duty("pipeline_orchestrator", 6, "pipeline", "task_coordinator", "sync_coordinator", "model_coordinator"),
    _later("multi_provider", 6, "no provider of machines is known"),
    _duty("job_scheduler", 6, "rescue", "task_coordinator"),
    _duty("auto_export_daemon", 7, "pipeline", "pipeline_orchestrator"),
    _duty("evaluation_daemon", 7, "pipeline rate", "pipeline_orchestrator"),
    _duty("model_distribution_daemon", 7, "pipeline point", "pipeline_orchestrator"),
    _later("idle_resource_daemon", 7, "nodes do not measure their resources"),
    _later("quality_monitor_daemon", 7, "batches are checked when they are made, and not sampled later"),
    _later("orphan_detection_daemon", 7, "files that no record names are not looked for"),
    _later("training_activity", 7, "training on other machines is not watched"),
    _later("curriculum_integration", 7, "all variants have the same weight"),
    _duty("metrics_orchestrator", 8, "feedback", "pipeline_orchestrator"),
    _later("optimization_coordinator", 8, "nobody asks for trials by itself; Tune jobs can be asked for"),
    CoordinatorSpec(
        "leadership_coordinator",
        9,
        daemons=("elect",),
        without="no contest with other nodes; that a node renews the roles it holds is part of every node",
    ),
)

COORDINATOR_REGISTRY: Mapping[str, CoordinatorSpec] = {spec.name: spec for spec in _SPECS}
FLAGS = {
    "enable_metrics": "metrics_orchestrator",
    "enable_optimization": "optimization_coordinator",
    "enable_leadership": "leadership_coordinator",
}
"""What can be left out, by the flag that does it."""
