"""The router's statistics and lookups cover every event of this home, from any publisher and however old."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

from compat.subscribers import EventRecorder, async_test, home
from ringrift.events import node as nodes
from ringrift.events import work
from ringrift.events.custom import Published
from ringrift_compat.embedded_host import open_host, start_daemons
from ringrift_compat.embedded_node import embedded
from ringrift_compat.events.buses import get_data_event_bus
from ringrift_compat.events.cross_process_queue import CrossProcessEventQueue, publish_event
from ringrift_compat.events.event_router import get_router
from ringrift_compat.events.event_stats import CoordinatorStats
from ringrift_compat.events.router_event import EventSource, RouterEvent
from wait import wait_until

__all__ = ["home"]

SECONDS_MAX = 20.0
CLOSE_SECONDS_MAX = 3.0
ELSEWHERE = "from app.coordination.event_router import publish_sync; publish_sync('EVENT_A', {'n': 1}, 'elsewhere')"


async def elsewhere(code: str = ELSEWHERE) -> None:
    """Let another process of this home do something."""
    await asyncio.to_thread(
        subprocess.run, [sys.executable, "-W", "error", "-c", code], check=True, timeout=SECONDS_MAX
    )


@async_test
async def test_every_event_is_counted() -> None:
    """Events of this program, of our own parts, in the log or past it, and of other processes all count."""
    router, bus = get_router(), embedded.node().router
    await router.publish("EVENT_A", {"n": 0})
    await embedded.post(bus.publish(nodes.Lost(node="gpu-1", seconds=9.0)))
    await embedded.post(bus.publish(work.Finished(variant="hex8_2p", job="j1", kind="train", node="n1", seconds=1.0)))
    await router.publish("EVENT_B", {}, route_to_cross_process=False)
    await get_data_event_bus().publish("EVENT_C", {})
    await elsewhere()

    await router.publish("TRAINING_STARTED", {"variant": "hex8_2p", "job": "j1", "node": "n1", "attempts": 1})

    stats = router.get_stats()
    counted = {"EVENT_A": 2, "HOST_OFFLINE": 1, "WORK_COMPLETED": 1, "EVENT_B": 1, "EVENT_C": 1, "TRAINING_STARTED": 1}
    assert stats["events_routed"] == counted
    assert stats["events_by_source"] == {"router": 5, "data_bus": 1, "cross_process": 1}
    assert stats["total_events_routed"] == 7


@async_test
async def test_the_statistics_grow_without_being_read() -> None:
    """They are read from the log now and then, so that events dropped later are counted all the same."""
    await get_router().publish("EVENT_A", {})
    await elsewhere()

    async def as_they_are() -> int:
        count: int = get_router().get_stats()["total_events_routed"]
        return count

    # On the embedded loop the question reads nothing itself.
    await wait_until(lambda: embedded.call(as_they_are()) == 2)


@async_test
async def test_counting_adds_no_subscription_and_lets_the_node_close() -> None:
    """Neither counting nor a subscription to an event that skips the log shows up as a subscriber."""
    router, recorder = get_router(), EventRecorder()
    await router.publish("EVENT_A", {})
    router.get_stats()
    assert not router.has_subscribers("EVENT_A")

    router.subscribe("TRAINING_STARTED", recorder.plain)
    assert router.has_subscribers("TRAINING_STARTED")
    assert not router.has_subscribers("EVENT_A")
    await router.publish("TRAINING_STARTED", {"variant": "hex8_2p", "job": "j1", "node": "n1", "attempts": 1})
    await wait_until(lambda: len(recorder.events) == 1)
    began = time.monotonic()
    embedded.shutdown()

    assert time.monotonic() - began < CLOSE_SECONDS_MAX


@async_test
async def test_repetitions_are_counted_by_their_reason() -> None:
    """An equal payload within the window, on any bus, and an equal id are counted apart, and as a part of all."""
    router, data = get_router(), get_data_event_bus()
    for _ in range(3):
        await router.publish("EVENT_A", {"n": 1})
    first = await data.publish("EVENT_B", {"n": 1})
    again = await data.publish("EVENT_B", {"n": 1})
    for _ in range(2):
        await router.publish(RouterEvent("EVENT_C", {"n": 1}, event_id="mine-1"))

    stats = router.get_stats()
    assert first.event_id == again.event_id
    assert stats["events_routed"] == {"EVENT_A": 1, "EVENT_B": 1, "EVENT_C": 1}
    assert (stats["duplicates_prevented"], stats["content_duplicates_prevented"]) == (4, 3)


@async_test
async def test_an_equal_payload_for_other_views_is_another_event() -> None:
    """An event that was hidden from a bus is shown there when it is published again for all."""
    recorder = EventRecorder()
    get_data_event_bus().subscribe("EVENT_A", recorder.plain)
    await get_router().publish("EVENT_A", {"n": 1}, route_to_data_bus=False)
    visible = await get_router().publish("EVENT_A", {"n": 1})

    assert [event.event_id for event in await recorder.until(1)] == [visible.event_id]


@async_test
async def test_events_carry_their_source_across_processes() -> None:
    """An event has its source: this router, the queue, another process, or a bus in any process."""
    recorder = EventRecorder()
    get_router().subscribe("EVENT_A", recorder.plain)
    await get_router().publish("EVENT_A", {"n": 0}, source="here")
    await elsewhere()
    publish_event("EVENT_A", {"n": 2}, "queue")
    await elsewhere(
        "from app.distributed.data_events import get_event_bus\n"
        "get_event_bus().publish_sync('EVENT_A', {'n': 3}, 'bus')"
    )

    expected = {"here": EventSource.ROUTER, "bus": EventSource.DATA_BUS}
    expected |= dict.fromkeys(("elsewhere", "queue"), EventSource.CROSS_PROCESS)
    assert {event.source: event.origin for event in await recorder.until(4)} == expected
    assert {e.source: e.origin for e in get_router().get_recent_events(event_type="EVENT_A")} == expected
    assert get_router().get_stats()["events_by_source"]["cross_process"] == 2


@async_test
async def test_events_of_the_embedded_node_count_as_local() -> None:
    """A program that became a node is one process, whichever part makes its ids."""
    await get_router().publish("EVENT_A", {})
    await embedded.post(open_host(embedded.node()))

    result = get_router().get_recent_events()
    assert {event.event_type for event in result} > {"EVENT_A"}
    assert {event.origin for event in result} == {EventSource.ROUTER}


@async_test
async def test_events_past_the_log_are_delivered_and_counted() -> None:
    """The node's daemons publish their start to subscribers of this process, under the old name."""
    recorder = EventRecorder()
    get_router().subscribe("DAEMON_STARTED", recorder.plain)
    await embedded.post(start_daemons(embedded.node(), "work"))

    await wait_until(lambda: len(recorder.events) > 0)
    await wait_until(lambda: get_router().get_stats()["events_routed"]["DAEMON_STARTED"] == len(recorder.events))


