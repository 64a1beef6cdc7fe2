"""The documented health of the system: a view of the one health, by coordinator, with the handlers of this program."""

from collections.abc import Iterator, Mapping
from typing import Any

from ringrift.kernel.health import Health
from ringrift.pipeline.system_health import SystemHealth
from ringrift_compat import embedded_host
from ringrift_compat.coordinators.bootstrap import ABSENT, DISABLED, FAILED, SKIPPED, get_bootstrap_status
from ringrift_compat.coordinators.registry import COORDINATOR_REGISTRY
from ringrift_compat.embedded_node import embedded
from ringrift_compat.events.subscriptions import Subscriptions
from ringrift_compat.health.protocols import UNREAD
from ringrift_compat.health.survey import read_system_health

_PARTS: Mapping[str, tuple[str, ...]] = {
    "event_coordinator": ("readers", "store"),
    "dead_letter_queue": ("dead_letters",),
    "task_coordinator": ("jobs", "slots"),
    "global_task_coordinator": ("jobs", "slots"),
    "health_manager": ("nodes", "daemons"),
    "error_coordinator": ("jobs", "breakers"),
    "sync_coordinator": ("blobs",),
    "cache_orchestrator": ("blobs",),
    "training_coordinator": ("jobs", "slots"),
    "transfer_verifier": ("blobs",),
    "queue_populator": ("queues",),
    "selfplay_orchestrator": ("jobs", "queues"),
    "pipeline_orchestrator": ("jobs",),
    "job_scheduler": ("slots",),
}
"""Coordinator → the parts of the system that do its job, besides its daemons."""
_ALWAYS = ("event_coordinator", "dead_letter_queue")


def get_system_health() -> dict[str, Any]:
    """The one health of the system; each coordinator that is there has the points of what does its job.

    A coordinator that is absent or disabled is named and does not count.
    """
    health, states = read_system_health(), get_bootstrap_status()["coordinators"]
    off = {name: state["error"] for name, state in states.items() if state["status"] in (ABSENT, DISABLED)}
    failed = {name: state for name, state in states.items() if state["status"] in (FAILED, SKIPPED)}
    names = [*_ALWAYS, *(name for name in states if name not in (*_ALWAYS, *off))]
    return {
        "overall_health": health.score,
        "status": health.status.name.lower(),
        "coordinators": {name: 0.0 if name in failed else _points(name, health) for name in names},
        "issues": [*health.reasons(), *(f"{name}: {state['error']}" for name, state in failed.items())],
        "absent": off,
        "parts": {part.part: part.points for part in health.parts},
        **_handlers(),
    }


def _points(name: str, health: SystemHealth) -> float:
    """The points of a coordinator: those of the worst part or daemon that does its job."""
    parts = [part for part in health.parts if part.part in _PARTS.get(name, ())]
    return min((part.points for part in (*parts, *_daemons(name))), default=health.score)


def _daemons(name: str) -> Iterator[Health]:
    host = embedded_host.get_host(embedded.node()) if embedded.is_open else None
    if host is not None and name in COORDINATOR_REGISTRY:
        yield from (host.supervisor.status(daemon).health for daemon in COORDINATOR_REGISTRY[name].daemons)


def _handlers() -> dict[str, Any]:
    """The deliveries to the handlers of this program; those that failed and are not settled lower the health."""
    try:
        node = embedded.node()
    except UNREAD:
        return {"handler_health": {"success_rate": 0.0}, "node": "", "timestamp": None}
    results = node.extension(Subscriptions).results
    rate = results["delivered"] / results.total() if results else 1.0
    handlers = {"success_rate": rate, **results}
    return {"handler_health": handlers, "node": node.settings.node.id, "timestamp": node.clock.now()}
