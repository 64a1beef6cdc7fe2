"""Saying by name: a documented name becomes an event of ours, any other is kept as it was said."""

import asyncio
from typing import Any

import pytest

from contract.engines import Door, Engine, HandClock, logged, run, settle
from contract.listeners import Ear, log, routed
from ringrift.events import catalog, custom, health, node, work
from ringrift.events.base import Event, Unknown
from ringrift.kernel.errors import IdConflict, InputError, InvalidId, InvalidPayload, NoRoom, UnknownName
from ringrift.store.ports import Store
from waiting import wait_until

TRAINED = {"config_key": "v", "model_id": "m", "generation": 1, "node": "n"}
LOST = {"node_id": "n2", "duration": 7.5}
AWAY = node.Lost(node="n2", seconds=7.5)
SAID: dict[str, tuple[str, dict[str, Any], Event]] = {
    "old name": ("HOST_OFFLINE", LOST, AWAY),
    "old value": ("host.offline", LOST, AWAY),
    "other case": ("host_Offline", LOST, AWAY),
    "our name": ("node.lost", LOST, AWAY),
    "fixed by its name": (
        "HEALTH_CHECK_FAILED", {"host": "n2", "before": "healthy"},
        health.Changed(node="n2", status="unhealthy", before="healthy"),
    ),
    "too little": ("HOST_OFFLINE", {"node": "n2"}, custom.Said(event="HOST_OFFLINE", payload={"node": "n2"})),
    "evidence": ("training_complete", TRAINED, custom.Said(event="TRAINING_COMPLETED", payload=TRAINED)),
    "unknown": ("MY_OWN_EVENT", {"a": [1, None]}, custom.Said(event="MY_OWN_EVENT", payload={"a": [1, None]})),
    "unknown in small letters": ("my_own_event", {}, custom.Said(event="MY_OWN_EVENT")),
}  # fmt: skip


@pytest.mark.parametrize("case", SAID)
def test_a_name_becomes_an_event(engine: Engine, case: str) -> None:
    """A payload with all that ours needs is ours; with less, for what the loop acts on, or unknown, it is Said."""
    name, payload, event = SAID[case]

    async def story(store: Store) -> tuple[Event | Unknown, str, bool]:
        async with routed(store) as bus:
            told = await bus.say(name, payload, source="s")
            return catalog.decode(told.name, told.body), told.source, [told] == [*await log(store)]

    assert engine.run(story) == (event, "s", True)


def test_what_is_said_is_heard_under_its_name(on_file: Engine) -> None:
    """Whoever listens to an old name hears it said in any spelling, with enough in it or with too little."""
    ear, typed = Ear(), Ear()

    async def story(store: Store) -> None:
        async with routed(store) as bus:
            bus.subscribe("HOST_OFFLINE", ear.live)
            bus.subscribe(node.Lost, typed.live)
            await bus.say("host.offline", LOST)
            await bus.say("Host_Offline", {"node": "n2"})
            await bus.say("HOST_ONLINE", {"node": "n2"})
            await bus.publish(AWAY)
            await wait_until(lambda: len(ear.heard) == 3)
            await settle()

    on_file.run(story)

    assert ear.heard == ["node.lost", "HOST_OFFLINE", "node.lost"]
    assert typed.heard == ["node.lost", "node.lost"]


def test_a_memory_event_may_be_said(engine: Engine) -> None:
    """A name whose event is for the moment only is told here and is in no log."""
    ear = Ear()

    async def story(store: Store) -> list[str]:
        async with routed(store) as bus:
            bus.subscribe(work.Progressed, ear.live)
            await bus.say("TRAINING_PROGRESS", {"job": "j", "variant": "v", "node": "n", "done": 0.5})
            await wait_until(lambda: ear.heard == ["j"])
            return await logged(store)

    assert engine.run(story) == []


def test_strict_refuses_what_nobody_knows(engine: Engine) -> None:
    """With strict settings a name that nobody ever used is refused by name and nothing is said; known ones pass."""

    async def story(store: Store) -> tuple[str, list[str]]:
        async with routed(store, strict=True) as bus:
            with pytest.raises(UnknownName) as refused:
                await bus.say("MY_OWN_EVENT", {})
            await bus.say("TRAINING_COMPLETED", {"loss": 0.5})
            return refused.value.name, [one.name for one in await log(store)]

    assert engine.run(story) == ("MY_OWN_EVENT", ["custom.said"])


