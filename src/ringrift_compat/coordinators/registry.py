"""The coordinators of the documented bootstrap: the layer in which each starts, its needs, and our daemons for it.

A coordinator is a part that every node has, one or more daemons, or work that is not built yet.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class CoordinatorSpec:
    """A coordinator: those of lower layers start first; it is skipped where one of its needs has failed."""

    name: str
    layer: int
    needs: tuple[str, ...] = ()
    daemons: tuple[str, ...] = ()
    """Our daemons that run for it, the one that does its duty first; without any it is a part of every node."""
    absent: str = ""
    """Why there is nothing to start."""
    when_disabled: str = ""
    """Work that goes on although it is disabled, because every node does it."""


# layer, name | daemons | needs
_SERVED = """
    0 event_coordinator | |
    0 dead_letter_queue | redeliver | event_coordinator
    1 task_coordinator | |
    1 global_task_coordinator | | task_coordinator
    2 health_manager | watch alert heal | event_coordinator
    2 error_coordinator | | health_manager
    2 model_coordinator | link_champions | event_coordinator
    3 sync_coordinator | replicate | task_coordinator
    1 cache_orchestrator | | event_coordinator
    3 training_coordinator | | task_coordinator
    4 transfer_verifier | | sync_coordinator
    4 ephemeral_guard | evacuate | sync_coordinator
    4 queue_populator | fill measure_queues | task_coordinator
    5 selfplay_orchestrator | fill | queue_populator
    6 pipeline_orchestrator | pipeline | task_coordinator sync_coordinator model_coordinator
    6 job_scheduler | rescue | task_coordinator
    7 auto_export_daemon | pipeline | pipeline_orchestrator
    7 evaluation_daemon | pipeline rate | pipeline_orchestrator
    7 model_distribution_daemon | pipeline link_champions | pipeline_orchestrator
    7 orphan_detection_daemon | adopt | sync_coordinator
    7 training_activity | replicate | sync_coordinator
    8 metrics_orchestrator | record_ratings | pipeline_orchestrator
    9 leadership_coordinator | elect |
"""
# layer, name | reason
_ABSENT = """
    1 resource_coordinator | not yet: nodes do not measure how busy their machines are
    2 recovery_manager | health_manager and the supervisor of every node do its job
    5 selfplay_scheduler | not yet: all variants have the same weight
    6 multi_provider | not yet: no provider of machines is known
    7 idle_resource_daemon | not yet: nodes do not measure how busy their machines are
    7 quality_monitor_daemon | not yet: batches are checked when they are made, and not sampled later
    7 curriculum_integration | not yet: all variants have the same weight
    8 optimization_coordinator | not yet: trials do not start by themselves; Tune jobs can be requested
"""
_WHEN_DISABLED = {
    "leadership_coordinator": "no contest with other nodes; every node goes on to renew the roles that it holds"
}


def _rows(table: str) -> Iterator[tuple[int, str, list[str]]]:
    for line in table.strip().splitlines():
        first, *cells = (cell.strip() for cell in line.split("|"))
        layer, name = first.split()
        yield int(layer), name, cells


def _specs() -> Iterator[CoordinatorSpec]:
    for layer, name, (daemons, needs) in _rows(_SERVED):
        without = _WHEN_DISABLED.get(name, "")
        yield CoordinatorSpec(name, layer, tuple(needs.split()), tuple(daemons.split()), when_disabled=without)
    for layer, name, (reason,) in _rows(_ABSENT):
        yield CoordinatorSpec(name, layer, absent=reason)


COORDINATOR_REGISTRY: Mapping[str, CoordinatorSpec] = {
    spec.name: spec for spec in sorted(_specs(), key=lambda spec: spec.layer)
}
FLAGS = {
    "enable_metrics": "metrics_orchestrator",
    "enable_optimization": "optimization_coordinator",
    "enable_leadership": "leadership_coordinator",
}
"""The coordinators that can be left out, by flag."""
