"""The counts of the router in the shape that users of the earlier event coordinator know."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ringrift_compat.ambient import ambient
from ringrift_compat.events import get_router
from ringrift_compat.listening import Listeners


@dataclass
class CoordinatorStats:
    """What has gone through the router, and what became of it at the callbacks of this program."""

    events_emitted: int = 0
    events_by_type: dict[str, int] = field(default_factory=dict)
    """How many of them had which name."""
    events_by_source: dict[str, int] = field(default_factory=dict)
    """… and came through which view."""
    events_processed: int = 0
    """Calls of callbacks that came to an end, good or bad."""
    errors: int = 0
    """Those that failed."""
    duplicates_prevented: int = 0
    subscriber_count: int = 0

    @property
    def error_rate(self) -> float:
        """The share of calls that failed; 0.0 before the first."""
        return self.errors / self.events_processed if self.events_processed else 0.0


def stats_of(routed: Mapping[str, Any], tries: Mapping[str, int]) -> CoordinatorStats:
    """What the router tells in its own words, and how many calls were *delivered* and *failed*, in this shape."""
    return CoordinatorStats(
        events_emitted=routed["total_events_routed"], events_by_type=dict(routed["events_routed"]),
        events_by_source=dict(routed["events_by_source"]), events_processed=sum(tries.values()),
        errors=tries.get("failed", 0), duplicates_prevented=routed["duplicates_prevented"],
        subscriber_count=routed["subscriber_count"],
    )  # fmt: skip


def get_coordinator_stats() -> CoordinatorStats:
    """How it stands now; what is returned does not change any more."""
    return stats_of(get_router().get_stats(), dict(Listeners.of(ambient.node()).tries))
