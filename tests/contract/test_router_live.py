"""Live subscriptions: which subscriber receives which events, until when, and whether an event has subscribers."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from contract.engines import Engine, settle
from contract.subscribers import Subscriber, finished, log, lost, progressed, routed, served
from ringrift.bus.filters import FilterSpec, make_filter
from ringrift.bus.router import Router
from ringrift.events import custom, data, node, training, work
from ringrift.events.base import Envelope, Event, LineEvent
from ringrift.kernel.errors import InputError, UnknownName
from ringrift.store.ports import Store
from wait import wait_until


def fails(event: Event, envelope: Envelope) -> bool:
    """A predicate that fails."""
    raise KeyError("no idea")


def synced(blob: str, kind: str) -> data.Synced:
    """An event of one of two kinds."""
    return data.Synced(variant="v", blob=blob, kind=kind, nodes=())


EVERYTHING: list[Event] = [
    finished("model"),
    lost("blob"),
    synced("games", "games"),
    synced("weights", "model"),
    node.Left(node="n"),
    progressed("job"),
]
RECEIVED: dict[str, tuple[FilterSpec, set[str]]] = {
    "a class": (training.Finished, {"model"}),
    "a base class": (LineEvent, {"model", "blob", "games", "weights"}),
    "a name": ("data.lost", {"blob"}),
    "a name for memory": ("work.progressed", {"job"}),
    "a set": ({data.Lost, "training.finished", "MY_OWN_EVENT"}, {"blob", "model", "MY_OWN_EVENT"}),
    "a set with both": ({data.Synced, "data.synced"}, {"games", "weights"}),
    "a filter": (make_filter("data.lost"), {"blob"}),
    "a tuple": ((node.Left, work.Progressed), {"node.left", "job"}),
    "an empty set": (frozenset(), set()),
    "a predicate": (lambda event, envelope: getattr(event, "blob", "") == "games", {"games"}),
    "everything": (None, {"model", "blob", "games", "weights", "node.left", "job", "MY_OWN_EVENT"}),
    "a custom name": ("MY_OWN_EVENT", {"MY_OWN_EVENT"}),
    "a name that is never published": ("NEVER_PUBLISHED", set()),
    "a predicate that fails": (fails, set()),
}


def test_each_subscriber_receives_what_its_filter_selects(on_file: Engine) -> None:
    """By class, base, any name, set or predicate, each receives all events of its filter, and no others."""
    subscribers = {name: Subscriber() for name in RECEIVED}

    async def story(store: Store) -> dict[str, int]:
        async with routed(store) as bus:
            for name, (spec, _) in RECEIVED.items():
                bus.subscribe(spec, subscribers[name].live, name=name)
            for event in EVERYTHING:
                await bus.publish(event)
            await bus.publish(custom.Published(event="MY_OWN_EVENT", payload={"a": 1}))
            await wait_until(lambda: len(subscribers["everything"].received) == 7)
            await settle()
            return {subscription.name: subscription.failed for subscription in bus.subscriptions}

    failed = on_file.run(story)

    assert {name: set(subscriber.received) for name, subscriber in subscribers.items()} == {
        name: received for name, (_, received) in RECEIVED.items()
    }
    assert all(len(subscriber.received) == len(set(subscriber.received)) for subscriber in subscribers.values())
    assert failed == dict.fromkeys(RECEIVED, 0) | {"a predicate that fails": 7}


@pytest.mark.parametrize("spec", [7, object(), {7}, [None], ("data.lost", int), "no name", {"ü"}, ""])
def test_an_invalid_filter_is_refused(on_file: Engine, spec: Any) -> None:
    """A filter that is no event, no name and no predicate is refused at once, and no subscriber is added."""

    async def story(store: Store) -> int:
        async with routed(store) as bus:
            with pytest.raises(InputError):
                bus.subscribe(spec, Subscriber().live)
            with pytest.raises(InputError):
                bus.handle(spec, Subscriber().durable, name="h")
            return len(bus.subscriptions)

    assert on_file.run(story) == 0


def test_a_subscriber_receives_only_later_events(engine: Engine) -> None:
    """Events published before the subscription are not delivered live; all later ones are, in order."""
    subscriber, late = Subscriber(), Subscriber()

    async def story(store: Store) -> None:
        async with routed(store, batch=3) as bus:
            await bus.publish_many([lost("before"), lost("it")])
            bus.subscribe(data.Lost, subscriber.live)
            await bus.publish_many([lost(str(number)) for number in range(5)])
            bus.subscribe(data.Lost, late.live)
            await bus.publish_many([lost(str(number)) for number in range(5, 10)])
            await wait_until(lambda: len(subscriber.received) >= 10 and len(late.received) >= 5)
            await settle()

    engine.run(story)

    assert subscriber.received == [str(number) for number in range(10)]
    assert late.received == [str(number) for number in range(5, 10)]


def test_an_unsubscribed_subscriber_receives_nothing_more(engine: Engine) -> None:
    """After unsubscribing nothing is delivered, not even waiting events; the other subscribers continue."""
    quiet, other = Subscriber(), Subscriber()

    async def story(store: Store) -> None:
        go_on = asyncio.Event()
        quiet.meanwhile = lambda event: go_on.wait()
        async with routed(store) as bus:
            subscription = bus.subscribe(data.Lost, quiet.live)
            bus.subscribe(data.Lost, other.live)
            await bus.publish_many([lost("a"), lost("b")])
            await wait_until(lambda: quiet.received == ["a"])
            await bus.unsubscribe(subscription)
            go_on.set()
            await bus.publish(lost("c"))
            await wait_until(lambda: other.received == ["a", "b", "c"])
            assert len(bus.subscriptions) == 1
            await bus.unsubscribe(subscription)  # the second call changes nothing

    engine.run(story)

    assert quiet.received == ["a"]


def test_a_subscriber_may_unsubscribe_itself(on_file: Engine) -> None:
    """A subscriber may unsubscribe itself while it handles an event, and that event is its last."""
    subscriber = Subscriber()

    async def story(store: Store) -> bool:
        async with routed(store) as bus:
            subscriber.meanwhile = lambda event: bus.unsubscribe(subscription)
            subscription = bus.subscribe(data.Lost, subscriber.live)
            await bus.publish_many([lost("a"), lost("b")])
            await wait_until(lambda: subscriber.received == ["a"] and not bus.subscriptions)
            await bus.publish(lost("c"))
            await settle()
            return bus.has_subscribers(data.Lost)

    assert on_file.run(story) is False
    assert subscriber.received == ["a"]


def test_an_unknown_name_cannot_be_unsubscribed(on_file: Engine) -> None:
    """Ending a handler that does not exist is an error that names it."""

    async def story(store: Store) -> None:
        async with routed(store) as bus:
            with pytest.raises(UnknownName, match="unknown"):
                await bus.unsubscribe("unknown")

    on_file.run(story)


SUBSCRIBE_WAYS: dict[str, Callable[[Router], Any]] = {
    "live": lambda bus: bus.subscribe(training.Finished, Subscriber().live),
    "by name": lambda bus: bus.subscribe("training.finished", Subscriber().live),
    "by base": lambda bus: bus.subscribe(LineEvent, Subscriber().live),
    "everything": lambda bus: bus.subscribe(None, Subscriber().live),
    "handler": lambda bus: bus.handle("training.finished", Subscriber().durable, name="h"),
}


@pytest.mark.parametrize("kind", SUBSCRIBE_WAYS)
def test_has_subscribers_is_true_while_an_event_has_one(on_file: Engine, kind: str) -> None:
    """With any kind of subscriber, and by each name of the event, the answer is yes; before, after and elsewhere no."""
    ways = (training.Finished, "training.finished", {training.Finished}, make_filter("training.finished"))

    async def story(store: Store) -> tuple[list[bool], list[bool], list[bool], list[bool]]:
        async with routed(store) as bus:
            before = [bus.has_subscribers(way) for way in ways]
            subscription = SUBSCRIBE_WAYS[kind](bus) or "h"
            there = [bus.has_subscribers(way) for way in ways]
            elsewhere = [bus.has_subscribers(way) for way in (node.Left, "node.lost", "MY_OWN_EVENT")]
            await bus.unsubscribe(subscription)
            return before, there, elsewhere, [bus.has_subscribers(way) for way in ways]

    before, there, elsewhere, after = on_file.run(story)

    assert not any(before)
    assert all(there)
    assert elsewhere == [kind == "everything"] * 3
    assert not any(after)


def test_a_reader_counts_as_subscriber_while_it_is_served(on_file: Engine) -> None:
    """A reaction counts as a subscriber as long as this process serves it."""

    async def story(store: Store) -> tuple[bool, bool, bool]:
        async with routed(store) as bus:
            async with served(bus, Subscriber().reader("r", training.Finished)):
                there = bus.has_subscribers("training.finished")
                elsewhere = bus.has_subscribers(data.Lost)
            return there, elsewhere, bus.has_subscribers("training.finished")

    assert on_file.run(story) == (True, False, False)


def test_events_in_memory_skip_the_log(engine: Engine) -> None:
    """A memory event is delivered here at once, on no other node, and is in no log."""
    here, there = Subscriber(), Subscriber()

    async def story(store: Store) -> tuple[int, int]:
        async with routed(store) as bus, routed(store, node="n2") as other:
            bus.subscribe(None, here.live)
            other.subscribe(None, there.live)
            published = await bus.publish(progressed("job"))
            await bus.publish(lost("blob"))
            await wait_until(lambda: len(here.received) == 2 and bool(there.received))
            return published.position, len(await log(store))

    assert engine.run(story) == (0, 1)
    assert (here.received, there.received) == (["job", "blob"], ["blob"])


def test_a_thread_posts_without_a_loop(on_file: Engine) -> None:
    """A user's thread publishes at once, and the future is done when the event is durable."""

    async def story(store: Store) -> list[str]:
        async with routed(store) as bus:
            future = await asyncio.to_thread(bus.post, lost("blob"), source="thread")
            envelope = await asyncio.wrap_future(future)
        async with store.read() as view:
            return [row.source for row in await view.events_at([envelope.position])]

    assert on_file.run(story) == ["thread"]
