"""The documented dead-letter queue: the failed deliveries of the bus."""

import asyncio
from collections import Counter
from functools import cache
from typing import Any

from ringrift.bus import dead_letters
from ringrift.kernel.errors import InputError, UnknownName
from ringrift.store.ports import Delivery
from ringrift_compat.embedded_node import EmbeddedNode, embedded
from ringrift_compat.events.router_event import Origins, RouterEvent
from ringrift_compat.health.protocols import CoordinatorStatus, HealthCheckResult

_LISTED_MAX = 10_000
_INTERVAL_SECONDS_MIN = 0.01


class DeadLetterQueue:
    """Deliveries that failed.  Each belongs to the one callback that failed; only that one is called again."""

    def get_stats(self) -> dict[str, Any]:
        """How many are pending, recovered, abandoned or discarded, and of which events the unsettled are."""
        return embedded.call(_stats(embedded.node()))

    def get_pending_events(self, limit: int = 100) -> list[dict[str, Any]]:
        """Deliveries that will be retried, oldest first."""
        return embedded.call(_list(embedded.node(), ("parked",), limit))

    def get_abandoned_events(self, limit: int = 100) -> list[dict[str, Any]]:
        """Deliveries that failed their last retry, oldest first."""
        return embedded.call(_list(embedded.node(), ("dead",), limit))

    def retry_now(self, limit: int = _LISTED_MAX) -> int:
        """Let every pending delivery be retried at once; how many."""
        return embedded.call(_retry_now(embedded.node(), limit))

    def health_check(self) -> HealthCheckResult:
        """Healthy as long as no delivery was abandoned."""
        stats = self.get_stats()
        abandoned = stats["abandoned"]
        is_settled = not abandoned and not stats["pending"]
        status = CoordinatorStatus.RUNNING if is_settled else CoordinatorStatus.DEGRADED
        message = f"{abandoned} deliveries were abandoned: see get_abandoned_events()" if abandoned else ""
        return HealthCheckResult(healthy=not abandoned, status=status, message=message, details=stats)


async def _stats(node: EmbeddedNode) -> dict[str, Any]:
    counts = await dead_letters.stats(node.store)
    unsettled = await _list(node, ("parked", "dead"), _LISTED_MAX)
    by_type = Counter(delivery["event_type"] for delivery in unsettled)
    return {**counts, "total": sum(counts.values()), "by_event_type": dict(by_type)}


async def _list(node: EmbeddedNode, states: tuple[str, ...], limit: int) -> list[dict[str, Any]]:
    origins = node.extension(Origins)
    async with node.store.read() as view:
        deliveries = await view.deliveries(states, limit)
        envelopes = await view.events_at([delivery.position for delivery in deliveries])
    events = {envelope.position: origins.read(envelope) for envelope in envelopes}
    return [_show(delivery, events.get(delivery.position) or RouterEvent("")) for delivery in deliveries]


def _show(delivery: Delivery, event: RouterEvent) -> dict[str, Any]:
    """A delivery with the documented fields; those of an event that the log has dropped are empty."""
    return {
        "event_id": event.event_id,
        "event_type": event.event_type,
        "payload": event.payload,
        "source": event.source,
        "handler_name": delivery.reader,
        "error": delivery.error,
        "retry_count": delivery.attempts,
        "created_at": delivery.first,
        "last_retry_at": delivery.last,
        "status": dead_letters.STATES[delivery.state],
    }


async def _retry_now(node: EmbeddedNode, limit: int) -> int:
    async with node.store.read() as view:
        deliveries = await view.deliveries(("parked",), limit)
    revived = 0
    for delivery in deliveries:
        try:
            await dead_letters.revive(node.store, delivery.reader, delivery.position, node.clock.now())
        except (InputError, UnknownName):
            continue  # it was retried meanwhile
        revived += 1
    return revived


@cache
def get_dead_letter_queue() -> DeadLetterQueue:
    """The dead letters of this program's home."""
    return DeadLetterQueue()


async def run_retry_daemon(interval_seconds: float = 60.0, max_events: int = _LISTED_MAX) -> None:
    """Let pending deliveries be retried every so many seconds, until cancelled."""
    if interval_seconds < _INTERVAL_SECONDS_MIN:
        raise InputError(f"interval_seconds is {interval_seconds}, less than {_INTERVAL_SECONDS_MIN}")
    while True:
        await embedded.post(_retry_now(embedded.node(), max_events))
        await asyncio.sleep(interval_seconds)
