"""The counts of the router in the shape of the earlier coordinator."""

from compat.ears import Ears, home, on_a_loop
from ringrift_compat.counting import CoordinatorStats, get_coordinator_stats
from ringrift_compat.events import get_router
from ringrift_compat.router_event import RouterEvent
from waiting import wait_until

__all__ = ["home"]


def test_nothing_has_happened_yet() -> None:
    """Every field has a value of its own, as who makes one by hand expects."""
    made, other = CoordinatorStats(), CoordinatorStats()
    made.events_by_type["EVENT_A"] = 1

    assert (other.events_emitted, other.events_processed, other.errors, other.events_by_type) == (0, 0, 0, {})
    assert other.error_rate == 0.0


@on_a_loop
async def test_what_was_said_and_heard_is_counted() -> None:
    """Events by their names, calls of callbacks, and those that failed; an answer does not change later."""
    ears = Ears()

    async def broken(event: RouterEvent) -> None:
        raise ValueError("not today")

    get_router().subscribe("EVENT_A", ears.plain)
    get_router().subscribe("EVENT_B", broken)
    before = get_coordinator_stats()
    for number in range(3):
        await get_router().publish("EVENT_A", {"n": number})
    await get_router().publish("EVENT_B", {})
    await wait_until(lambda: get_coordinator_stats().events_processed == 6)

    stats = get_coordinator_stats()
    assert (stats.events_by_type["EVENT_A"], stats.events_by_type["EVENT_B"]) == (3, 1)
    assert stats.events_emitted == sum(stats.events_by_type.values()) == sum(stats.events_by_source.values())
    assert (stats.errors, stats.error_rate, stats.subscriber_count) == (3, 0.5, 2)
    assert "EVENT_A" not in before.events_by_type
    assert before.events_processed == 0
