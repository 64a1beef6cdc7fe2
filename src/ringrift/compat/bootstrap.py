"""The documented bootstrap: opens the ambient node, and tells of every part whether it is there, layer by layer."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ringrift.compat import dead_letters
from ringrift.compat.ambient import Embedded, ambient
from ringrift.compat.listening import Listeners
from ringrift.kernel.errors import UnknownName

KEPT = "bootstrap"
HEALTHY, DEGRADED = 0.8, 0.6
"""The least score of each word."""
NOT_YET = "not yet: the ambient node is a bus only; start a node with  ringrift run"
_LAYERS = {
    1: "task_coordinator global_task_coordinator resource_coordinator cache_orchestrator",
    2: "health_manager error_coordinator recovery_manager model_coordinator",
    3: "sync_coordinator training_coordinator",
    4: "transfer_verifier ephemeral_guard queue_populator",
    5: "selfplay_orchestrator selfplay_scheduler",
    6: "pipeline_orchestrator multi_provider job_scheduler",
    7: """auto_export_daemon evaluation_daemon model_distribution_daemon idle_resource_daemon quality_monitor_daemon
        orphan_detection_daemon training_activity curriculum_integration""",
    8: "metrics_orchestrator optimization_coordinator",
    9: "leadership_coordinator",
}
_SERVED = ("event_coordinator", "dead_letter_queue")
FLAGS = {
    "enable_metrics": "metrics_orchestrator",
    "enable_optimization": "optimization_coordinator",
    "enable_leadership": "leadership_coordinator",
}


@dataclass(frozen=True)
class CoordinatorSpec:
    """A part of the bootstrap and the layer that it starts in; those of lower layers come first."""

    name: str
    layer: int
    served: bool = False


COORDINATOR_REGISTRY: Mapping[str, CoordinatorSpec] = {
    spec.name: spec
    for spec in (
        *(CoordinatorSpec(name, 0, served=True) for name in _SERVED),
        *(CoordinatorSpec(name, layer) for layer, names in _LAYERS.items() for name in names.split()),
    )
}


def _state(spec: CoordinatorSpec, disabled: frozenset[str]) -> dict[str, Any]:
    if spec.name in disabled:
        return {"initialized": False, "subscribed": False, "error": None, "status": "disabled"}
    error = None if spec.served else NOT_YET
    return {
        "initialized": spec.served, "subscribed": spec.served, "error": error,
        "status": "running" if spec.served else "absent",
    }  # fmt: skip


def bootstrap_coordination(**flags: bool) -> dict[str, Any]:
    """Open the ambient node, if it is not; the status.  A second time changes nothing but what *flags* say.

    Raises UnknownName for a flag that nobody knows.
    """
    for flag in flags:
        if flag not in FLAGS:
            raise UnknownName("flag", flag, FLAGS)
    disabled = frozenset(FLAGS[flag] for flag, wanted in flags.items() if not wanted)
    node = ambient.node()
    began = node.kept.get(KEPT, {}).get("started_at") or _now(node)
    states = {spec.name: _state(spec, disabled) for spec in COORDINATOR_REGISTRY.values()}
    node.kept[KEPT] = {
        "initialized": True, "started_at": began, "completed_at": _now(node), "coordinators": states, "errors": [],
    }  # fmt: skip
    return get_bootstrap_status()


def initialize_all_coordinators(auto_trigger_pipeline: bool = False, **flags: bool) -> dict[str, Any]:
    """As :func:`bootstrap_coordination`; the status, with the names of what is there under ``_instances``.

    The pipeline is not part of the ambient node yet, so *auto_trigger_pipeline* is noted and starts nothing.
    """
    status = bootstrap_coordination(**flags)
    there = [name for name, state in status["coordinators"].items() if state["initialized"]]
    return status | {"_instances": there, "auto_trigger_pipeline": auto_trigger_pipeline}


def get_bootstrap_status() -> dict[str, Any]:
    """What the bootstrap came to; not initialised if the node is closed or was never asked for."""
    empty: dict[str, Any] = {
        "initialized": False,
        "started_at": None,
        "completed_at": None,
        "coordinators": {},
        "errors": [],
    }
    found = ambient.node().kept.get(KEPT, empty) if ambient.is_open else empty
    return dict(found)


def get_system_health() -> dict[str, Any]:
    """The health of what is there; a part that is absent is an issue and counts for nothing, good or bad."""
    node = ambient.node()
    letters = dead_letters.get_dead_letter_queue().get_stats()
    failing = letters["pending"] + letters["abandoned"]
    tries = Listeners.of(node).tries
    rate = tries["delivered"] / tries.total() if tries else 1.0
    scores = {"event_coordinator": rate, "dead_letter_queue": 0.0 if letters["abandoned"] else 1.0}
    overall = sum(scores.values()) / len(scores)
    issues = [f"dead_letter_queue: {failing} letters are unsettled"] if failing else []
    absent = {name: state["error"] for name, state in get_bootstrap_status()["coordinators"].items() if state["error"]}
    return {
        "overall_health": overall,
        "status": "healthy" if overall >= HEALTHY else "degraded" if overall >= DEGRADED else "unhealthy",
        "coordinators": scores,
        "issues": issues,
        "absent": absent,
        "handler_health": {"success_rate": rate, "unsettled": failing, **tries},
        "node": node.settings.node.id,
    }


def shutdown_coordination() -> None:
    """Close the ambient node; the next use opens it again on the same store."""
    ambient.shutdown()


async def shutdown_all_coordinators() -> None:
    """As :func:`shutdown_coordination`, without keeping the loop."""
    ambient.require_elsewhere("shutdown_all_coordinators")
    await asyncio.to_thread(ambient.shutdown)


def _now(node: Embedded) -> datetime:
    return datetime.fromtimestamp(node.clock.now(), UTC)