async def publish_many(name: str, count: int) -> None:
    """Publish so many other events that a lookup among the last ones finds nothing."""
    bus = embedded.node().router
    await embedded.post(bus.publish_many([Published(event=name, payload={"n": number}) for number in range(count)]))


@async_test
async def test_an_event_is_found_by_name_among_thousands() -> None:
    """Both an event of ours and a custom one are found, under the requested name."""
    router = get_router()
    await embedded.post(embedded.node().router.publish(nodes.Lost(node="gpu-1", seconds=9.0)))
    await router.publish("NODE_OFFLINE", {"why": "published with too few fields"})
    await publish_many("EVENT_A", 2500)
    await router.publish("HOST_OFFLINE", {"n": 3})

    by_name = {name: router.get_recent_events(event_type=name) for name in ("HOST_OFFLINE", "EVENT_A")}
    assert [event.payload.get("node_id", event.payload.get("n")) for event in by_name["HOST_OFFLINE"]] == ["gpu-1", 3]
    assert {event.event_type for event in by_name["HOST_OFFLINE"]} == {"HOST_OFFLINE"}
    assert [event.payload["n"] for event in by_name["EVENT_A"]] == list(range(2400, 2500))
    assert router.get_recent_events(limit=1, event_type="HOST_OFFLINE")[0].payload == {"n": 3}
    assert router.get_recent_events(event_type="NEVER_SAID") == router.get_recent_events(limit=0) == []
    history = router._event_history
    assert (len(history), history[-1].payload) == (1000, {"n": 3})


@async_test
async def test_a_poll_by_type_looks_past_all_others() -> None:
    """A position that only its own type moves would stay behind a crowd of other events for ever."""
    queue = CrossProcessEventQueue()
    queue.subscribe("trainer")
    await publish_many("EVENT_A", 2500)
    last = publish_event("EVENT_B", {"n": 1})

    assert [event.event_id for event in queue.poll("trainer", ["EVENT_B", "EVENT_C"])] == [last]
    assert [event.payload["n"] for event in queue.poll("trainer", limit=1200)] == list(range(1200))


def test_statistics_are_not_stored(home: Path) -> None:
    """They begin anew with the node."""
    get_router().publish_sync("EVENT_A", {})
    embedded.shutdown()

    get_router().publish_sync("EVENT_B", {})
    assert get_router().get_stats()["events_routed"] == {"EVENT_B": 1}


def test_a_new_statistics_object_is_zero() -> None:
    """Every field has a default, as callers that build one expect."""
    made, other = CoordinatorStats(), CoordinatorStats()
    made.events_by_type["EVENT_A"] = 1

    assert (other.events_emitted, other.events_processed, other.errors, other.events_by_type) == (0, 0, 0, {})
    assert other.error_rate == 0.0


@async_test
async def test_published_events_and_calls_are_counted() -> None:
    """Events are counted by name, with calls of callbacks and failures; a returned value does not change later."""
    recorder = EventRecorder()

    async def broken(event: RouterEvent) -> None:
        raise ValueError("not today")

    get_router().subscribe("EVENT_A", recorder.plain)
    get_router().subscribe("EVENT_B", broken)
    before = CoordinatorStats.read(get_router())
    for number in range(3):
        await get_router().publish("EVENT_A", {"n": number})
    await get_router().publish("EVENT_B", {})
    await get_router().publish("EVENT_A", {"n": 0})
    await wait_until(lambda: CoordinatorStats.read(get_router()).events_processed == 6)

    stats = CoordinatorStats.read(get_router())
    assert (stats.events_by_type["EVENT_A"], stats.events_by_type["EVENT_B"]) == (3, 1)
    assert stats.events_emitted == sum(stats.events_by_type.values()) == sum(stats.events_by_source.values())
    assert (stats.errors, stats.error_rate, stats.subscriber_count, stats.duplicates_prevented) == (3, 0.5, 2, 1)
    assert "EVENT_A" not in before.events_by_type
    assert before.events_processed == 0
