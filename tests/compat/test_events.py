"""The documented event API on the embedded node: one stream, delivered once, durable when awaited."""

import asyncio
import importlib
import threading
from pathlib import Path
from typing import Any

import pytest

from compat.subscribers import SLOW, EventRecorder, async_test, home
from ringrift.events import node as nodes
from ringrift.kernel.errors import InvalidPayload, UnknownName
from ringrift_compat.embedded_node import embedded
from ringrift_compat.events.buses import StageCompletionResult, StageEventBus, get_core_event_bus, get_data_event_bus
from ringrift_compat.events.cross_process_queue import CrossProcessEventQueue, publish_event
from ringrift_compat.events.dead_letters import get_dead_letter_queue, run_retry_daemon
from ringrift_compat.events.event_router import get_router
from ringrift_compat.events.event_types import DataEventType
from ringrift_compat.events.router_event import EventSource, RouterEvent
from wait import wait_until

__all__ = ["home"]


@async_test
async def test_one_publish_is_one_delivery() -> None:
    """Finding 1: every subscriber of the router receives an event once, and a slow one delays no other."""
    quick, slow, started, go_on = EventRecorder(), [], asyncio.Event(), asyncio.Event()

    async def dawdle(event: RouterEvent) -> None:
        started.set()
        await go_on.wait()
        slow.append(event)

    get_router().subscribe("TRAINING_COMPLETED", quick.awaited)
    get_router().subscribe("TRAINING_COMPLETED", dawdle)
    published = await get_router().publish("TRAINING_COMPLETED", {"config": "hex8_2p"}, source="trainer")
    await started.wait()

    assert [event.event_id for event in await quick.until(1)] == [published.event_id]
    assert not slow
    go_on.set()
    await wait_until(lambda: len(slow) == 1)


@async_test
async def test_every_spelling_is_the_same_event() -> None:
    """A subscriber under two spellings of a name, or twice under one, is called once; so it is with enum members."""
    recorder = EventRecorder()
    for name in ("SELFPLAY_COMPLETE", "GAME_BATCH_READY", "selfplay.completed", DataEventType.SELFPLAY_COMPLETE):
        get_router().subscribe(name, recorder.plain)
    await get_router().publish("selfplay.complete", {"games": 3})

    [event] = await recorder.until(1)
    assert event.type == event.event_type == "SELFPLAY_COMPLETE"
    assert event.payload == {"games": 3}


@async_test
async def test_equal_events_of_different_nodes_are_all_delivered() -> None:
    """Finding 4: equal batches from three sources are three events, and a repetition from one source is one."""
    recorder, batch = EventRecorder(), {"games": 100, "config": "hex8_2p"}
    get_router().subscribe("NEW_GAMES_AVAILABLE", recorder.plain)

    for source in ("node-1", "node-2", "node-3", "node-3"):
        await get_router().publish("NEW_GAMES_AVAILABLE", batch, source=source)

    assert sorted(event.source for event in await recorder.until(3)) == ["node-1", "node-2", "node-3"]
    assert get_router().get_stats()["duplicates_prevented"] == 1
    assert get_router().get_stats()["events_routed"] == {"NEW_GAMES_AVAILABLE": 3, "MARKER_EVENT": 1}


@async_test
async def test_the_dead_letter_queue_shows_the_real_state() -> None:
    """Finding 3: a delivery that still fails is pending and then abandoned, one that succeeds later is recovered;
    others run once."""
    good, calls, mends = EventRecorder(), [], []

    async def broken(event: RouterEvent) -> None:
        calls.append(event)
        raise ValueError("still broken")

    async def mended(event: RouterEvent) -> None:
        mends.append(event)
        if len(mends) == 1:
            raise ValueError("once")

    for callback in (good.awaited, broken, mended):
        get_router().subscribe("DATA_SYNC_COMPLETED", callback)
    await get_router().publish("DATA_SYNC_COMPLETED", {"games_synced": 1})

    stats = get_dead_letter_queue().get_stats
    await wait_until(lambda: stats()["abandoned"] == 1 and stats()["recovered"] == 1)
    assert stats()["pending"] == 0
    assert (len(calls), len(mends), len(good.events)) == (3, 2, 1)
    [delivery] = get_dead_letter_queue().get_abandoned_events()
    assert (delivery["event_type"], delivery["status"]) == ("DATA_SYNC_COMPLETED", "abandoned")
    assert "still broken" in delivery["error"]
    assert not get_dead_letter_queue().health_check()


