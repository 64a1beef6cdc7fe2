"""The documented API around the router: its limits, the bases to inherit from, boundaries and naming."""

import asyncio
import importlib
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from compat.subscribers import SLOW, EventRecorder, async_test, home
from ringrift.kernel.errors import Backpressure, InvalidId, UnknownName
from ringrift_compat.embedded_node import _ACCEPTED_MAX, embedded
from ringrift_compat.events import old_names, subscription_registry
from ringrift_compat.events.buses import StageCompletionResult, StageEventBus
from ringrift_compat.events.dead_letters import get_dead_letter_queue
from ringrift_compat.events.event_router import get_router
from ringrift_compat.events.event_types import DataEventType
from ringrift_compat.events.handler_base import HandlerBase
from ringrift_compat.events.router_event import RouterEvent
from wait import wait_until

__all__ = ["home"]


@async_test
async def test_subscribers_with_similar_names_are_independent() -> None:
    """Ending one leaves those with the same name, or with its name as a prefix, undisturbed."""
    first, second, received = EventRecorder(), EventRecorder(), []

    def plain(event: RouterEvent) -> None:
        raise AssertionError("it has ended")

    def plain_too(event: RouterEvent) -> None:
        received.append(event.payload["n"])

    for callback in (plain, plain_too, first.plain, second.plain):
        get_router().subscribe("EVENT_A", callback)
    get_router().unsubscribe("EVENT_A", plain)
    get_router().unsubscribe("EVENT_A", first.plain)
    for number in range(5):
        await get_router().publish("EVENT_A", {"n": number})

    assert [event.payload["n"] for event in await second.until(5)] == received == list(range(5))
    assert not first.events


