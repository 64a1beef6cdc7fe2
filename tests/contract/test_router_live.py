"""Live subscriptions: who hears what, until when, and whether anybody does."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from contract.engines import Engine, settle
from contract.listeners import Ear, finished, log, lost, progressed, routed, served
from ringrift.bus.router import Router
from ringrift.bus.wants import Asked
from ringrift.events import data, node, training, work
from ringrift.events.base import Envelope, Event, LineEvent
from ringrift.kernel.errors import InputError, UnknownName
from ringrift.store.ports import Store
from waiting import wait_until


def fails(event: Event, envelope: Envelope) -> bool:
    """A predicate that cannot tell."""
    raise KeyError("no idea")


def synced(blob: str, kind: str) -> data.Synced:
    """An event that two old names share."""
    return data.Synced(variant="v", blob=blob, kind=kind, nodes=())


EVERYTHING: list[Event] = [
    finished("model"), lost("blob"), synced("games", "games"), synced("weights", "model"), node.Left(node="n"),
    progressed("job"),
]  # fmt: skip
HEARD: dict[str, tuple[Asked, set[str]]] = {
    "a class": (training.Finished, {"model"}),
    "a base class": (LineEvent, {"model", "blob", "games", "weights"}),
    "a name": ("data.lost", {"blob"}),
    "an old name": ("TRAINING_COMPLETED", {"model"}),
    "an old value": ("training.completed", {"model"}),
    "an old name for some": ("DATA_SYNC_COMPLETED", {"games"}),
    "an old name for the others": ("P2P_MODEL_SYNCED", {"weights"}),
    "an old name for memory": ("TRAINING_PROGRESS", {"job"}),
    "a set": ({data.Lost, "training.finished", "DATA_SYNC_COMPLETED"}, {"blob", "model", "games"}),
    "a set with both": ({data.Synced, "P2P_MODEL_SYNCED"}, {"games", "weights"}),
    "a tuple": ((node.Left, work.Progressed), {"node.left", "job"}),
    "an empty set": (frozenset(), set()),
    "a predicate": (lambda event, envelope: getattr(event, "blob", "") == "games", {"games"}),
    "everything": (None, {"model", "blob", "games", "weights", "node.left", "job", "MY_OWN_EVENT"}),
    "a name of one's own": ("my_own_event", {"MY_OWN_EVENT"}),
    "a name that nobody says": ("NOBODY_SAYS_THIS", set()),
    "a predicate that fails": (fails, set()),
}


def test_everybody_hears_what_was_asked_for(on_file: Engine) -> None:
    """By class, base, any name, set or predicate, each hears all that was meant, and nothing else."""
    ears = {name: Ear() for name in HEARD}

    async def story(store: Store) -> dict[str, int]:
        async with routed(store) as bus:
            for name, (asked, _) in HEARD.items():
                bus.subscribe(asked, ears[name].live, name=name)
            for event in EVERYTHING:
                await bus.publish(event)
            await bus.say("MY_OWN_EVENT", {"a": 1})
            await wait_until(lambda: len(ears["everything"].heard) == 7)
            await settle()
            return {one.name: one.failed for one in bus.counts()}

    failed = on_file.run(story)

    assert {name: set(ear.heard) for name, ear in ears.items()} == {name: heard for name, (_, heard) in HEARD.items()}
    assert all(len(ear.heard) == len(set(ear.heard)) for ear in ears.values())
    assert failed == dict.fromkeys(HEARD, 0) | {"a predicate that fails": 7}


@pytest.mark.parametrize("asked", [7, object(), {7}, [None], ("data.lost", int), "no name", {"ü"}, ""])
def test_what_cannot_be_asked_for_is_refused(on_file: Engine, asked: Any) -> None:
    """Subscribing or handling what is no event, no name and no predicate is refused at once, and nobody is added."""

    async def story(store: Store) -> int:
        async with routed(store) as bus:
            with pytest.raises(InputError):
                bus.subscribe(asked, Ear().live)
            with pytest.raises(InputError):
                bus.handle(asked, Ear().durable, name="h")
            return len(bus.counts())

    assert on_file.run(story) == 0


def test_a_subscriber_begins_with_what_comes(engine: Engine) -> None:
    """What was said before somebody subscribed is not heard live; all that is said after is, in order."""
    ear, late = Ear(), Ear()

    async def story(store: Store) -> None:
        async with routed(store, batch=3) as bus:
            await bus.publish_many([lost("before"), lost("it")])
            bus.subscribe(data.Lost, ear.live)
            await bus.publish_many([lost(str(number)) for number in range(5)])
            bus.subscribe(data.Lost, late.live)
            await bus.publish_many([lost(str(number)) for number in range(5, 10)])
            await wait_until(lambda: len(ear.heard) >= 10 and len(late.heard) >= 5)
            await settle()

    engine.run(story)

    assert ear.heard == [str(number) for number in range(10)]
    assert late.heard == [str(number) for number in range(5, 10)]


def test_who_has_unsubscribed_hears_nothing_more(engine: Engine) -> None:
    """After unsubscribing nothing comes any more, not even what was waiting; the others hear on."""
    quiet, other = Ear(), Ear()

    async def story(store: Store) -> None:
        go_on = asyncio.Event()
        quiet.meanwhile = lambda event: go_on.wait()
        async with routed(store) as bus:
            subscription = bus.subscribe(data.Lost, quiet.live)
            bus.subscribe(data.Lost, other.live)
            await bus.publish_many([lost("a"), lost("b")])
            await wait_until(lambda: quiet.heard == ["a"])
            await bus.unsubscribe(subscription)
            go_on.set()
            await bus.publish(lost("c"))
            await wait_until(lambda: other.heard == ["a", "b", "c"])
            assert len(bus.counts()) == 1
            await bus.unsubscribe(subscription)  # twice is once

    engine.run(story)

    assert quiet.heard == ["a"]


def test_a_subscriber_may_unsubscribe_itself(on_file: Engine) -> None:
    """A subscriber that has heard enough says so from within, and that is the last it hears."""
    ear = Ear()

    async def story(store: Store) -> bool:
        async with routed(store) as bus:
            ear.meanwhile = lambda event: bus.unsubscribe(subscription)
            subscription = bus.subscribe(data.Lost, ear.live)
            await bus.publish_many([lost("a"), lost("b")])
            await wait_until(lambda: ear.heard == ["a"] and not bus.counts())
            await bus.publish(lost("c"))
            await settle()
            return bus.has_subscribers(data.Lost)

    assert on_file.run(story) is False
    assert ear.heard == ["a"]


def test_an_unknown_name_cannot_be_unsubscribed(on_file: Engine) -> None:
    """Ending a handler that is not there is an error that names it."""

    async def story(store: Store) -> None:
        async with routed(store) as bus:
            with pytest.raises(UnknownName, match="nobody"):
                await bus.unsubscribe("nobody")

    on_file.run(story)


LISTENING: dict[str, Callable[[Router], Any]] = {
    "live": lambda bus: bus.subscribe(training.Finished, Ear().live),
    "by old name": lambda bus: bus.subscribe("training.completed", Ear().live),
    "by base": lambda bus: bus.subscribe(LineEvent, Ear().live),
    "everything": lambda bus: bus.subscribe(None, Ear().live),
    "handler": lambda bus: bus.handle("TRAINING_COMPLETED", Ear().durable, name="h"),
}


@pytest.mark.parametrize("who", LISTENING)
def test_it_is_known_whether_anybody_listens(on_file: Engine, who: str) -> None:
    """Whoever listens, and by whichever name one asks, the answer is yes; before, after and elsewhere it is no."""
    ways = (training.Finished, "training.finished", "TRAINING_COMPLETED", "training_complete", {training.Finished})

    async def story(store: Store) -> tuple[list[bool], list[bool], list[bool], list[bool]]:
        async with routed(store) as bus:
            before = [bus.has_subscribers(way) for way in ways]
            listener = LISTENING[who](bus) or "h"
            there = [bus.has_subscribers(way) for way in ways]
            elsewhere = [bus.has_subscribers(way) for way in (node.Left, "HOST_OFFLINE", "EVALUATION_STARTED")]
            await bus.unsubscribe(listener)
            return before, there, elsewhere, [bus.has_subscribers(way) for way in ways]

    before, there, elsewhere, after = on_file.run(story)

    assert not any(before)
    assert all(there)
    assert elsewhere == [who == "everything"] * 3
    assert not any(after)


def test_a_reader_counts_while_it_is_served(on_file: Engine) -> None:
    """A reaction listens as long as somebody here serves it."""

    async def story(store: Store) -> tuple[bool, bool, bool]:
        async with routed(store) as bus:
            async with served(bus, Ear().reader("r", training.Finished)):
                there = bus.has_subscribers("TRAINING_COMPLETED")
                elsewhere = bus.has_subscribers(data.Lost)
            return there, elsewhere, bus.has_subscribers("TRAINING_COMPLETED")

    assert on_file.run(story) == (True, False, False)


def test_events_in_memory_skip_the_log(engine: Engine) -> None:
    """A memory event is heard here at once, by nobody on another node, and is in no log."""
    here, there = Ear(), Ear()

    async def story(store: Store) -> tuple[int, int]:
        async with routed(store) as bus, routed(store, node="n2") as other:
            bus.subscribe(None, here.live)
            other.subscribe(None, there.live)
            told = await bus.publish(progressed("job"))
            await bus.publish(lost("blob"))
            await wait_until(lambda: len(here.heard) == 2 and bool(there.heard))
            return told.position, len(await log(store))

    assert engine.run(story) == (0, 1)
    assert (here.heard, there.heard) == (["job", "blob"], ["blob"])
