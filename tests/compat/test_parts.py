"""The documented API around the router: its limits, the bases to inherit from, boundaries and naming."""

import asyncio
import importlib
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from compat.ears import SLOW, Ears, home, on_a_loop
from ringrift.events import old_names
from ringrift.kernel.errors import Backpressure, InvalidId, UnknownName
from ringrift_compat import naming, registry
from ringrift_compat.ambient import ACCEPTED_MAX, ambient
from ringrift_compat.dead_letters import get_dead_letter_queue
from ringrift_compat.event_types import DataEventType, StageEvent
from ringrift_compat.events import get_router
from ringrift_compat.handlers import HandlerBase
from ringrift_compat.router_event import RouterEvent
from waiting import wait_until

__all__ = ["home"]


@on_a_loop
async def test_listeners_with_like_names_do_not_touch_each_other() -> None:
    """Ending one callback leaves another undisturbed whose name only begins like it, and one of the very same name."""
    first, second, heard = Ears(), Ears(), []

    def plain(event: RouterEvent) -> None:
        raise AssertionError("it has ended")

    def plain_too(event: RouterEvent) -> None:
        heard.append(event.payload["n"])

    for callback in (plain, plain_too, first.plain, second.plain):
        get_router().subscribe("EVENT_A", callback)
    get_router().unsubscribe("EVENT_A", plain)
    get_router().unsubscribe("EVENT_A", first.plain)
    for number in range(5):
        await get_router().publish("EVENT_A", {"n": number})

    assert [event.payload["n"] for event in await second.until(5)] == heard == list(range(5))
    assert not first.heard


