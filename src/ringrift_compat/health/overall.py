"""The documented health of the system: each coordinator by its daemons, and the handlers of this program."""

from collections.abc import Iterator, Mapping
from typing import Any

from ringrift.kernel.health import Health, Status, whole
from ringrift_compat import embedded_host
from ringrift_compat.coordinators.bootstrap import ABSENT, DISABLED, FAILED, SKIPPED, get_bootstrap_status
from ringrift_compat.coordinators.registry import COORDINATOR_REGISTRY
from ringrift_compat.embedded_node import EmbeddedNode, embedded
from ringrift_compat.events.dead_letters import get_dead_letter_queue
from ringrift_compat.events.subscriptions import Subscriptions

_EVENTS, _DEAD_LETTERS = "event_coordinator", "dead_letter_queue"
_STATUSES = {"healthy": Status.HEALTHY, "degraded": Status.DEGRADED}


def _word(points: float) -> str:
    """The documented word for a score."""
    return "healthy" if points >= 0.8 else "degraded" if points >= 0.6 else "unhealthy"


def get_system_health() -> dict[str, Any]:
    """The health of the coordinators that are there; an absent one is named and does not count."""
    node, stats = embedded.node(), get_dead_letter_queue().get_stats()
    results = node.extension(Subscriptions).results
    rate = results["delivered"] / results.total() if results else 1.0
    states = get_bootstrap_status()["coordinators"]
    parts = {_EVENTS: _events(rate), _DEAD_LETTERS: _dead_letters(stats), **dict(_coordinators(node, states))}
    overall = sum(part.points for part in parts.values()) / len(parts)
    return {
        "overall_health": overall,
        "status": _word(overall),
        "coordinators": {name: part.points for name, part in parts.items()},
        "issues": [f"{name}: {part.reason}" for name, part in parts.items() if part.status is not Status.HEALTHY],
        "absent": {name: state["error"] for name, state in states.items() if state["status"] in (ABSENT, DISABLED)},
        "handler_health": {"success_rate": rate, "unsettled": stats["pending"] + stats["abandoned"], **results},
        "node": node.settings.node.id,
        "timestamp": node.clock.now(),
    }


def _events(rate: float) -> Health:
    """The health of the handlers, by the share of deliveries without an error."""
    reason = "" if rate == 1.0 else f"{1 - rate:.1%} of the deliveries to handlers failed"
    return Health(part=_EVENTS, status=_STATUSES.get(_word(rate), Status.UNHEALTHY), reason=reason, mean=rate)


def _dead_letters(stats: Mapping[str, Any]) -> Health:
    if stats["abandoned"]:
        reason = f"{stats['abandoned']} deliveries were abandoned: see  ringrift dlq list"
        return Health(part=_DEAD_LETTERS, status=Status.UNHEALTHY, reason=reason)
    if stats["pending"]:
        reason = f"{stats['pending']} deliveries wait for a retry"
        return Health(part=_DEAD_LETTERS, status=Status.DEGRADED, reason=reason)
    return Health(part=_DEAD_LETTERS, status=Status.HEALTHY)


def _coordinators(node: EmbeddedNode, states: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Health]]:
    """The health of each started coordinator, besides the two that every program has."""
    host = embedded_host.get_host(node)
    for name, state in states.items():
        if name in (_EVENTS, _DEAD_LETTERS) or state["status"] in (ABSENT, DISABLED):
            continue
        if state["status"] in (FAILED, SKIPPED) or host is None:
            reason = state["error"] or "its node is closed"
            yield name, Health(part=name, status=Status.UNHEALTHY, reason=reason)
            continue
        parts = [host.supervisor.status(daemon).health for daemon in COORDINATOR_REGISTRY[name].daemons]
        yield name, whole(name, parts) if parts else Health(part=name, status=Status.HEALTHY)
