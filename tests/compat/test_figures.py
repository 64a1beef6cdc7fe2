"""What the router counts, and how it finds: every event of this home, whoever said it, far behind others too."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

from compat.ears import Ears, home, on_a_loop
from ringrift.events import node as nodes
from ringrift.events import work
from ringrift.events.custom import Said
from ringrift_compat.ambient import ambient
from ringrift_compat.buses import get_data_event_bus
from ringrift_compat.events import get_router
from ringrift_compat.hosting import duties, host
from ringrift_compat.queue import get_event_queue, publish_event
from ringrift_compat.router_event import EventSource, RouterEvent
from waiting import wait_until

__all__ = ["home"]

SECONDS_MAX = 20.0
CLOSE_SECONDS_MAX = 3.0
ELSEWHERE = "from app.coordination.event_router import publish_sync; publish_sync('EVENT_A', {'n': 1}, 'elsewhere')"


async def elsewhere(code: str = ELSEWHERE) -> None:
    """Let another process of this home do something."""
    await asyncio.to_thread(
        subprocess.run, [sys.executable, "-W", "error", "-c", code], check=True, timeout=SECONDS_MAX
    )


@on_a_loop
async def test_everything_that_goes_through_is_counted() -> None:
    """What this program says, what our own parts say, in the log or past it, and what other processes say."""
    router, bus = get_router(), ambient.node().router
    await router.publish("EVENT_A", {"n": 0})
    await ambient.post(bus.publish(nodes.Lost(node="gpu-1", seconds=9.0)))
    await ambient.post(bus.publish(work.Finished(variant="hex8_2p", job="j1", kind="train", node="n1", seconds=1.0)))
    await router.publish("EVENT_B", {}, route_to_cross_process=False)
    await get_data_event_bus().publish("EVENT_C", {})
    await elsewhere()

    await router.publish("TRAINING_STARTED", {"variant": "hex8_2p", "job": "j1", "node": "n1", "attempts": 1})

    stats = router.get_stats()
    counted = {"EVENT_A": 2, "HOST_OFFLINE": 1, "WORK_COMPLETED": 1, "EVENT_B": 1, "EVENT_C": 1, "TRAINING_STARTED": 1}
    assert stats["events_routed"] == counted
    assert stats["events_by_source"] == {"router": 5, "data_bus": 1, "cross_process": 1}
    assert stats["total_events_routed"] == 7


@on_a_loop
async def test_the_figures_grow_when_nobody_asks() -> None:
    """They are read from the log now and then, so that what it drops later is counted all the same."""
    await get_router().publish("EVENT_A", {})
    await elsewhere()

    async def as_they_are() -> int:
        count: int = get_router().get_stats()["total_events_routed"]
        return count

    # On the ambient loop the question reads nothing itself.
    await wait_until(lambda: ambient.call(as_they_are()) == 2)


@on_a_loop
async def test_counting_listens_to_nothing_and_lets_the_node_close() -> None:
    """Nobody seems to listen because events are counted, or because somebody listens to one that skips the log."""
    router, ears = get_router(), Ears()
    await router.publish("EVENT_A", {})
    router.get_stats()
    assert not router.has_subscribers("EVENT_A")

    router.subscribe("TRAINING_STARTED", ears.plain)
    assert router.has_subscribers("TRAINING_STARTED")
    assert not router.has_subscribers("EVENT_A")
    await router.publish("TRAINING_STARTED", {"variant": "hex8_2p", "job": "j1", "node": "n1", "attempts": 1})
    await wait_until(lambda: len(ears.heard) == 1)
    began = time.monotonic()
    ambient.shutdown()

    assert time.monotonic() - began < CLOSE_SECONDS_MAX


@on_a_loop
async def test_repetitions_are_counted_by_their_reason() -> None:
    """The same words within the window, on any bus, and the same id: the first are a part of all."""
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


@on_a_loop
async def test_the_same_words_for_other_views_are_another_event() -> None:
    """What was hidden from a bus is shown there when it is said again for all."""
    ears = Ears()
    get_data_event_bus().subscribe("EVENT_A", ears.plain)
    await get_router().publish("EVENT_A", {"n": 1}, route_to_data_bus=False)
    shown = await get_router().publish("EVENT_A", {"n": 1})

    assert [event.event_id for event in await ears.until(1)] == [shown.event_id]


@on_a_loop
async def test_what_others_say_comes_across_processes() -> None:
    """An event says where it came from: this router, the queue, another process, or a bus in any process."""
    ears = Ears()
    get_router().subscribe("EVENT_A", ears.plain)
    await get_router().publish("EVENT_A", {"n": 0}, source="here")
    await elsewhere()
    publish_event("EVENT_A", {"n": 2}, "queue")
    await elsewhere(
        "from app.distributed.data_events import get_event_bus\n"
        "get_event_bus().publish_sync('EVENT_A', {'n': 3}, 'bus')"
    )

    expected = {
        "here": EventSource.ROUTER, "elsewhere": EventSource.CROSS_PROCESS, "queue": EventSource.CROSS_PROCESS,
        "bus": EventSource.DATA_BUS,
    }  # fmt: skip
    assert {event.source: event.origin for event in await ears.until(4)} == expected
    assert {e.source: e.origin for e in get_router().get_recent_events(event_type="EVENT_A")} == expected
    assert get_router().get_stats()["events_by_source"]["cross_process"] == 2


@on_a_loop
async def test_what_the_node_of_this_program_says_is_its_own() -> None:
    """A program that became a node is one process, whatever makes its ids."""
    await get_router().publish("EVENT_A", {})
    await ambient.post(host(ambient.node()))

    found = get_router().get_recent_events()
    assert {event.event_type for event in found} > {"EVENT_A"}
    assert {event.origin for event in found} == {EventSource.ROUTER}


@on_a_loop
async def test_what_the_node_of_this_program_tells_past_the_log_is_heard_and_counted() -> None:
    """Its daemons say that they started to whoever listens in this process, under the old name."""
    ears = Ears()
    get_router().subscribe("DAEMON_STARTED", ears.plain)
    await ambient.post(duties(ambient.node(), "work"))

    await wait_until(lambda: len(ears.heard) > 0)
    await wait_until(lambda: get_router().get_stats()["events_routed"]["DAEMON_STARTED"] == len(ears.heard))


async def drown(name: str, count: int) -> None:
    """Say so many other things that nobody finds by looking at the last ones."""
    bus = ambient.node().router
    await ambient.post(bus.publish_many([Said(event=name, payload={"n": number}) for number in range(count)]))


@on_a_loop
async def test_a_name_is_found_behind_thousands_of_others() -> None:
    """Whether it is an event of ours or what somebody said under that name, and under the name that was asked for."""
    router = get_router()
    await ambient.post(ambient.node().router.publish(nodes.Lost(node="gpu-1", seconds=9.0)))
    await router.publish("NODE_OFFLINE", {"why": "said with too little in it"})
    await drown("EVENT_A", 2500)
    await router.publish("HOST_OFFLINE", {"n": 3})

    by_name = {name: router.get_recent_events(event_type=name) for name in ("HOST_OFFLINE", "EVENT_A")}
    assert [event.payload.get("node_id", event.payload.get("n")) for event in by_name["HOST_OFFLINE"]] == ["gpu-1", 3]
    assert {event.event_type for event in by_name["HOST_OFFLINE"]} == {"HOST_OFFLINE"}
    assert [event.payload["n"] for event in by_name["EVENT_A"]] == list(range(2400, 2500))
    assert router.get_recent_events(limit=1, event_type="HOST_OFFLINE")[0].payload == {"n": 3}
    assert router.get_recent_events(event_type="NEVER_SAID") == router.get_recent_events(limit=0) == []


@on_a_loop
async def test_a_poll_by_type_looks_past_all_others() -> None:
    """A place that only its own word moves would stay behind a crowd of other events for ever."""
    queue = get_event_queue()
    queue.subscribe("trainer")
    await drown("EVENT_A", 2500)
    last = publish_event("EVENT_B", {"n": 1})

    assert [event.event_id for event in queue.poll("trainer", ["EVENT_B", "EVENT_C"])] == [last]
    assert [event.payload["n"] for event in queue.poll("trainer", limit=1200)] == list(range(1200))


def test_a_home_keeps_no_trace_of_counting(home: Path) -> None:
    """The figures begin anew with the node, from what comes then."""
    get_router().publish_sync("EVENT_A", {})
    ambient.shutdown()

    get_router().publish_sync("EVENT_B", {})
    assert get_router().get_stats()["events_routed"] == {"EVENT_B": 1}
