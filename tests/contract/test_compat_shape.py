"""The documented event in every field, where it came from, and the calls of the module."""

import hashlib
import time

from contract.ears import Ears, home, on_a_loop
from ringrift.compat.buses import get_data_event_bus, get_stage_event_bus
from ringrift.compat.emitters import emit_training_started
from ringrift.compat.events import get_router, has_subscribers, publish, subscribe, unsubscribe
from ringrift.compat.router_event import EventSource

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