@async_test
async def test_many_threads_publish_in_their_own_order() -> None:
    """Each thread's events arrive in the order in which it published them, and none is lost."""
    recorder = EventRecorder()
    get_router().subscribe("EVENT_A", recorder.plain)

    def publish(thread: int) -> None:
        for number in range(50):
            get_router().publish("EVENT_A", {"thread": thread, "n": number})

    threads = [threading.Thread(target=publish, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    received = await recorder.until(200)

    for thread in range(4):
        assert [event.payload["n"] for event in received if event.payload["thread"] == thread] == list(range(50))


def test_an_accepted_event_is_never_dropped() -> None:
    """A thread that publishes faster than the disk waits for room; on a loop, which must not wait, it is refused."""
    occupied = threading.Event()

    async def hold() -> None:
        occupied.wait(10)

    async def flood() -> None:
        embedded.post(hold())
        for number in range(_ACCEPTED_MAX):
            get_router().publish("EVENT_A", {"n": number})
        with pytest.raises(Backpressure):
            get_router().publish("EVENT_A", {"n": -1})
        occupied.set()

    get_router().subscribe("EVENT_B", print)
    asyncio.run(flood())
    for number in range(_ACCEPTED_MAX, 3 * _ACCEPTED_MAX):
        get_router().publish("EVENT_A", {"n": number})
    embedded.shutdown()

    recent = get_router().get_recent_events(limit=4 * _ACCEPTED_MAX)
    assert [event.payload["n"] for event in recent] == list(range(3 * _ACCEPTED_MAX))


@async_test
async def test_strict_validation_refuses_unknown_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """RINGRIFT_EVENT_VALIDATION_STRICT refuses an unknown name at once, and lets the others pass."""
    monkeypatch.setenv("RINGRIFT_EVENT_VALIDATION_STRICT", "true")

    with pytest.raises(UnknownName):
        get_router().publish("NOBODY_SAYS_SO", {})
    assert (await get_router().publish("TRAINING_STARTED", {})).event_type == "TRAINING_STARTED"


@async_test
async def test_a_callback_that_takes_too_long_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """RINGRIFT_EVENT_HANDLER_TIMEOUT cancels it on its own loop, and the event becomes a dead letter."""
    monkeypatch.setenv("RINGRIFT_EVENT_HANDLER_TIMEOUT", "0.1")
    ended = []

    async def hang(event: RouterEvent) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(event)

    get_router().subscribe("EVENT_A", hang)
    await get_router().publish("EVENT_A", {})

    await wait_until(lambda: len(ended) > 0 and get_dead_letter_queue().get_stats()["total"] == 1)


@async_test
async def test_a_dead_letter_waits_for_its_callback_to_return(home: Path) -> None:
    """A failed delivery is retried by the same callback after the program's restart, and only by that one."""
    (home / "ringrift.toml").write_text(SLOW)
    received: list[int] = []
    mended = False

    async def moody(event: RouterEvent) -> None:
        received.append(event.payload["n"])
        if not mended:
            raise ValueError("not in the mood")

    deliveries = get_dead_letter_queue()
    get_router().subscribe("EVENT_A", moody)
    await get_router().publish("EVENT_A", {"n": 1})
    await wait_until(lambda: deliveries.get_stats()["pending"] == 1)
    embedded.shutdown()
    await get_router().publish("EVENT_A", {"n": 2})

    mended = True
    get_router().subscribe("EVENT_A", moody)
    assert deliveries.retry_now() == 1
    await wait_until(lambda: deliveries.get_stats()["recovered"] == 1)
    assert received == [1, 1]


class Trainer(HandlerBase):
    """A class of a user's."""

    def __init__(self) -> None:
        super().__init__("trainer")
        self.events: list[str] = []

    def _get_event_subscriptions(self) -> Mapping[Any, Callable[[RouterEvent], Any]]:
        return {DataEventType.EVALUATION_COMPLETED: self._on_evaluated, "EVENT_A": self._on_event}

    async def _on_evaluated(self, event: RouterEvent) -> None:
        self.events.append(event.event_type)

    def _on_event(self, event: RouterEvent) -> None:
        raise ValueError("not today")


@async_test
async def test_a_base_counts_the_calls_of_its_methods() -> None:
    """A subclass subscribes once to each event it names, plain and async; calls are counted, a failure is a dead letter
    too."""
    trainer = Trainer()
    trainer.start()
    trainer.start()
    await get_router().publish("EVALUATION_RESULT", {"n": 1})
    await get_router().publish("EVENT_A", {"n": 1})

    await wait_until(lambda: get_dead_letter_queue().get_stats()["abandoned"] == 1)
    trainer.stop()
    assert trainer.events == ["EVALUATION_COMPLETED"]
    assert (trainer.stats.success_count, trainer.stats.errors_by_type) == (1, {"EVENT_A": 3})
    assert (trainer.stats.events_processed, trainer.stats.error_count, trainer.stats.success_rate) == (4, 3, 0.25)
    assert trainer.stats.last_error.startswith("ValueError")
    assert not get_router().has_subscribers("EVENT_A")


@async_test
async def test_the_documents_pipeline_example_reaches_its_end() -> None:
    """A subscriber to NPZ_EXPORT_COMPLETED receives NPZ_EXPORT_COMPLETE, and its own publish is delivered too."""
    reached = EventRecorder()

    async def on_export_complete(event: RouterEvent) -> None:
        await get_router().publish(
            "TRAINING_TRIGGERED", {"samples": event.payload["samples_exported"]}, source="pipeline"
        )

    get_router().subscribe("NPZ_EXPORT_COMPLETED", on_export_complete)
    get_router().subscribe("TRAINING_TRIGGERED", reached.awaited)
    await get_router().publish("NPZ_EXPORT_COMPLETE", {"samples_exported": 20_000})

    [event] = await reached.until(1)
    assert (event.payload["samples"], event.source) == (20_000, "pipeline")
    assert [event.event_type for event in get_router()._event_history][:1] == ["NPZ_EXPORT_COMPLETE"]


@async_test
async def test_members_of_the_enumeration_publish_and_subscribe() -> None:
    """A member stands for its event like the name, also where its value is another word."""
    by_member, by_name = EventRecorder(), EventRecorder()
    get_router().subscribe(DataEventType.NEW_GAMES_AVAILABLE, by_member.plain)
    get_router().subscribe("NEW_GAMES_AVAILABLE", by_name.plain)
    await get_router().publish(DataEventType.NEW_GAMES_AVAILABLE, {"n": 1})

    assert DataEventType.NEW_GAMES_AVAILABLE.value == "new_games"
    assert [event.payload for event in await by_member.until(1)] == [{"n": 1}]
    assert [event.event_type for event in await by_name.until(1)] == ["NEW_GAMES_AVAILABLE"]


def test_every_old_name_is_a_member_under_every_spelling() -> None:
    """Synonyms are one member; members have their documented values; a user's own can be declared."""
    assert all(getattr(DataEventType, word) is not None for word in old_names.words())
    assert DataEventType.GAME_BATCH_READY is DataEventType.SELFPLAY_COMPLETE
    assert DataEventType.NPZ_EXPORT_COMPLETED is DataEventType("npz_export_complete")
    assert DataEventType.NEW_GAMES_AVAILABLE.value == "new_games"
    own = DataEventType.declare("MY_OWN_EVENT")
    assert own is DataEventType.MY_OWN_EVENT is DataEventType.declare("my_own_event") is DataEventType("my_own_event")
    assert own in list(DataEventType)
    with pytest.raises(AttributeError, match="declare"):
        _ = DataEventType.NEVER_DECLARED
    with pytest.raises(InvalidId):
        DataEventType.declare("not a name")


def test_the_registry_has_the_events_of_every_daemon() -> None:
    """Our daemons with the events that they react to, under old names."""
    reacts = {spec.name: spec.event_types for spec in subscription_registry.DELEGATION_REGISTRY}
    assert "TRAINING_COMPLETED" in reacts["pipeline"]
    assert {spec.name for spec in subscription_registry.INIT_CALL_REGISTRY} > set(reacts)
    before = {spec.name: spec.after for spec in subscription_registry.INIT_CALL_REGISTRY}
    assert {"pipeline", "elect"} <= set(before["fill"]), "each names those that start before it"


COLLECTED = {
    "core_events": {
        "event_router": "get_router RouterEvent EventSource DataEventType",
        "event_emitters": "emit_training_complete emit_selfplay_complete",
    },
    "enums": {
        "daemon_types": "DaemonType DaemonState",
        "types": "BackpressureLevel BoardType QueueType TaskType",
        "event_router": "DataEventType",
    },
    "core_utils": {"tracing": "traced span get_trace_id", "utils": "BoundedHistory CallbackRegistry"},
}
"""Modules that have the names of others, so that one import is enough."""


@pytest.mark.parametrize("collection", sorted(COLLECTED))
def test_one_import_is_enough_for_the_names_of_several_modules(collection: str) -> None:
    """Each name is there, and is the object that its own module has."""
    collected = importlib.import_module(f"app.coordination.{collection}")

    for module, names in COLLECTED[collection].items():
        own = importlib.import_module(f"app.coordination.{module}")
        assert [name for name in names.split() if getattr(collected, name, None) is not getattr(own, name)] == []


@pytest.mark.parametrize("path", ["app.coordination.stage_events", "app.distributed.stage_events"])
def test_the_stage_bus_is_that_of_its_module(path: str) -> None:
    """Both documented paths have the stage bus and its result, and neither of them is another bus."""
    module = importlib.import_module(path)

    assert module.StageEventBus is StageEventBus
    assert module.StageCompletionResult is StageCompletionResult


def test_a_name_in_several_modules_is_one_object() -> None:
    """A name that several modules have is the same object in each."""
    module = importlib.import_module("app.coordination")
    core = importlib.import_module("app.coordination.core_events")

    assert module.get_router is core.get_router
    assert module.DeadLetterQueue is importlib.import_module("app.coordination.dead_letter_queue").DeadLetterQueue