@async_test
async def test_the_retry_daemon_runs_until_cancelled(home: Path) -> None:
    """It retries pending dead letters at its own interval, and cancelling it is clean."""
    (home / "ringrift.toml").write_text(SLOW)
    calls: list[RouterEvent] = []

    async def once(event: RouterEvent) -> None:
        calls.append(event)
        if len(calls) == 1:
            raise ValueError("once")

    get_router().subscribe("DATA_STALE", once)
    await get_router().publish("DATA_STALE", {"x": 1})
    await wait_until(lambda: get_dead_letter_queue().get_stats()["pending"] == 1)
    [pending] = get_dead_letter_queue().get_pending_events()
    assert (pending["event_type"], pending["payload"], pending["retry_count"]) == ("DATA_STALE", {"x": 1}, 1)
    assert get_dead_letter_queue().get_stats()["by_event_type"] == {"DATA_STALE": 1}

    daemon = asyncio.create_task(run_retry_daemon(interval_seconds=0.05))
    await wait_until(lambda: get_dead_letter_queue().get_stats()["recovered"] == 1)
    daemon.cancel()
    await asyncio.wait((daemon,))

    assert daemon.cancelled()


@async_test
async def test_a_callback_runs_where_it_was_subscribed() -> None:
    """It runs on the loop of the subscriber; without one, a plain callback gets a thread and an async one the embedded
    loop."""
    here, nowhere = EventRecorder(), EventRecorder()
    get_router().subscribe("EVENT_A", here.plain)
    get_router().subscribe("EVENT_A", here.awaited)
    await asyncio.to_thread(get_router().subscribe, "EVENT_A", nowhere.plain)
    await asyncio.to_thread(get_router().subscribe, "EVENT_A", nowhere.awaited)
    await get_router().publish("EVENT_A", {})

    await here.until(2)
    await nowhere.until(2)
    assert set(here.threads) == {threading.get_ident()}
    assert threading.get_ident() not in nowhere.threads


@async_test
async def test_a_callback_of_a_closed_loop_ends_with_an_alert() -> None:
    """It can never be called again: it is unsubscribed, no dead letter is written, and an alert reports it."""
    recorder = EventRecorder()

    async def subscribe() -> None:
        get_router().subscribe("EVENT_A", recorder.plain)

    await asyncio.to_thread(asyncio.run, subscribe())
    await get_router().publish("EVENT_A", {})

    await wait_until(lambda: not get_router().has_subscribers("EVENT_A"))
    await wait_until(lambda: any(e.payload.get("kind") == "subscription" for e in get_router().get_recent_events()))
    assert not recorder.events
    assert get_dead_letter_queue().get_stats()["total"] == 0


@async_test
async def test_synchronous_forms_on_the_embedded_loop_raise() -> None:
    """They would wait for themselves; the asynchronous ones work there, and know what caused them."""
    raised: list[str] = []
    effects = EventRecorder()

    async def react(event: RouterEvent) -> None:
        for call in (
            lambda: get_router().publish_sync("EVENT_B", {}),
            embedded.shutdown,
            get_router().get_recent_events,
        ):
            try:
                call()
            except RuntimeError as error:
                raised.append(str(error))
        get_router().subscribe("EVENT_B", effects.plain)
        await get_router().publish("EVENT_B", {"of": event.event_id})

    await asyncio.to_thread(get_router().subscribe, "EVENT_A", react)
    cause = await get_router().publish("EVENT_A", {})

    [effect] = await effects.until(1)
    assert len(raised) == 3
    assert effect.parent_event_id == cause.event_id
    assert effect.trace_id == cause.trace_id


@async_test
async def test_publishing_accepts_at_once_and_awaiting_is_durable() -> None:
    """Without an await the event is published too; an invalid one raises at once; cancelling the wait takes nothing
    back."""
    recorder = EventRecorder()
    get_router().subscribe("EVENT_A", recorder.plain)
    payload: dict[str, Any] = {"n": 1}
    get_router().publish("EVENT_A", payload)
    payload["n"] = 2
    waiting = asyncio.ensure_future(get_router().publish("EVENT_A", {"n": 3}))
    await asyncio.sleep(0)
    waiting.cancel()

    with pytest.raises(InvalidPayload):
        get_router().publish("EVENT_A", {"n": float("nan")})
    assert [event.payload["n"] for event in await recorder.until(2)] == [1, 3]


