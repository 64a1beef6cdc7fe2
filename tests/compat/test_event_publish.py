"""The documented publish: a known name becomes an event of ours, any other is stored whole, a repetition is dropped."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from compat.embedded import embedded_on
from contract.engines import Door, Engine, ManualClock, logged, run, settle
from contract.subscribers import log
from ringrift.events import catalog, custom, health, node
from ringrift.events.base import Event, Unknown
from ringrift.kernel.errors import IdConflict, InputError, InvalidId, InvalidPayload, NoRoom, UnknownName
from ringrift.sim.disk import Disk
from ringrift.store.ports import Store
from ringrift_compat.embedded_node import EmbeddedNode
from ringrift_compat.events import old_names
from ringrift_compat.events.event_publish import Publish, Publisher
from ringrift_compat.events.router_event import RouterEvent

TRAINED = {"config_key": "v", "model_id": "m", "generation": 1, "node": "n"}
LOST = {"node_id": "n2", "duration": 7.5}
AWAY = node.Lost(node="n2", seconds=7.5)
PUBLISHED: dict[str, tuple[str, dict[str, Any], Event]] = {
    "old name": ("HOST_OFFLINE", LOST, AWAY),
    "old value": ("host.offline", LOST, AWAY),
    "other case": ("host_Offline", LOST, AWAY),
    "our name": ("node.lost", LOST, AWAY),
    "fixed by its name": (
        "HEALTH_CHECK_FAILED",
        {"host": "n2", "before": "healthy"},
        health.Changed(node="n2", status="unhealthy", before="healthy"),
    ),
    "too little": ("HOST_OFFLINE", {"node": "n2"}, custom.Published(event="HOST_OFFLINE", payload={"node": "n2"})),
    "evidence": ("training_complete", TRAINED, custom.Published(event="TRAINING_COMPLETED", payload=TRAINED)),
    "unknown": ("MY_OWN_EVENT", {"a": [1, None]}, custom.Published(event="MY_OWN_EVENT", payload={"a": [1, None]})),
    "unknown in lower case": ("my_own_event", {}, custom.Published(event="MY_OWN_EVENT")),
}


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """A store in a file."""
    return Engine(tmp_path / "home" / "store.db")


class Program:
    """A program that publishes by name."""

    def __init__(self, embedded: EmbeddedNode) -> None:
        self._strict = embedded.options.strict
        self.publisher = Publisher(embedded)

    async def publish(self, name: str, payload: Any, **options: Any) -> RouterEvent:
        """Publish *payload* under *name*."""
        name, plain = old_names.canonical(name), old_names.to_plain(payload)
        event = old_names.make_event(name, plain, strict=self._strict, evidence=False)
        return await self.publisher.publish(Publish(name=name, payload=plain, event=event, **options))


@asynccontextmanager
async def program(
    store: Store, clock: ManualClock | None = None, node_id: str = "n1", **options: Any
) -> AsyncIterator[Program]:
    """A program on *store*, closed at the end."""
    async with embedded_on(store, clock or ManualClock(), node_id, **options) as embedded:
        yield Program(embedded)


@pytest.mark.parametrize("case", PUBLISHED)
def test_a_name_becomes_an_event(engine: Engine, case: str) -> None:
    """A payload with every field of ours is ours; with less, for evidence, or unknown, it is a custom event."""
    name, payload, event = PUBLISHED[case]

    async def story(store: Store) -> tuple[Event | Unknown, str]:
        async with program(store) as sender:
            await sender.publish(name, payload, source="s")
            [envelope] = await log(store)
            return catalog.decode(envelope.name, envelope.body), envelope.source

    assert engine.run(story) == (event, "s")


def test_strict_settings_refuse_an_unknown_name(engine: Engine) -> None:
    """With strict settings an unknown name is refused and nothing is published; known ones pass."""

    async def story(store: Store) -> tuple[str, list[str]]:
        async with program(store, strict=True) as sender:
            with pytest.raises(UnknownName) as refused:
                await sender.publish("MY_OWN_EVENT", {})
            await sender.publish("TRAINING_COMPLETED", {"loss": 0.5})
            return refused.value.name, [envelope.name for envelope in await log(store)]

    assert engine.run(story) == ("MY_OWN_EVENT", ["custom.published"])


INVALID: dict[str, tuple[str, Any, type[InputError]]] = {
    "name": ("no name", {}, InvalidId),
    "empty name": ("", {}, InvalidId),
    "nan": ("X", {"a": float("nan")}, InvalidPayload),
    "object": ("X", {"a": object()}, InvalidPayload),
    "surrogate": ("X", {"a": "\ud800"}, InputError),
    "large": ("X", {"a": "x" * 70_000}, InputError),
    "integer": ("X", {"a": 1 << 70}, InputError),
}


@pytest.mark.parametrize("case", INVALID)
def test_invalid_input_is_refused(engine: Engine, case: str) -> None:
    """A name or payload that cannot be stored is refused by a typed error, each time, and nothing is in the log."""
    name, payload, error = INVALID[case]

    async def story(store: Store) -> list[str]:
        async with program(store) as sender:
            for _ in range(2):
                with pytest.raises(error):
                    await sender.publish(name, payload)
            return await logged(store)

    assert engine.run(story) == []


@pytest.mark.parametrize("payload", [{"a": {2: "x", "b": "y"}}, {1: "x", "b": "y"}, {"a": (1, 2), "s": {3, 4}}])
def test_values_that_json_can_carry_are_published_once(engine: Engine, payload: Any) -> None:
    """Keys that are numbers, tuples and sets are published as JSON has them, and the second time is a repetition."""

    async def story(store: Store) -> tuple[int, int]:
        async with program(store) as sender:
            for _ in range(2):
                await sender.publish("X", payload)
            return len(await logged(store)), sender.publisher.suppressed

    assert engine.run(story) == (1, 1)


def test_equal_publishes_at_once_are_one_event(engine: Engine) -> None:
    """Equal publishes before the first is durable get its envelope; another payload is another event."""

    async def story(store: Store) -> tuple[int, int, int]:
        async with program(store) as sender:
            same = [sender.publish("X", {"a": 1}) for _ in range(10)]
            events = await asyncio.gather(*same, sender.publish("X", {"a": 2}))
            return len({event.event_id for event in events}), len(await logged(store)), sender.publisher.suppressed

    assert engine.run(story) == (2, 2, 9)


def test_a_repetition_after_the_window_is_an_event(engine: Engine) -> None:
    """The window counts from the first publish; another source or id is another event, the order of keys is not."""
    clock = ManualClock()

    async def story(store: Store) -> list[int]:
        sizes = []
        async with program(store, clock, window_seconds=30.0) as sender:
            for seconds in (0.0, 29.9, 0.1, 29.0):
                clock.seconds += seconds
                await sender.publish("X", {"b": 1, "a": 2})
                sizes.append(len(await logged(store)))
            for options in ({}, {"source": "s"}, {"id": "i"}):
                await sender.publish("X", {"a": 2, "b": 1}, **options)
                sizes.append(len(await logged(store)))
        return sizes

    assert engine.run(story) == [1, 1, 2, 2, 2, 3, 4]


def test_the_memory_is_bounded(engine: Engine) -> None:
    """No more than the set number of publishes is remembered, and the latest always."""

    async def story(store: Store) -> tuple[int, int]:
        async with program(store, window_events_max=10) as sender:
            for number in range(30):
                await sender.publish("X", {"n": number})
            await sender.publish("X", {"n": 29})
            await sender.publish("X", {"n": 20})
            repeated = sender.publisher.suppressed
            await sender.publish("X", {"n": 0})
            return repeated, sender.publisher.suppressed

    assert engine.run(story) == (2, 2)


def test_equal_publishes_of_other_nodes_and_sources_are_events(engine: Engine) -> None:
    """Three nodes, and three sources on one of them, that publish the same within the window publish six events."""

    async def story(store: Store) -> tuple[int, int]:
        suppressed = 0
        for node_id in ("n1", "n2", "n3"):
            async with program(store, node_id=node_id) as sender:
                await sender.publish("NEW_GAMES_AVAILABLE", {"games": 1}, source="selfplay")
                suppressed += sender.publisher.suppressed
        async with program(store, node_id="n4") as sender:
            for source in ("a", "b", ""):
                await sender.publish("NEW_GAMES_AVAILABLE", {"games": 1}, source=source)
            suppressed += sender.publisher.suppressed
        return len(await logged(store)), suppressed

    assert engine.run(story) == (6, 0)


def test_an_id_identifies_one_event(engine: Engine) -> None:
    """The same id and payload return the first event however late; the same id for another payload is refused."""
    clock = ManualClock()

    async def story(store: Store) -> tuple[bool, int]:
        async with program(store, clock) as sender:
            first = await sender.publish("X", {"a": 1}, id="i")
            clock.seconds += 1e6
            again = await sender.publish("X", {"a": 1}, id="i")
            with pytest.raises(IdConflict):
                await sender.publish("X", {"a": 2}, id="i")
            return first.event_id == again.event_id, len(await logged(store))

    assert engine.run(story) == (True, 1)


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_failed_publish_is_not_remembered(is_cancelled: bool) -> None:
    """When publishing fails, the same again is a new attempt, also if the first caller did not wait for it."""
    disk = Disk(f"publish-{is_cancelled}", Random(7))
    on_disk = Engine(Path("store.db"), disk)

    async def story() -> list[str]:
        door = Door()
        async with on_disk.open(offload=door.offload) as store, program(store) as sender:
            door.opened.clear()
            disk.room = sum(len(image.content) for image in disk._images.values())
            first = asyncio.create_task(sender.publish("X", {"a": "x" * 20_000}))
            await settle()
            if is_cancelled:
                first.cancel()
            door.opened.set()
            [result] = await asyncio.gather(first, return_exceptions=True)
            assert isinstance(result, asyncio.CancelledError if is_cancelled else NoRoom)
            await settle()
            disk.room = None
            await sender.publish("X", {"a": "x" * 20_000})
            return await logged(store)

    try:
        assert len(run(story())) == 1
    finally:
        disk.unregister()


def test_a_cancelled_caller_does_not_cancel_the_publish_of_others(engine: Engine) -> None:
    """When the first caller is cancelled, the second one with the same payload still gets the event."""

    async def story(store: Store) -> int:
        async with program(store) as sender:
            first = asyncio.create_task(sender.publish("X", {}))
            second = asyncio.create_task(sender.publish("X", {}))
            await asyncio.sleep(0)
            first.cancel()
            await second
            await asyncio.wait((first,))
            return len(await logged(store))

    assert engine.run(story) == 1
