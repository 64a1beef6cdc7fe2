"""The documented dead-letter queue: the letters of the bus, which tell the truth about who still fails."""

import asyncio
from collections import Counter
from functools import cache
from typing import Any

from ringrift.bus import dead_letters
from ringrift.kernel.errors import InputError, UnknownName
from ringrift.store.ports import Delivery
from ringrift_compat.ambient import Embedded, ambient
from ringrift_compat.health import CoordinatorStatus, HealthCheckResult
from ringrift_compat.router_event import RouterEvent, read

LISTED_MAX = 10_000
INTERVAL_SECONDS_MIN = 0.01


class DeadLetterQueue:
    """What callbacks failed on.  Each letter belongs to the one callback that failed; only that one is tried again."""

    def get_stats(self) -> dict[str, Any]:
        """How many letters are pending, recovered, abandoned or discarded, and of which events the unsettled are."""
        return ambient.call(_stats(ambient.node()))

    def get_pending_events(self, limit: int = 100) -> list[dict[str, Any]]:
        """Letters that will be tried again, oldest first."""
        return ambient.call(_listed(ambient.node(), ("parked",), limit))

    def get_abandoned_events(self, limit: int = 100) -> list[dict[str, Any]]:
        """Letters that were given up after their last try, oldest first."""
        return ambient.call(_listed(ambient.node(), ("dead",), limit))

    def retry_now(self, limit: int = LISTED_MAX) -> int:
        """Let every pending letter be tried at the next look of its callback; how many."""
        return ambient.call(_revive(ambient.node(), limit))

    def health_check(self) -> HealthCheckResult:
        """Healthy as long as nothing had to be given up."""
        stats = self.get_stats()
        given_up = stats["abandoned"]
        status = CoordinatorStatus.DEGRADED if given_up else CoordinatorStatus.RUNNING
        message = f"{given_up} letters were given up: see get_abandoned_events()" if given_up else ""
        return HealthCheckResult(healthy=not given_up, status=status, message=message, details=stats)


async def _stats(node: Embedded) -> dict[str, Any]:
    counts = await dead_letters.stats(node.store)
    unsettled = await _listed(node, ("parked", "dead"), LISTED_MAX)
    by_type = Counter(letter["event_type"] for letter in unsettled)
    return {**counts, "total": sum(counts.values()), "by_event_type": dict(by_type)}


async def _listed(node: Embedded, states: tuple[str, ...], limit: int) -> list[dict[str, Any]]:
    async with node.store.read() as view:
        letters = await view.deliveries(states, limit)
        events = {envelope.position: read(envelope) for envelope in await view.at([one.position for one in letters])}
    return [_shown(letter, events.get(letter.position)) for letter in letters]


def _shown(letter: Delivery, event: RouterEvent | None) -> dict[str, Any]:
    """A letter with the documented fields; of an event that the log has dropped only the letter is left."""
    return {
        "event_id": event.event_id if event else "",
        "event_type": event.event_type if event else "",
        "payload": event.payload if event else {},
        "source": event.source if event else "",
        "handler_name": letter.reader,
        "error": letter.error,
        "retry_count": letter.attempts,
        "created_at": letter.first,
        "last_retry_at": letter.last,
        "status": dead_letters.STATES[letter.state],
    }


async def _revive(node: Embedded, limit: int) -> int:
    async with node.store.read() as view:
        letters = await view.deliveries(("parked",), limit)
    revived = 0
    for letter in letters:
        try:
            await dead_letters.revive(node.store, letter.reader, letter.position, node.clock.now())
        except (InputError, UnknownName):
            continue  # its callback was faster
        revived += 1
    return revived


@cache
def get_dead_letter_queue() -> DeadLetterQueue:
    """The dead letters of this program's home."""
    return DeadLetterQueue()


async def run_retry_daemon(interval_seconds: float = 60.0, max_events: int = LISTED_MAX) -> None:
    """Let pending letters be tried again every so many seconds, until cancelled."""
    if interval_seconds < INTERVAL_SECONDS_MIN:
        raise InputError(f"interval_seconds is {interval_seconds}, less than {INTERVAL_SECONDS_MIN}")
    while True:
        await ambient.post(_revive(ambient.node(), max_events))
        await asyncio.sleep(interval_seconds)
