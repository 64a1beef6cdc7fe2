"""What the earlier system got wrong about events, each finding as a test that fails on a system that behaves so."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from contract.engines import Engine, HandClock, settle
from contract.listeners import Ear, finished, letters, log, lost, routed, scribe, served
from ringrift.bus import dead_letters
from ringrift.bus.delivery import Courier
from ringrift.bus.errands import Attendant, Errand
from ringrift.bus.wants import Asked, wants
from ringrift.events import data, training
from ringrift.events.base import Envelope, Event, LineEvent
from ringrift.kernel.settings import BusSettings
from ringrift.kernel.watch import Watch
from ringrift.store.ports import Delivery, Store
from waiting import wait_until

BACKOFF = BusSettings().redelivery
LIVE: dict[str, Asked] = {
    "by class": training.Finished,
    "by base": LineEvent,
    "by name": "training.finished",
    "by old name": "TRAINING_COMPLETED",
    "by old value": "training.completed",
    "by set": {training.Finished, "TRAINING_COMPLETED", data.Lost},
    "by predicate": lambda event, envelope: True,
    "everything": None,
}


def test_finding_1_one_publish_is_one_delivery(engine: Engine) -> None:
    """Whoever listens, in whichever way, and as subscriber, handler or reaction, hears each event exactly once."""
    ears = {name: Ear() for name in [*LIVE, "handler", "reaction"]}

    async def story(store: Store) -> None:
        async with routed(store) as bus:
            for name, asked in LIVE.items():
                bus.subscribe(asked, ears[name].live)
            bus.handle("TRAINING_COMPLETED", ears["handler"].durable, name="handler")
            async with served(bus, ears["reaction"].reader("reaction", training.Finished)):
                for model in ("first", "second", "last"):
                    await bus.publish(finished(model))
                await wait_until(lambda: all(ear.heard[-1:] == ["last"] for ear in ears.values()))
                await settle()

    engine.run(story)

    assert {name: ear.heard for name, ear in ears.items()} == {name: ["first", "second", "last"] for name in ears}


def test_finding_1_publishing_waits_for_no_listener(on_file: Engine) -> None:
    """Publishing returns while subscribers and handlers, asynchronous and plain, are still at the first event."""
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
        return still, [one.name for one in await log(store)]

    still, there = on_file.run(story)

    assert sorted(still) == ["handler", "live", "plain handler", "plain live"]
    assert there == [data.Lost.name()] * 4


class Pair:
    """Two durable readers of one log, of which one fails: handlers or reactions, tried again as their owners do."""

    def __init__(self, store: Store, kind: str) -> None:
        self.store, self.kind, self.clock = store, kind, HandClock()
        self.good, self.bad = Ear(), Ear()
        self._scribe, self._watch = scribe("n1", self.clock), Watch()
        self._attendants = [
            Attendant(self._errand(name, ear.durable), store, self.clock, self._scribe, 10)
            for name, ear in self._ears.items()
        ]
        self._courier = Courier(store, self.clock, self._scribe, BACKOFF, 10)
        self._readers = {name: ear.reader(name, data.Lost) for name, ear in self._ears.items()}

    @property
    def _ears(self) -> dict[str, Ear]:
        return {"good": self.good, "bad": self.bad}

    def _errand(self, name: str, call: Callable[[Event, Envelope, str], Awaitable[Any]]) -> Errand:
        return Errand(name=name, wants=wants(data.Lost), call=call, seconds_max=10.0, backoff=BACKOFF)

    async def deliver(self, *blobs: str) -> None:
        """Say something, and let both take it."""
        async with self.store.begin() as tx:
            for name in self._ears:
                await tx.enrol(name, 0)
            await tx.append([self._scribe.wrap(lost(blob)) for blob in blobs])
        for attendant, reader in zip(self._attendants, self._readers.values(), strict=True):
            await (attendant.take(0) if self.kind == "handler" else self._courier.take(reader, 0))

    async def retry(self, seconds: float) -> dict[str, int]:
        """Look at the letters now and after so many *seconds*; the counts then."""
        for pause in (0.0, seconds):
            self.clock.seconds += pause
            if self.kind == "handler":
                for attendant in self._attendants:
                    await attendant.retry()
            else:
                await dead_letters.retry(self.store, self._courier, self._readers, self._watch, self.clock.tick())
        return await dead_letters.stats(self.store)


def counts(**changes: int) -> dict[str, int]:
    """Counts of letters, zero unless said."""
    return {"pending": 0, "recovered": 0, "abandoned": 0, "discarded": 0} | changes


BOTH = pytest.mark.parametrize("kind", ["handler", "reaction"])


@BOTH
def test_finding_3_what_fails_again_is_not_recovered(engine: Engine, kind: str) -> None:
    """A letter that fails through all its tries is pending until the last, and then abandoned with its reason."""

    async def story(store: Store) -> tuple[list[dict[str, int]], list[int], Delivery, Pair]:
        pair = Pair(store, kind)
        pair.bad.wrong["b"] = ValueError("no b today")
        await pair.deliver("a", "b", "c")
        told, tries = [await dead_letters.stats(store)], [pair.bad.heard.count("b")]
        for pause in (60.0, 120.0, 240.0, 480.0, 3600.0):
            for seconds in (pause - 1.0, 1.0):
                told.append(await pair.retry(seconds))
                tries.append(pair.bad.heard.count("b"))
        [letter] = await letters(store)
        return told, tries, letter, pair

    told, tries, letter, pair = engine.run(story)
    first = 2 if kind == "reaction" else 1  # a batch in which a reaction fails is undone and taken apart

    assert told == [counts(pending=1)] * 8 + [counts(abandoned=1)] * 3
    assert tries == [first + done for done in (0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4)]
    assert (letter.reader, letter.state, letter.attempts) == ("bad", "dead", 5)
    assert letter.error == "ValueError: no b today"
    assert pair.good.heard == ["a", "b", "c"]


@BOTH
def test_finding_3_a_recovery_is_a_success(engine: Engine, kind: str) -> None:
    """Only a try that succeeds counts as recovered; nothing that had succeeded before runs again with it."""

    async def story(store: Store) -> tuple[list[dict[str, int]], Pair, list[list[str]]]:
        pair = Pair(store, kind)
        pair.bad.wrong["b"] = ValueError("not yet")
        await pair.deliver("a", "b", "c")
        before = [len(pair.good.heard), len(pair.bad.heard)]
        told = [await pair.retry(60.0)]
        del pair.bad.wrong["b"]
        told += [await pair.retry(120.0), await pair.retry(7200.0)]
        return told, pair, [pair.good.heard[before[0] :], pair.bad.heard[before[1] :]]

    told, pair, again = engine.run(story)

    assert told == [counts(pending=1), counts(recovered=1), counts(recovered=1)]
    assert again == [[], ["b", "b"]]
    assert pair.good.heard == ["a", "b", "c"]


@BOTH
def test_finding_3_what_is_given_up_by_hand_is_counted_so(engine: Engine, kind: str) -> None:
    """A letter that a person gives up is discarded, not recovered, and never runs again."""

    async def story(store: Store) -> tuple[dict[str, int], dict[str, int], bool]:
        pair = Pair(store, kind)
        pair.bad.wrong["b"] = ValueError("never")
        await pair.deliver("a", "b")
        [letter] = await letters(store)
        by_hand = scribe("n1", pair.clock)
        await dead_letters.discard(store, by_hand, "bad", letter.position, "not worth it", pair.clock.now())
        now, heard = await dead_letters.stats(store), [*pair.bad.heard]
        return now, await pair.retry(7200.0), heard == pair.bad.heard

    assert engine.run(story) == (counts(discarded=1), counts(discarded=1), True)


REPORT = {"config_key": "hex8_2p", "games": 50}


async def delivered(store: Store, say: Callable[[list[Any]], Awaitable[Sequence[Envelope]]]) -> tuple[int, int, int]:
    """How many envelopes, events in the log and deliveries come of what *say* says on three nodes, and suppressions."""
    ear, clock = Ear(), HandClock()
    async with routed(store, clock) as one, routed(store, clock, "n2") as two, routed(store, clock, "n3") as three:
        buses = [one, two, three]
        one.subscribe(None, ear.live)
        told = await say(buses)
        there = len(await log(store))
        await wait_until(lambda: len(ear.heard) >= there)
        await settle()
        assert len(ear.heard) == there
        return len({envelope.id for envelope in told}), there, sum(bus.suppressed for bus in buses)


def test_finding_4_equal_reports_of_different_nodes_are_all_heard(engine: Engine) -> None:
    """Three nodes, and three sources on one of them, that say the same within the window say six things."""

    async def say(buses: list[Any]) -> list[Envelope]:
        told = [await bus.say("NEW_GAMES_AVAILABLE", REPORT, source="selfplay") for bus in buses]
        return told + [await buses[0].say("NEW_GAMES_AVAILABLE", REPORT, source=source) for source in ("a", "b", "")]

    assert engine.run(lambda store: delivered(store, say)) == (6, 6, 0)


def test_finding_4_the_same_words_of_one_mouth_are_one_event(engine: Engine) -> None:
    """One node and source that repeats itself within the window gets the first envelope back, and is counted."""

    async def say(buses: list[Any]) -> list[Envelope]:
        return [await buses[0].say("NEW_GAMES_AVAILABLE", REPORT, source="selfplay") for _ in range(4)]

    assert engine.run(lambda store: delivered(store, say)) == (1, 1, 3)


def test_finding_4_ids_make_the_same_words_distinct(engine: Engine) -> None:
    """Whoever gives ids says as many things as ids, however equal the words are; the same id is the same thing."""

    async def say(buses: list[Any]) -> list[Envelope]:
        return [await buses[0].say("NEW_GAMES_AVAILABLE", REPORT, id=id) for id in ("i1", "i2", "i3", "i1")]

    assert engine.run(lambda store: delivered(store, say)) == (3, 3, 0)


def test_finding_4_typed_events_are_never_suppressed(engine: Engine) -> None:
    """What is published as a typed event is said each time, one by one or many at once, however equal."""

    async def say(buses: list[Any]) -> list[Envelope]:
        one_by_one = [await buses[0].publish(lost("a"), source="s") for _ in range(3)]
        return [*one_by_one, *await buses[0].publish_many([lost("a")] * 3, source="s")]

    assert engine.run(lambda store: delivered(store, say)) == (6, 6, 0)