BAD: dict[str, tuple[str, Any, type[InputError]]] = {
    "name": ("no name", {}, InvalidId),
    "empty name": ("", {}, InvalidId),
    "nan": ("X", {"a": float("nan")}, InvalidPayload),
    "object": ("X", {"a": object()}, InvalidPayload),
    "surrogate": ("X", {"a": "\ud800"}, InputError),
    "large": ("X", {"a": "x" * 70_000}, InputError),
    "integer": ("X", {"a": 1 << 70}, InputError),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_said_is_refused(engine: Engine, case: str) -> None:
    """A name or payload that cannot be carried is refused by a typed error, each time, and nothing is in the log."""
    name, payload, error = BAD[case]

    async def story(store: Store) -> list[str]:
        async with routed(store) as bus:
            for _ in range(2):
                with pytest.raises(error):
                    await bus.say(name, payload)
            return await logged(store)

    assert engine.run(story) == []


@pytest.mark.parametrize("payload", [{"a": {2: "x", "b": "y"}}, {1: "x", "b": "y"}, {"a": (1, 2), "s": {3, 4}}])
def test_what_json_can_carry_in_other_clothes_is_said(engine: Engine, payload: Any) -> None:
    """Keys that are numbers, tuples and sets are said as JSON has them, and are the same words again."""

    async def story(store: Store) -> tuple[int, int]:
        async with routed(store) as bus:
            for _ in range(2):
                await bus.say("X", payload)
            return len(await logged(store)), bus.suppressed

    assert engine.run(story) == (1, 1)


def test_who_says_the_same_at_once_says_one_thing(engine: Engine) -> None:
    """Many that say the same words before the first is durable get its envelope; other words are other events."""

    async def story(store: Store) -> tuple[int, int, int]:
        async with routed(store) as bus:
            told = await asyncio.gather(*(bus.say("X", {"a": 1}) for _ in range(10)), bus.say("X", {"a": 2}))
            return len({one.id for one in told}), len(await logged(store)), bus.suppressed

    assert engine.run(story) == (2, 2, 9)


def test_the_window_closes(engine: Engine) -> None:
    """The same words after the window are another event; spelling, source and id make a difference within it."""
    clock = HandClock()

    async def story(store: Store) -> list[int]:
        positions = []
        async with routed(store, clock, window_seconds=30.0) as bus:
            for seconds in (0.0, 29.9, 0.1, 29.0):
                clock.seconds += seconds
                positions.append((await bus.say("X", {"b": 1, "a": 2})).position)
            positions.append((await bus.say("X", {"a": 2, "b": 1})).position)
            positions.append((await bus.say("X", {"a": 2, "b": 1}, source="s")).position)
            positions.append((await bus.say("X", {"a": 2, "b": 1}, id="i")).position)
        return positions

    assert engine.run(story) == [1, 1, 2, 2, 2, 3, 4]


def test_an_id_is_one_event(engine: Engine) -> None:
    """The same id and words return the first envelope however late; the same id for other words is refused."""
    clock = HandClock()

    async def story(store: Store) -> tuple[bool, int]:
        async with routed(store, clock) as bus:
            first = await bus.say("X", {"a": 1}, id="i")
            clock.seconds += 1e6
            again = await bus.say("X", {"a": 1}, id="i")
            with pytest.raises(IdConflict):
                await bus.say("X", {"a": 2}, id="i")
            return first == again, len(await logged(store))

    assert engine.run(story) == (True, 1)


@pytest.mark.parametrize("gives_up", [False, True])
def test_what_could_not_be_said_is_not_remembered(on_lossy: Engine, gives_up: bool) -> None:
    """When publishing fails, saying the same again is a new try, also if whoever said it first did not wait for it."""
    disk = on_lossy.disk
    assert disk is not None

    async def story() -> list[str]:
        door = Door()
        async with on_lossy.open(offload=door.offload) as store, routed(store) as bus:
            door.opened.clear()
            disk.room = sum(len(image.content) for image in disk._images.values())
            first = asyncio.create_task(bus.say("X", {"a": "x" * 20_000}))
            await settle()
            if gives_up:
                first.cancel()
            door.opened.set()
            [answer] = await asyncio.gather(first, return_exceptions=True)
            assert isinstance(answer, asyncio.CancelledError if gives_up else NoRoom)
            await settle()
            disk.room = None
            await bus.say("X", {"a": "x" * 20_000})
            return await logged(store)

    assert len(run(story())) == 1


def test_who_gives_up_does_not_unsay_it_for_others(engine: Engine) -> None:
    """When the first who said it is cancelled, the second who said the same still gets the envelope."""

    async def story(store: Store) -> int:
        async with routed(store) as bus:
            first = asyncio.create_task(bus.say("X", {}))
            second = asyncio.create_task(bus.say("X", {}))
            await asyncio.sleep(0)
            first.cancel()
            told = await second
            await asyncio.wait((first,))
            return told.position

    assert engine.run(story) == 1
