"""The documented event in every field, where it came from, and the calls of the module."""

import hashlib
import time

import pytest

from compat.subscribers import EventRecorder, async_test, home
from ringrift.events import node as nodes
from ringrift.kernel.errors import IdConflict, InvalidId
from ringrift_compat.embedded_node import embedded
from ringrift_compat.events.buses import StageEventBus, get_data_event_bus
from ringrift_compat.events.event_emitters import emit_training_started
from ringrift_compat.events.event_router import get_router, has_subscribers, publish, subscribe, unsubscribe
from ringrift_compat.events.router_event import EventSource, RouterEvent
from wait import wait_until

__all__ = ["home"]


@async_test
async def test_the_calls_of_the_module_are_those_of_the_router() -> None:
    """The module's functions subscribe, query and unsubscribe as the router's methods do."""
    recorder = EventRecorder()
    subscribe("EVENT_A", recorder.plain)
    assert has_subscribers("EVENT_A")
    published = await publish("EVENT_A", payload={"n": 1}, source="me")
    [received] = await recorder.until(1)
    assert (received.event_id, received.payload, received.source) == (published.event_id, {"n": 1}, "me")

    assert unsubscribe("EVENT_A", recorder.plain)
    assert not has_subscribers("EVENT_A")


@async_test
async def test_every_field_has_its_documented_meaning() -> None:
    """Time, name, source, request, hash: an effect of an event belongs to the same request, and has its own hash."""
    effects = EventRecorder()

    async def react(event: object) -> None:
        await get_router().publish("EVENT_B", {"n": 2})

    get_router().subscribe("EVENT_A", react)
    get_router().subscribe("EVENT_B", effects.plain)
    before = time.time()
    cause = await get_router().publish("EVENT_A", {"n": 1}, source="me")
    [effect] = await effects.until(1)

    assert (cause.type, cause.source, effect.type) == ("EVENT_A", "me", "EVENT_B")
    assert before <= cause.timestamp <= effect.timestamp <= time.time()
    assert cause.correlation_id == effect.correlation_id == cause.event_id
    assert cause.trace_id == effect.trace_id != ""
    assert {len(event.content_hash) for event in (cause, effect)} == {len(hashlib.sha256().hexdigest())}
    assert cause.content_hash != effect.content_hash
    started = await emit_training_started(config_key="hex8_2p", job_id="j", node_id="n", attempt=1)
    assert started.event_type == "TRAINING_STARTED"


@async_test
async def test_each_view_is_an_origin_and_can_be_excluded() -> None:
    """The stage bus and the router are distinct, and an event routed past the data bus is not shown there."""
    router, data = EventRecorder(), EventRecorder()
    get_router().subscribe("EVENT_A", router.plain)
    get_data_event_bus().subscribe("EVENT_A", data.plain)
    await StageEventBus().publish("EVENT_A", {"n": 1})
    await get_router().publish("EVENT_A", {"n": 2}, route_to_data_bus=False)

    received = {event.payload["n"]: event.origin for event in await router.until(2)}
    assert received == {1: EventSource.STAGE_BUS, 2: EventSource.ROUTER}
    assert [event.payload["n"] for event in data.events] == [1]


@async_test
async def test_a_prebuilt_event_keeps_its_identity() -> None:
    """Its id, trace, request and parent reach subscribers and the events that it causes."""
    recorder = EventRecorder()

    async def react(event: RouterEvent) -> None:
        await get_router().publish("EVENT_B", {"n": 2})

    get_router().subscribe("EVENT_A", recorder.plain)
    get_router().subscribe("EVENT_A", react)
    get_router().subscribe("EVENT_B", recorder.plain)
    ids = {"event_id": "order-xd-1", "parent_event_id": "order-0", "correlation_id": "request-7"}
    made = RouterEvent("EVENT_A", {"n": 1}, source="me", trace_id="ab" * 16, origin=EventSource.DATA_BUS, **ids)
    published = await get_router().publish(made)

    first, effect = await recorder.until(2)
    for event in (published, first):
        assert (event.event_id, event.trace_id, event.correlation_id) == ("order-xd-1", "ab" * 16, "request-7")
        assert (event.parent_event_id, event.origin, event.source) == ("order-0", EventSource.DATA_BUS, "me")
    assert (effect.trace_id, effect.correlation_id, effect.parent_event_id) == ("ab" * 16, "request-7", "order-xd-1")


@async_test
@pytest.mark.parametrize("everywhere", [True, False], ids=["in the log", "in this process"])
async def test_a_repeated_id_is_the_same_event(everywhere: bool) -> None:
    """The same content is the same event, another content under its id is refused, and so is an invalid id."""
    recorder, router = EventRecorder(), get_router()
    router.subscribe("EVENT_A", recorder.plain)
    made = RouterEvent("EVENT_A", {"n": 1, "m": 2}, event_id="mine")
    await router.publish(made, route_to_cross_process=everywhere)
    again = await router.publish(made, payload={"m": 2, "n": 1}, route_to_cross_process=everywhere)

    assert again.event_id == "mine"
    with pytest.raises(IdConflict):
        await router.publish(made, payload={"n": 2}, route_to_cross_process=everywhere)
    with pytest.raises(InvalidId):
        router.publish(RouterEvent("EVENT_A", event_id="not an id"))
    assert [event.payload for event in await recorder.until(1)] == [{"n": 1, "m": 2}]


@async_test
async def test_a_republished_event_is_not_a_new_one() -> None:
    """A subscriber that publishes a received event unchanged adds nothing: there is no echo."""
    recorder, passed = EventRecorder(), []

    async def echo(event: RouterEvent) -> None:
        recorder.plain(event)
        passed.append(await get_router().publish(event))

    for name in ("HOST_OFFLINE", "EVENT_A", "NODE_RECOVERED"):
        get_router().subscribe(name, echo)
    await embedded.post(embedded.node().router.publish(nodes.Lost(node="gpu-1", seconds=9.0)))
    await get_router().publish("NODE_RECOVERED", {"node_id": "gpu-2", "downtime": 7})
    await get_data_event_bus().publish("EVENT_A", {"n": 1})

    received = await recorder.until(3)
    await wait_until(lambda: len(passed) == 3)
    assert {event.event_id for event in passed} == {event.event_id for event in received}
    assert get_router().get_stats()["duplicates_prevented"] == 3


@async_test
async def test_a_hidden_event_is_hidden_in_this_process_too() -> None:
    """A view does not show an event routed past it, also where it skips the log or brings its own id."""
    stage, router = EventRecorder(), EventRecorder()
    for name in ("EVENT_A", "WORK_FINISHED"):
        StageEventBus().subscribe(name, stage.plain)
        get_router().subscribe(name, router.plain)
    await get_router().publish("EVENT_A", {"n": 1}, route_to_stage_bus=False, route_to_cross_process=False)
    await get_router().publish(
        "WORK_FINISHED",
        {"variant": "v", "job": "j", "kind": "train", "node": "n", "seconds": 1.0},
        route_to_stage_bus=False,
    )
    await get_router().publish(RouterEvent("EVENT_A", {"n": 2}, event_id="mine"), route_to_stage_bus=False)

    assert len(await router.until(3)) == 3
    assert not stage.events