@on_a_loop
async def test_many_threads_publish_in_their_own_order() -> None:
    """Each thread's events come in the order in which it said them, and none is lost."""
    ears = Ears()
    get_router().subscribe("EVENT_A", ears.plain)

    def publish(thread: int) -> None:
        for number in range(50):
            get_router().publish("EVENT_A", {"thread": thread, "n": number})

    threads = [threading.Thread(target=publish, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    heard = await ears.until(200)

    for thread in range(4):
        assert [event.payload["n"] for event in heard if event.payload["thread"] == thread] == list(range(50))


def test_what_was_accepted_is_never_dropped() -> None:
    """A thread that publishes faster than the disk waits for room; on a loop, which must not wait, it is refused."""
    held = threading.Event()

    async def hold() -> None:
        held.wait(10)

    async def flood() -> None:
        ambient.post(hold())
        for number in range(ACCEPTED_MAX):
            get_router().publish("EVENT_A", {"n": number})
        with pytest.raises(Backpressure):
            get_router().publish("EVENT_A", {"n": -1})
        held.set()

    get_router().subscribe("EVENT_B", print)
    asyncio.run(flood())
    for number in range(ACCEPTED_MAX, 3 * ACCEPTED_MAX):
        get_router().publish("EVENT_A", {"n": number})
    ambient.shutdown()

    recent = get_router().get_recent_events(limit=4 * ACCEPTED_MAX)
    assert [event.payload["n"] for event in recent] == list(range(3 * ACCEPTED_MAX))


@on_a_loop
async def test_strict_validation_refuses_unknown_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """RINGRIFT_EVENT_VALIDATION_STRICT refuses a name that nobody knows, at once, and lets the others pass."""
    monkeypatch.setenv("RINGRIFT_EVENT_VALIDATION_STRICT", "true")

    with pytest.raises(UnknownName):
        get_router().publish("NOBODY_SAYS_SO", {})
    assert (await get_router().publish("TRAINING_STARTED", {})).event_type == "TRAINING_STARTED"


@on_a_loop
async def test_a_callback_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """RINGRIFT_EVENT_HANDLER_TIMEOUT cancels it on its own loop, and the event is its letter."""
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


@on_a_loop
async def test_a_letter_waits_for_its_callback_to_come_back(home: Path) -> None:
    """What a callback failed on is tried again by the same callback in the next life of the program, and only that."""
    (home / "ringrift.toml").write_text(SLOW)
    heard: list[int] = []
    mended = False

    async def moody(event: RouterEvent) -> None:
        heard.append(event.payload["n"])
        if not mended:
            raise ValueError("not in the mood")

    letters = get_dead_letter_queue()
    get_router().subscribe("EVENT_A", moody)
    await get_router().publish("EVENT_A", {"n": 1})
    await wait_until(lambda: letters.get_stats()["pending"] == 1)
    ambient.shutdown()
    await get_router().publish("EVENT_A", {"n": 2})

    mended = True
    get_router().subscribe("EVENT_A", moody)
    assert letters.retry_now() == 1
    await wait_until(lambda: letters.get_stats()["recovered"] == 1)
    assert heard == [1, 1]


class Trainer(HandlerBase):
    """A class of a user's."""

    def __init__(self) -> None:
        super().__init__("trainer")
        self.heard: list[str] = []

    def _get_event_subscriptions(self) -> Mapping[Any, Callable[[RouterEvent], Any]]:
        return {DataEventType.EVALUATION_COMPLETED: self._on_evaluated, "EVENT_A": self._on_event}

    async def _on_evaluated(self, event: RouterEvent) -> None:
        self.heard.append(event.event_type)

    def _on_event(self, event: RouterEvent) -> None:
        raise ValueError("not today")


@on_a_loop
async def test_a_base_counts_what_its_methods_process() -> None:
    """A subclass listens once to what it names, plain and async; both are counted, and what fails is a letter too."""
    trainer = Trainer()
    trainer.start()
    trainer.start()
    await get_router().publish("EVALUATION_RESULT", {"n": 1})
    await get_router().publish("EVENT_A", {"n": 1})

    await wait_until(lambda: get_dead_letter_queue().get_stats()["abandoned"] == 1)
    trainer.stop()
    assert trainer.heard == ["EVALUATION_COMPLETED"]
    assert (trainer.stats.success_count, trainer.stats.errors_by_type) == (1, {"EVENT_A": 3})
    assert not get_router().has_subscribers("EVENT_A")


@on_a_loop
async def test_the_documents_pipeline_example_reaches_its_end() -> None:
    """Who subscribes to NPZ_EXPORT_COMPLETED hears NPZ_EXPORT_COMPLETE, and what it publishes then is heard too."""
    reached = Ears()

    async def on_export_complete(event: RouterEvent) -> None:
        await get_router().publish(
            "TRAINING_TRIGGERED", {"samples": event.payload["samples_exported"]}, source="pipeline"
        )

    get_router().subscribe("NPZ_EXPORT_COMPLETED", on_export_complete)
    get_router().subscribe("TRAINING_TRIGGERED", reached.awaited)
    await get_router().publish("NPZ_EXPORT_COMPLETE", {"samples_exported": 20_000})

    [event] = await reached.until(1)
    assert (event.payload["samples"], event.source) == (20_000, "pipeline")
    assert [one.event_type for one in get_router()._event_history][:1] == ["NPZ_EXPORT_COMPLETE"]


def test_every_old_name_is_a_member_under_every_spelling() -> None:
    """Words for one event are one member; members have their documented values; one's own can be declared."""
    assert all(getattr(DataEventType, word) is not None for word in old_names.words())
    assert DataEventType.GAME_BATCH_READY is DataEventType.SELFPLAY_COMPLETE
    assert DataEventType.NPZ_EXPORT_COMPLETED is DataEventType("npz_export_complete")
    assert DataEventType.NEW_GAMES_AVAILABLE.value == "new_games"
    assert StageEvent("training_completed") is StageEvent.TRAINING_COMPLETE
    own = DataEventType.declare("MY_OWN_EVENT")
    assert own is DataEventType.MY_OWN_EVENT is DataEventType.declare("my_own_event") is DataEventType("my_own_event")
    assert own in list(DataEventType)
    with pytest.raises(AttributeError, match="declare"):
        _ = DataEventType.NEVER_DECLARED
    with pytest.raises(InvalidId):
        DataEventType.declare("not a name")


def test_names_are_normalised_and_mapped() -> None:
    """Any spelling leads to the one, and the names of the two buses lead to each other."""
    assert naming.normalize_event_type("evaluation.result") == "EVALUATION_COMPLETED"
    assert naming.normalize_event_type(StageEvent.TRAINING_COMPLETE) == "TRAINING_COMPLETED"
    assert naming.is_canonical("TRAINING_COMPLETED")
    assert not naming.is_canonical("TRAINING_COMPLETE")
    assert naming.is_known("npz_export_completed")
    assert not naming.is_known("NOBODY_SAYS_SO")
    assert "GAME_BATCH_READY" in naming.get_variants("SELFPLAY_COMPLETE")
    for stage in StageEvent:
        data = naming.get_data_event_type(stage)
        assert data is not None
        assert naming.get_data_event_type(naming.get_stage_event(data)) is data


@on_a_loop
async def test_the_registry_tells_who_listens() -> None:
    """Our daemons with what they react to under old names, and the callbacks of this program."""
    ears = Ears()
    get_router().subscribe("TRAINING_COMPLETED", ears.plain)

    reacts = {spec.name: spec.event_types for spec in registry.DELEGATION_REGISTRY}
    assert "TRAINING_COMPLETED" in reacts["pipeline"]
    assert {spec.name for spec in registry.INIT_CALL_REGISTRY} > set(reacts)
    [row] = registry.get_subscriptions()
    assert (row["event_type"], row["callback"]) == ("TRAINING_COMPLETED", "Ears.plain")


def test_the_names_of_twins_in_every_module_agree() -> None:
    """A name that several modules have is the same object in each."""
    module = importlib.import_module("app.coordination")
    core = importlib.import_module("app.coordination.core_events")

    assert module.get_router is core.get_router
    assert module.DeadLetterQueue is importlib.import_module("app.coordination.dead_letter_queue").DeadLetterQueue
