"""The documented health of everything: each coordinator that is there, as its daemons are now, and the handlers."""

from collections.abc import Mapping
from typing import Any

from ringrift.kernel.health import Health, Status, whole, word
from ringrift_compat import dead_letters, hosting
from ringrift_compat.ambient import Embedded, ambient
from ringrift_compat.bootstrap import ABSENT, DISABLED, FAILED, SKIPPED, get_bootstrap_status
from ringrift_compat.coordinators import COORDINATOR_REGISTRY
from ringrift_compat.listening import Listeners

EVENTS, LETTERS = "event_coordinator", "dead_letter_queue"


def get_system_health() -> dict[str, Any]:
    """The health of what is there; a part that is absent counts for nothing, good or bad, and is named as such."""
    node = ambient.node()
    stats = dead_letters.get_dead_letter_queue().get_stats()
    unsettled = stats["pending"] + stats["abandoned"]
    tries, rate = Listeners.of(node).tries, _rate(node)
    states = get_bootstrap_status()["coordinators"]
    parts = _parts(node, rate, stats, states)
    overall = sum(part.points for part in parts.values()) / len(parts)
    return {
        "overall_health": overall,
        "status": word(overall),
        "coordinators": {name: part.points for name, part in parts.items()},
        "issues": [f"{name}: {part.reason}" for name, part in parts.items() if part.status is not Status.HEALTHY],
        "absent": {name: state["error"] for name, state in states.items() if state["status"] in (ABSENT, DISABLED)},
        "handler_health": {"success_rate": rate, "unsettled": unsettled, **tries},
        "node": node.settings.node.id,
        "timestamp": node.clock.now(),
    }


def coordinators() -> dict[str, Health]:
    """How each coordinator is that is there."""
    node = ambient.node()
    stats = dead_letters.get_dead_letter_queue().get_stats()
    return _parts(node, _rate(node), stats, get_bootstrap_status()["coordinators"])


def _parts(
    node: Embedded, rate: float, stats: Mapping[str, Any], states: Mapping[str, Mapping[str, Any]]
) -> dict[str, Health]:
    return {EVENTS: _events(rate), LETTERS: _letters(stats), **_started(node, states)}


def _rate(node: Embedded) -> float:
    """The share of deliveries to callbacks that went well; 1.0 before the first."""
    tries = Listeners.of(node).tries
    return tries["delivered"] / tries.total() if tries else 1.0


def _events(rate: float) -> Health:
    """How the handlers are, by the share of deliveries that went well."""
    reason = "" if rate == 1.0 else f"{1 - rate:.1%} of what was delivered to handlers failed"
    return Health(part=EVENTS, status=_status(rate), reason=reason, mean=rate)


def _letters(stats: Mapping[str, Any]) -> Health:
    if stats["abandoned"]:
        reason = f"{stats['abandoned']} letters were given up: see  ringrift dlq list"
        return Health(part=LETTERS, status=Status.UNHEALTHY, reason=reason)
    if stats["pending"]:
        return Health(part=LETTERS, status=Status.DEGRADED, reason=f"{stats['pending']} letters wait for another try")
    return Health(part=LETTERS, status=Status.HEALTHY)


def _started(node: Embedded, states: Mapping[str, Mapping[str, Any]]) -> dict[str, Health]:
    """How each coordinator is that was to run, besides the two that every program has."""
    found: dict[str, Health] = {}
    host = hosting.hosted(node)
    for name, state in states.items():
        if name in (EVENTS, LETTERS) or state["status"] in (ABSENT, DISABLED):
            continue
        if state["status"] in (FAILED, SKIPPED) or host is None:
            found[name] = Health(part=name, status=Status.UNHEALTHY, reason=state["error"] or "its node is gone")
            continue
        daemons = COORDINATOR_REGISTRY[name].daemons
        parts = [host.supervisor.report(daemon).health for daemon in daemons]
        found[name] = whole(name, parts) if parts else Health(part=name, status=Status.HEALTHY)
    return found


def _status(points: float) -> Status:
    return {"healthy": Status.HEALTHY, "degraded": Status.DEGRADED}.get(word(points), Status.UNHEALTHY)