@async_test
async def test_views_hide_excluded_events() -> None:
    """An event that is routed past a bus is not shown there, and one that stays in this process is in no log."""
    router, data, stage = EventRecorder(), EventRecorder(), EventRecorder()
    get_router().subscribe("CUSTOM_EVENT", router.plain)
    get_data_event_bus().subscribe("CUSTOM_EVENT", data.plain)
    StageEventBus().subscribe("CUSTOM_EVENT", stage.plain)

    await get_router().publish("CUSTOM_EVENT", {"n": 1}, route_to_stage_bus=False)
    await get_data_event_bus().publish("CUSTOM_EVENT", {"n": 2})
    await get_router().publish("CUSTOM_EVENT", {"n": 3}, route_to_cross_process=False)

    assert sorted(event.payload["n"] for event in await router.until(3)) == [1, 2, 3]
    assert sorted(event.payload["n"] for event in await data.until(3)) == [1, 2, 3]
    assert sorted(event.payload["n"] for event in await stage.until(2)) == [2, 3]
    assert {event.origin for event in data.events if event.payload["n"] == 2} == {EventSource.DATA_BUS}
    logged = get_router().get_recent_events(event_type="CUSTOM_EVENT")
    assert [event.payload["n"] for event in logged] == [1, 2]


@async_test
async def test_old_and_new_style_are_one_stream() -> None:
    """Our events are delivered under old names and fields; an event published under one is ours, whole, and once."""
    old, own = EventRecorder(), []
    get_router().subscribe("HOST_OFFLINE", old.plain)
    bus = embedded.node().router

    async def subscribe() -> None:
        bus.subscribe(nodes.Recovered, lambda event, _: own.append(event))

    await embedded.post(subscribe())
    await embedded.post(bus.publish(nodes.Lost(node="gpu-1", seconds=9.0)))
    back = await get_router().publish("NODE_RECOVERED", {"node_id": "gpu-2", "downtime": 7})
    again = await get_router().publish("NODE_RECOVERED", {"node_id": "gpu-2", "downtime": 7})

    [event] = await old.until(1)
    assert (event.event_type, event.payload["node_id"], event.payload["host"]) == ("HOST_OFFLINE", "gpu-1", "gpu-1")
    await wait_until(lambda: [event.node for event in own] == ["gpu-2"])
    assert (
        back.payload["downtime"]
        == get_router().get_recent_events(event_type="NODE_RECOVERED")[0].payload["downtime"]
        == 7
    )
    assert back.event_id == again.event_id


@async_test
async def test_the_core_bus_decorates_and_the_stage_bus_publishes_results() -> None:
    """The calls that the documents show for these buses do what they show."""
    received: list[RouterEvent] = []

    @get_core_event_bus().subscribe("training.completed")
    async def on_training_completed(event: RouterEvent) -> None:
        received.append(event)

    await StageEventBus().emit(StageCompletionResult(success=True, stage="training_complete", iteration=4))

    await wait_until(lambda: len(received) == 1)
    assert received[0].payload["iteration"] == 4
    assert get_core_event_bus().get_history("training.completed")[0].event_id == received[0].event_id
    assert on_training_completed.__name__ == "on_training_completed"
    replayed: list[RouterEvent] = []
    assert get_core_event_bus().replay("training.completed", replayed.append) == 1
    assert [event.event_id for event in replayed] == [received[0].event_id]
    core = importlib.import_module("app.core.event_bus")
    assert core.get_event_bus() is core.get_event_bus() is get_core_event_bus()


@async_test
async def test_a_queue_keeps_events_until_they_are_acknowledged() -> None:
    """A subscriber polls the events since its subscription, across a shutdown, until it acknowledges them."""
    queue = CrossProcessEventQueue()
    queue.subscribe("trainer")
    first, second = publish_event("EVENT_A", {"n": 1}), publish_event("EVENT_B", {"n": 2})
    embedded.shutdown()

    assert [event.event_id for event in queue.poll("trainer")] == [first, second]
    assert [event.payload for event in queue.poll("trainer", ["EVENT_B"])] == [{"n": 2}]
    queue.ack("trainer", first)
    queue.ack("trainer", first)
    assert [event.event_id for event in queue.poll("trainer")] == [second]
    queue.unsubscribe("trainer")
    with pytest.raises(UnknownName, match="trainer"):
        queue.poll("trainer")


