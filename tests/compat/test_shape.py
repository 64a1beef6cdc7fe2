"""The documented event in every field, where it came from, and the calls of the module."""

import hashlib
import time

import pytest

from compat.ears import Ears, home, on_a_loop
from ringrift.events import node as nodes
from ringrift.kernel.errors import IdConflict, InvalidId
from ringrift_compat.ambient import ambient
from ringrift_compat.buses import get_data_event_bus, get_stage_event_bus
from ringrift_compat.emitters import emit_training_started
from ringrift_compat.events import get_router, has_subscribers, publish, subscribe, unsubscribe
from ringrift_compat.router_event import EventSource, RouterEvent
from waiting import wait_until

__all__ = ["home"]


@on_a_loop
async def test_the_calls_of_the_module_are_those_of_the_router() -> None:
    """Who has no router in hand hears, asks and stops in the same way."""
    ears = Ears()
    subscribe("EVENT_A", ears.plain)
    assert has_subscribers("EVENT_A")
    said = await publish("EVENT_A", payload={"n": 1}, source="me")
    assert [event.event_id for event in await ears.until(1)] == [said.event_id]

    assert unsubscribe("EVENT_A", ears.plain)
    assert not has_subscribers("EVENT_A")


@on_a_loop
async def test_every_field_says_what_it_is_documented_to_say() -> None:
    """Time, request and hash: what one event leads to belongs to the same request, and has a hash of its own."""
    effects = Ears()

    async def react(event: object) -> None:
        await get_router().publish("EVENT_B", {"n": 2})

    get_router().subscribe("EVENT_A", react)
    get_router().subscribe("EVENT_B", effects.plain)
    before = time.time()
    cause = await get_router().publish("EVENT_A", {"n": 1})
    [effect] = await effects.until(1)

    assert before <= cause.timestamp <= effect.timestamp <= time.time()
    assert cause.correlation_id == effect.correlation_id == cause.event_id
    assert cause.trace_id == effect.trace_id != ""
    assert {len(one.content_hash) for one in (cause, effect)} == {len(hashlib.sha256().hexdigest())}
    assert cause.content_hash != effect.content_hash
    assert (await emit_training_started(config_key="hex8_2p")).event_type == "TRAINING_STARTED"


@on_a_loop
async def test_each_view_is_an_origin_and_can_be_passed_by() -> None:
    """The stage bus and the router are told apart, and what is routed past the data bus is not shown there."""
    router, data = Ears(), Ears()
    get_router().subscribe("EVENT_A", router.plain)
    get_data_event_bus().subscribe("EVENT_A", data.plain)
    await get_stage_event_bus().publish("EVENT_A", {"n": 1})
    await get_router().publish("EVENT_A", {"n": 2}, route_to_data_bus=False)

    heard = {event.payload["n"]: event.origin for event in await router.until(2)}
    assert heard == {1: EventSource.STAGE_BUS, 2: EventSource.ROUTER}
    assert [event.payload["n"] for event in data.heard] == [1]


@on_a_loop
async def test_an_event_that_somebody_made_keeps_what_it_says_of_itself() -> None:
    """Its id, trace, request and parent reach whoever hears it, and what is said because of it."""
    ears = Ears()

    async def react(event: RouterEvent) -> None:
        await get_router().publish("EVENT_B", {"n": 2})

    get_router().subscribe("EVENT_A", ears.plain)
    get_router().subscribe("EVENT_A", react)
    get_router().subscribe("EVENT_B", ears.plain)
    made = RouterEvent(
        "EVENT_A", {"n": 1}, source="me", event_id="order-xd-1", trace_id="ab" * 16, correlation_id="request-7",
        parent_event_id="order-0", origin=EventSource.DATA_BUS,
    )  # fmt: skip
    said = await get_router().publish(made)

    first, effect = await ears.until(2)
    for event in (said, first):
        assert (event.event_id, event.trace_id, event.correlation_id) == ("order-xd-1", "ab" * 16, "request-7")
        assert (event.parent_event_id, event.origin, event.source) == ("order-0", EventSource.DATA_BUS, "me")
    assert (effect.trace_id, effect.correlation_id, effect.parent_event_id) == ("ab" * 16, "request-7", "order-xd-1")


@on_a_loop
@pytest.mark.parametrize("everywhere", [True, False], ids=["in the log", "in this process"])
async def test_one_id_is_one_event(everywhere: bool) -> None:
    """The same again is the same event, something else under its id is refused, and so is what cannot be an id."""
    ears, router = Ears(), get_router()
    router.subscribe("EVENT_A", ears.plain)
    made = RouterEvent("EVENT_A", {"n": 1, "m": 2}, event_id="mine")
    await router.publish(made, route_to_cross_process=everywhere)
    again = await router.publish(made, payload={"m": 2, "n": 1}, route_to_cross_process=everywhere)

    assert again.event_id == "mine"
    with pytest.raises(IdConflict):
        await router.publish(made, payload={"n": 2}, route_to_cross_process=everywhere)
    with pytest.raises(InvalidId):
        router.publish(RouterEvent("EVENT_A", event_id="not an id"))
    assert [event.payload for event in await ears.until(1)] == [{"n": 1, "m": 2}]


@on_a_loop
async def test_an_event_that_is_passed_on_is_no_new_one() -> None:
    """Who hears an event, of ours or of anybody, and publishes it as it is says nothing new: there is no echo."""
    ears, passed = Ears(), []

    async def echo(event: RouterEvent) -> None:
        ears.plain(event)
        passed.append(await get_router().publish(event))

    for name in ("HOST_OFFLINE", "EVENT_A", "NODE_RECOVERED"):
        get_router().subscribe(name, echo)
    await ambient.post(ambient.node().router.publish(nodes.Lost(node="gpu-1", seconds=9.0)))
    await get_router().publish("NODE_RECOVERED", {"node_id": "gpu-2", "downtime": 7})
    await get_data_event_bus().publish("EVENT_A", {"n": 1})

    heard = await ears.until(3)
    await wait_until(lambda: len(passed) == 3)
    assert {event.event_id for event in passed} == {event.event_id for event in heard}
    assert get_router().get_stats()["duplicates_prevented"] == 3


@on_a_loop
async def test_what_is_hidden_is_hidden_in_this_process_too() -> None:
    """A view does not show what is routed past it, also where the event skips the log or brings its own id."""
    stage, router = Ears(), Ears()
    for name in ("EVENT_A", "WORK_FINISHED"):
        get_stage_event_bus().subscribe(name, stage.plain)
        get_router().subscribe(name, router.plain)
    await get_router().publish("EVENT_A", {"n": 1}, route_to_stage_bus=False, route_to_cross_process=False)
    await get_router().publish(
        "WORK_FINISHED",
        {"variant": "v", "job": "j", "kind": "train", "node": "n", "seconds": 1.0},
        route_to_stage_bus=False,
    )
    await get_router().publish(RouterEvent("EVENT_A", {"n": 2}, event_id="mine"), route_to_stage_bus=False)

    assert len(await router.until(3)) == 3
    assert not stage.heard
