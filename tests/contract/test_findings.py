"""The earlier system's faults with events, each as a test that fails on a system that has the fault."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from contract.engines import Engine, ManualClock, settle
from contract.subscribers import Subscriber, envelopes, failed_deliveries, finished, log, lost, routed, served
from ringrift.bus import dead_letters
from ringrift.bus.delivery import Deliverer
from ringrift.bus.filters import FilterSpec, make_filter
from ringrift.bus.handlers import DurableHandler, HandlerLoop
from ringrift.events import data, training
from ringrift.events.base import Envelope, Event, LineEvent
from ringrift.kernel.settings import BusSettings
from ringrift.kernel.stall_detector import StallDetector
from ringrift.store.ports import Delivery, Store
from wait import wait_until

BACKOFF = BusSettings().redelivery
LIVE: dict[str, FilterSpec] = {
    "by class": training.Finished,
    "by base": LineEvent,
    "by name": "training.finished",
    "by set": {training.Finished, "training.finished", data.Lost},
    "by filter": make_filter("training.finished"),
    "by predicate": lambda event, envelope: True,
    "everything": None,
}


def test_finding_1_one_publish_is_one_delivery(engine: Engine) -> None:
    """Every subscriber, handler and reaction, however it is registered, receives each event exactly once."""
    subscribers = {name: Subscriber() for name in [*LIVE, "handler", "reaction"]}

    async def story(store: Store) -> None:
        async with routed(store) as bus:
            for name, spec in LIVE.items():
                bus.subscribe(spec, subscribers[name].live)
            bus.handle("training.finished", subscribers["handler"].durable, name="handler")
            async with served(bus, subscribers["reaction"].reader("reaction", training.Finished)):
                for model in ("first", "second", "last"):
                    await bus.publish(finished(model))
                await wait_until(
                    lambda: all(subscriber.received[-1:] == ["last"] for subscriber in subscribers.values())
                )
                await settle()

    engine.run(story)

    assert {name: subscriber.received for name, subscriber in subscribers.items()} == {
        name: ["first", "second", "last"] for name in subscribers
    }


def test_finding_1_publishing_waits_for_no_subscriber(on_file: Engine) -> None:
    """Publishing returns while subscribers and handlers, asynchronous and plain, still handle the first event."""
    inside: list[str] = []

    async def story(store: Store) -> tuple[list[str], list[str]]:
        go_on, let_go = asyncio.Event(), threading.Event()

        async def waits(name: str) -> None:
            inside.append(name)
            await go_on.wait()

        def blocks(name: str) -> None:
            inside.append(name)
            let_go.wait(10)

        async with routed(store) as bus:
            bus.subscribe(data.Lost, lambda event, envelope: waits("live"))
            bus.handle(data.Lost, lambda event, envelope, key: waits("handler"), name="handler")
            bus.subscribe(data.Lost, lambda event, envelope: blocks("plain live"))
            bus.handle(data.Lost, lambda event, envelope, key: blocks("plain handler"), name="plain")
            await bus.publish(lost("a"))
            await wait_until(lambda: len(inside) == 4)
            for blob in "bcd":
                await bus.publish(lost(blob))
            still = [*inside]
            go_on.set()
            let_go.set()
            await wait_until(lambda: len(inside) == 16)
        return still, [envelope.name for envelope in await log(store)]

    still, there = on_file.run(story)

    assert sorted(still) == ["handler", "live", "plain handler", "plain live"]
    assert there == [data.Lost.name()] * 4


class Pair:
    """Two durable readers of one log, of which one fails: handlers or reactions, retried as their owners do."""

    def __init__(self, store: Store, kind: str) -> None:
        self.store, self.kind, self.clock = store, kind, ManualClock()
        self.good, self.bad = Subscriber(), Subscriber()
        self._envelopes, self._watch = envelopes("n1", self.clock), StallDetector()
        self._loops = [
            HandlerLoop(self._handler(name, subscriber.durable), store, self.clock, self._envelopes, 10)
            for name, subscriber in self._subscribers.items()
        ]
        self._deliverer = Deliverer(store, self.clock, self._envelopes, BACKOFF, 10)
        self._readers = {name: subscriber.reader(name, data.Lost) for name, subscriber in self._subscribers.items()}

    @property
    def _subscribers(self) -> dict[str, Subscriber]:
        return {"good": self.good, "bad": self.bad}

    def _handler(self, name: str, function: Callable[[Event, Envelope, str], Awaitable[Any]]) -> DurableHandler:
        return DurableHandler(
            name=name, filter=make_filter(data.Lost), function=function, timeout_seconds=10.0, backoff=BACKOFF
        )

    async def deliver(self, *blobs: str) -> None:
        """Publish an event, and let both readers handle it."""
        async with self.store.begin() as tx:
            for name in self._subscribers:
                await tx.register_reader(name, 0)
            await tx.append([self._envelopes.make(lost(blob)) for blob in blobs])
        for loop, reader in zip(self._loops, self._readers.values(), strict=True):
            await (loop.step() if self.kind == "handler" else self._deliverer.deliver_batch(reader, 0))

    async def retry(self, seconds: float) -> dict[str, int]:
        """Retry the due deliveries now and after so many *seconds*; the counts after that."""
        for pause in (0.0, seconds):
            self.clock.seconds += pause
            if self.kind == "handler":
                for loop in self._loops:
                    await loop.step(retry=True)
            else:
                await self._deliverer.retry_due(self._readers, self._watch, self.clock.tick())
        return await dead_letters.stats(self.store)


def counts(**changes: int) -> dict[str, int]:
    """Counts of deliveries by state, zero unless stated."""
    return {"pending": 0, "recovered": 0, "abandoned": 0, "discarded": 0} | changes


BOTH = pytest.mark.parametrize("kind", ["handler", "reaction"])


@BOTH
def test_finding_3_a_repeated_failure_is_not_recovered(engine: Engine, kind: str) -> None:
    """A delivery that fails through all its tries is pending until the last, and then abandoned with its reason."""

    async def story(store: Store) -> tuple[list[dict[str, int]], list[int], Delivery, Pair]:
        pair = Pair(store, kind)
        pair.bad.errors["b"] = ValueError("no b today")
        await pair.deliver("a", "b", "c")
        published, tries = [await dead_letters.stats(store)], [pair.bad.received.count("b")]
        for pause in (60.0, 120.0, 240.0, 480.0, 3600.0):
            for seconds in (pause - 1.0, 1.0):
                published.append(await pair.retry(seconds))
                tries.append(pair.bad.received.count("b"))
        [delivery] = await failed_deliveries(store)
        return published, tries, delivery, pair

    published, tries, delivery, pair = engine.run(story)
    first = 2 if kind == "reaction" else 1  # a batch in which a reaction fails is undone and delivered one by one

    assert published == [counts(pending=1)] * 8 + [counts(abandoned=1)] * 3
    assert tries == [first + done for done in (0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4)]
    assert (delivery.reader, delivery.state, delivery.attempts) == ("bad", "dead", 5)
    assert delivery.error == "ValueError: no b today"
    assert pair.good.received == ["a", "b", "c"]


@BOTH
def test_finding_3_a_recovery_is_a_success(engine: Engine, kind: str) -> None:
    """Only a try that succeeds counts as recovered; nothing that had succeeded before runs again with it."""

    async def story(store: Store) -> tuple[list[dict[str, int]], Pair, list[list[str]]]:
        pair = Pair(store, kind)
        pair.bad.errors["b"] = ValueError("not yet")
        await pair.deliver("a", "b", "c")
        before = [len(pair.good.received), len(pair.bad.received)]
        published = [await pair.retry(60.0)]
        del pair.bad.errors["b"]
        published += [await pair.retry(120.0), await pair.retry(7200.0)]
        return published, pair, [pair.good.received[before[0] :], pair.bad.received[before[1] :]]

    published, pair, again = engine.run(story)

    assert published == [counts(pending=1), counts(recovered=1), counts(recovered=1)]
    assert again == [[], ["b", "b"]]
    assert pair.good.received == ["a", "b", "c"]


@BOTH
def test_finding_3_a_delivery_discarded_by_hand_is_counted_as_discarded(engine: Engine, kind: str) -> None:
    """A delivery that a person discards is counted as discarded, not recovered, and never runs again."""

    async def story(store: Store) -> tuple[dict[str, int], dict[str, int], bool]:
        pair = Pair(store, kind)
        pair.bad.errors["b"] = ValueError("never")
        await pair.deliver("a", "b")
        [delivery] = await failed_deliveries(store)
        by_hand = envelopes("n1", pair.clock)
        await dead_letters.discard(store, by_hand, "bad", delivery.position, "not worth it", pair.clock.now())
        now, received = await dead_letters.stats(store), [*pair.bad.received]
        return now, await pair.retry(7200.0), received == pair.bad.received

    assert engine.run(story) == (counts(discarded=1), counts(discarded=1), True)


def test_finding_4_typed_events_are_never_suppressed(engine: Engine) -> None:
    """A typed event is published each time, one by one or many at once, however equal."""
    subscriber = Subscriber()

    async def story(store: Store) -> tuple[int, int]:
        async with routed(store) as bus:
            bus.subscribe(None, subscriber.live)
            one_by_one = [await bus.publish(lost("a"), source="s") for _ in range(3)]
            envelopes = [*one_by_one, *await bus.publish_many([lost("a")] * 3, source="s")]
            await wait_until(lambda: len(subscriber.received) >= 6)
            await settle()
            return len({envelope.id for envelope in envelopes}), len(await log(store))

    assert engine.run(story) == (6, 6)
    assert len(subscriber.received) == 6