@async_test
async def test_the_core_bus_filters() -> None:
    """Only events that the filter accepts are delivered, plain or async, until the callback is unsubscribed."""
    bus, plain, decorated = get_core_event_bus(), EventRecorder(), EventRecorder()
    bus.subscribe("EVENT_A", plain.plain, filter=lambda event: event.payload["n"] > 1)

    @bus.subscribe("event_a", filter=lambda event: event.payload["n"] == 3)
    async def on_three(event: RouterEvent) -> None:
        decorated.plain(event)

    for n in (1, 2, 3):
        await bus.publish("EVENT_A", {"n": n})

    assert [event.payload["n"] for event in await plain.until(2)] == [2, 3]
    assert [event.payload["n"] for event in await decorated.until(1)] == [3]
    assert bus.unsubscribe("EVENT_A", plain.plain)
    assert not bus.unsubscribe("EVENT_A", plain.plain)
    await bus.publish("EVENT_A", {"n": 9})
    assert [event.payload["n"] for event in await decorated.until(1)] == [3]
    assert [event.payload["n"] for event in plain.events] == [2, 3]


@async_test
async def test_a_subscriber_that_stops_polling_is_forgotten() -> None:
    """After its timeout nothing is kept for it; one that polls stays, and one that subscribes again starts anew."""
    CrossProcessEventQueue(subscriber_timeout=0.05).subscribe("quiet")
    queue = CrossProcessEventQueue()
    queue.subscribe("busy")
    publish_event("EVENT_A", {"n": 1})

    def is_forgotten() -> bool:
        queue.poll("busy")
        try:
            queue.ack("quiet", "x")
        except UnknownName as unknown:
            return unknown.kind == "subscriber"
        return False

    await wait_until(is_forgotten)
    with pytest.raises(UnknownName):
        queue.poll("quiet")
    assert [event.payload for event in queue.poll("busy")] == [{"n": 1}]
    queue.subscribe("quiet")
    assert queue.poll("quiet") == []


@async_test
async def test_a_shutdown_ends_subscriptions_and_the_next_use_opens_the_same_store() -> None:
    """Events from before are there afterwards; events published without a subscriber are not delivered later."""
    recorder = EventRecorder()
    get_router().subscribe("EVENT_A", recorder.plain)
    before = get_router().publish("EVENT_A", {"n": 1})
    await recorder.until(1)
    embedded.shutdown()
    assert not embedded.is_open
    assert (await before).payload == {"n": 1}

    await get_router().publish("EVENT_A", {"n": 2})
    get_router().subscribe("EVENT_A", recorder.plain)
    await get_router().publish("EVENT_A", {"n": 3})

    assert [event.payload["n"] for event in await recorder.until(2)] == [1, 3]
    assert [e.payload["n"] for e in get_router().get_recent_events(event_type="EVENT_A")] == [1, 2, 3]


@async_test
async def test_an_unsubscribed_callback_misses_later_events() -> None:
    """Unsubscribing returns whether it was subscribed; a new subscription begins with new events."""
    recorder = EventRecorder()
    get_router().subscribe("EVENT_A", recorder.plain)
    assert get_router().has_subscribers("EVENT_A")
    assert get_router().unsubscribe("EVENT_A", recorder.plain)
    assert not get_router().unsubscribe("EVENT_A", recorder.plain)
    assert not get_router().has_subscribers("EVENT_A")

    await get_router().publish("EVENT_A", {"n": 1})
    get_router().subscribe("EVENT_A", recorder.plain)
    await get_router().publish("EVENT_A", {"n": 2})

    assert [event.payload["n"] for event in await recorder.until(1)] == [2]


@async_test
async def test_emitters_follow_one_rule() -> None:
    """Every event name has its emitter, in every spelling, and the fields are the payload."""
    emitters = importlib.import_module("app.coordination.event_emitters")
    recorder = EventRecorder()
    get_router().subscribe(None, recorder.plain)

    for spelled in ("emit_training_complete", "emit_training_completion", "emit_training_completed"):
        await getattr(emitters, spelled)(config_key="hex8_2p", model_path="/models/a.pth")
    await emitters.emit_plateau_detected(config_key="hex8_2p", rejections=8, since=1.0, source="feedback")

    names = [event.event_type for event in await recorder.until(2)]
    assert names[:2] == ["TRAINING_COMPLETED", "PLATEAU_DETECTED"]
    with pytest.raises(AttributeError):
        _ = emitters.emit_nonsense
