"""Delivery: a reaction happens exactly once, and one that fails is set aside with all that is needed to try again."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from contract.engines import Engine, HandClock, delivery, envelope, put
from ringrift.bus import dead_letters
from ringrift.bus.delivery import Courier, Reader
from ringrift.bus.letters import find
from ringrift.bus.scribe import Scribe
from ringrift.events import data
from ringrift.events.base import Envelope, Event
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.errors import Discard, InputError, NotLeader, Overtaken, Retry, UnknownName
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import BusSettings
from ringrift.kernel.watch import Watch
from ringrift.store.ports import Delivery, Put, Store, Tx

BACKOFF = BusSettings().redelivery


class PostOffice:
    """One store with a courier, a clock that a test moves, and readers that write down what they did."""

    def __init__(self, store: Store, batch: int = 4, backoff: Backoff = BACKOFF) -> None:
        self.store, self.clock, self.watch = store, HandClock(), Watch()
        self.scribe = Scribe("n1", self.clock, Ids(self.clock, Random(7)))
        self.courier = Courier(store, self.clock, self.scribe, backoff, batch)
        self.wrong: dict[str, BaseException] = {}

    async def say(self, *blobs: str) -> Sequence[Envelope]:
        """One event for each of *blobs*."""
        async with self.store.begin() as tx:
            return await tx.append([self.scribe.wrap(data.Lost(variant="v", blob=blob, reason="")) for blob in blobs])

    def reader(self, name: str = "reader", **changes: Any) -> Reader:
        """A reader whose effect is a stroke for each event, undone when the event is in *wrong*."""

        async def react(event: Event, envelope: Envelope, tx: Tx) -> None:
            assert isinstance(event, data.Lost)
            strokes = (await tx.get(name, [event.blob])).get(event.blob, b"")
            await tx.put([Put(kind=name, id=event.blob, body=strokes + b"I")])
            if event.blob in self.wrong:
                raise self.wrong[event.blob]

        return Reader(**{"name": name, "wants": frozenset({data.Lost.name()}), "react": react} | changes)

    async def all(self, reader: Reader) -> int:
        """Deliver until nothing is left; the reader's place."""
        place = await self.courier.enrol(reader)
        while (new := await self.courier.take(reader, place)) != place:
            place = new
        return place

    async def effects(self, name: str = "reader") -> dict[str, str]:
        """What *name* has done: strokes by blob."""
        async with self.store.read() as view:
            return {record.id: record.body.decode() for record in await view.scan(name, "", 1000)}

    async def unsettled(self) -> list[Delivery]:
        """What is parked or dead."""
        async with self.store.read() as view:
            return list(await view.deliveries(("parked", "dead"), 1000))

    async def retry(self, *readers: Reader) -> dict[str, int]:
        """Try again what is due, as the daemon of that name does."""
        named = {reader.name: reader for reader in readers}
        return dict(await dead_letters.retry(self.store, self.courier, named, self.watch, self.clock.tick()))


def test_events_are_taken_in_batches(engine: Engine) -> None:
    """A reader is moved by as many events as a batch has, and its effects are there once each."""

    async def story(store: Store) -> tuple[list[int], dict[str, str]]:
        office = PostOffice(store, batch=4)
        reader = office.reader()
        await office.say(*"abcdefghij")
        places = [await office.courier.enrol(reader)]
        for _ in range(4):
            places.append(await office.courier.take(reader, places[-1]))
        return places, await office.effects()

    places, effects = engine.run(story)

    assert places == [0, 4, 8, 10, 10]
    assert effects == dict.fromkeys("abcdefghij", "I")


def test_a_reader_passes_by_what_it_does_not_want(engine: Engine) -> None:
    """Events of other names, and those that this version does not know, move the place and nothing else."""

    async def story(store: Store) -> tuple[int, int, dict[str, str]]:
        office = PostOffice(store)
        await office.say("a")
        async with store.begin() as tx:
            await tx.append([envelope("unknown", name="future.happened")])
        [last] = await office.say("b")
        unwanted = await office.all(office.reader("other", wants=frozenset({"data.synced"})))
        return unwanted - last.position, await office.all(office.reader()) - last.position, await office.effects()

    assert engine.run(story) == (0, 0, {"a": "I", "b": "I"})


def test_a_failing_event_is_parked_and_the_rest_goes_on(engine: Engine) -> None:
    """Only the event that failed is set aside, without its effect and with its error; all others have theirs once."""

    async def story(store: Store) -> tuple[int, dict[str, str], list[Delivery], float]:
        office = PostOffice(store)
        office.wrong["b"] = ValueError("no b today")
        await office.say(*"abcdef")
        return await office.all(office.reader()), await office.effects(), await office.unsettled(), office.clock.now()

    place, effects, [parked], now = engine.run(story)

    assert place == 7  # six events, and the one that says that a letter was parked
    assert effects == dict.fromkeys("acdef", "I")
    assert parked == delivery("reader", 2, pause=60.0, error="ValueError: no b today", first=now, last=now)


def test_a_body_that_is_not_its_event_is_parked(engine: Engine) -> None:
    """An event whose bytes do not decode stops nobody."""

    async def story(store: Store) -> tuple[dict[str, str], list[int]]:
        office = PostOffice(store)
        async with store.begin() as tx:
            await tx.append([envelope("bad", b'{"type":"data.lost","blob":7}', "data.lost")])
        await office.say("a")
        await office.all(office.reader())
        return await office.effects(), [parked.position for parked in await office.unsettled()]

    assert engine.run(story) == ({"a": "I"}, [1])


@pytest.mark.parametrize(
    ("wrong", "state", "pause"),
    [(Retry(after=5.0), "parked", 5.0), (Discard("not ours"), "discarded", 0.0), (KeyError("x"), "parked", 60.0)],
    ids=["retry", "discard", "error"],
)
def test_a_reaction_may_say_what_becomes_of_its_event(
    engine: Engine, wrong: Exception, state: str, pause: float
) -> None:
    """Retry sets the pause, Discard ends the matter with its reason, and any other error takes the policy's pause."""

    async def story(store: Store) -> tuple[Delivery | None, dict[str, str]]:
        office = PostOffice(store)
        office.wrong["a"] = wrong
        await office.say("a", "b")
        await office.all(office.reader())
        async with store.read() as view:
            found = await find(view, "reader", 1)
        return found, await office.effects()

    found, effects = engine.run(story)

    assert found is not None
    assert (found.state, found.pause, found.attempts) == (state, pause, 1)
    assert str(wrong) in found.error
    assert effects == {"b": "I"}


def test_an_error_with_any_text_is_parked(engine: Engine) -> None:
    """An error whose text is not valid Unicode, as names of files may be, does not stop its reader."""

    async def story(store: Store) -> tuple[dict[str, str], list[str]]:
        office = PostOffice(store)
        office.wrong["a"] = OSError("cannot read caf\udce9")
        await office.say("a", "b")
        await office.all(office.reader())
        return await office.effects(), [parked.state for parked in await office.unsettled()]

    assert engine.run(story) == ({"b": "I"}, ["parked"])


def test_a_reaction_that_hangs_is_parked(engine: Engine) -> None:
    """A reaction that holds everybody up is ended and set aside like any that fails; its reader lives and goes on."""

    async def story(store: Store) -> tuple[bool, dict[str, str], list[str]]:
        office = PostOffice(store)

        async def react(event: Event, envelope: Envelope, tx: Tx) -> None:
            assert isinstance(event, data.Lost)
            await tx.put([Put(kind="reader", id=event.blob, body=b"I")])
            if event.blob == "a":
                await asyncio.get_running_loop().create_future()

        await office.say("a", "b")
        taking = asyncio.create_task(office.all(office.reader(react=react)))
        while not taking.done():
            await put(store, "k", "somebody who waits")
        parked = [one.state for one in await office.unsettled()]
        return taking.cancelled(), await office.effects(), parked

    assert engine.run(story, tx_seconds_max=0.05) == (False, {"b": "I"}, ["parked"])


def test_of_two_couriers_one_is_overtaken(engine: Engine) -> None:
    """Two who deliver to one reader from one place have its effects once; the second is told."""

    async def story(store: Store) -> tuple[list[object], dict[str, str]]:
        office = PostOffice(store)
        await office.say(*"abc")
        place = await office.courier.enrol(office.reader())
        takes = (Courier(store, office.clock, office.scribe, BACKOFF, 4).take(office.reader(), place) for _ in range(2))
        return await asyncio.gather(*takes, return_exceptions=True), await office.effects()

    (first, second), effects = engine.run(story)

    assert first == 3
    assert isinstance(second, Overtaken)
    assert effects == dict.fromkeys("abc", "I")


@pytest.mark.parametrize("verb", ["take", "again"])
def test_nothing_is_delivered_in_a_term_that_is_over(engine: Engine, verb: str) -> None:
    """When the guard says that the role has gone, there is no effect, no step, and no failure counted."""

    async def refuse(tx: Tx) -> None:
        raise NotLeader("pipeline", "n2")

    async def story(store: Store) -> tuple[dict[str, str], dict[str, int], list[Delivery]]:
        office = PostOffice(store)
        await office.say("a")
        reader = office.reader(guard=refuse)
        place = await office.courier.enrol(reader)
        parked = delivery("reader", 1)
        if verb == "again":
            async with store.begin() as tx:
                await tx.park([parked])
        with pytest.raises(NotLeader):
            await (office.courier.take(reader, place) if verb == "take" else office.courier.again(reader, [parked]))
        effects, left = await office.effects(), await office.unsettled()
        async with store.read() as view:
            return effects, dict(await view.places()), left

    effects, places, left = engine.run(story)

    assert (effects, places) == ({}, {"reader": 0})
    assert left == ([delivery("reader", 1)] if verb == "again" else [])


def test_a_second_try_that_succeeds_is_done_once(engine: Engine) -> None:
    """A parked delivery that succeeds has its effect with its new state; the same try again changes nothing."""

    async def story(store: Store) -> tuple[list[tuple[str, int]], dict[str, str], list[Delivery]]:
        office = PostOffice(store)
        office.wrong["a"] = ValueError("not yet")
        await office.say("a")
        await office.all(office.reader())
        [parked] = await office.unsettled()
        office.wrong.clear()
        tries = await asyncio.gather(*(office.courier.again(office.reader(), [parked]) for _ in range(3)))
        return [(one.state, one.attempts) for [one] in tries], await office.effects(), await office.unsettled()

    assert engine.run(story) == ([("done", 2)] * 3, {"a": "I"}, [])


def test_replaying_twice_has_one_effect(engine: Engine) -> None:
    """A dead letter that is replayed by hand has its effect; a second replay is refused, and so is one of nothing."""

    async def story(store: Store) -> tuple[str, dict[str, str]]:
        office = PostOffice(store, backoff=Backoff(first_seconds=60.0, seconds_max=60.0, tries=1))
        office.wrong["a"] = ValueError("not yet")
        await office.say("a")
        await office.all(office.reader())
        [dead] = await office.unsettled()
        assert dead.state == "dead"
        office.wrong.clear()
        done = await dead_letters.replay(store, office.courier, office.reader(), dead.position)
        with pytest.raises(InputError):
            await dead_letters.replay(store, office.courier, office.reader(), dead.position)
        with pytest.raises(UnknownName):
            await dead_letters.replay(store, office.courier, office.reader(), 99)
        return done.state, await office.effects()

    assert engine.run(story) == ("done", {"a": "I"})


def test_a_letter_can_be_given_up_by_hand(engine: Engine) -> None:
    """Discarding settles a delivery with a reason, for good."""

    async def story(store: Store) -> tuple[Delivery | None, dict[str, int]]:
        office = PostOffice(store)
        office.wrong["a"] = ValueError("never")
        await office.say("a")
        await office.all(office.reader())
        await dead_letters.discard(store, office.scribe, "reader", 1, "by hand", 9.0)
        for refused in (
            dead_letters.discard(store, office.scribe, "reader", 1, "again", 9.0),
            dead_letters.replay(store, office.courier, office.reader(), 1),
        ):
            with pytest.raises(InputError):
                await refused
        async with store.read() as view:
            found = await find(view, "reader", 1)
        return found, await office.retry(office.reader())

    found, tried = engine.run(story)

    assert found is not None
    assert (found.state, found.error, found.last) == ("discarded", "by hand", 9.0)
    assert tried == {}


@pytest.mark.parametrize(
    ("tries", "pauses"),
    [(5, [60, 120, 240, 480]), (10, [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600])],
)
def test_tries_are_spaced_out_and_then_over(engine: Engine, tries: int, pauses: list[float]) -> None:
    """The pause doubles from a minute up to an hour; when the tries are used up, the letter is dead."""
    backoff = Backoff(first_seconds=60.0, seconds_max=3600.0, tries=tries)

    async def story(store: Store) -> list[Delivery]:
        office = PostOffice(store, backoff=backoff)
        office.wrong["a"] = ValueError("never")
        await office.say("a")
        await office.all(office.reader())
        seen = await office.unsettled()
        while seen[-1].state == "parked":
            seen += await office.courier.again(office.reader(), [seen[-1]])
            assert [seen[-1]] == await office.unsettled()
        return seen

    seen = engine.run(story)

    assert [one.pause for one in seen] == [*pauses, 0.0]
    assert [one.attempts for one in seen] == list(range(1, tries + 1))
    assert [one.state for one in seen] == ["parked"] * len(pauses) + ["dead"]


def test_a_last_try_that_asks_for_more_is_the_last(engine: Engine) -> None:
    """Retry does not make a letter immortal."""

    async def story(store: Store) -> str:
        office = PostOffice(store, backoff=Backoff(first_seconds=60.0, seconds_max=60.0, tries=2))
        office.wrong["a"] = Retry(after=1.0)
        await office.say("a")
        await office.all(office.reader())
        [parked] = await office.unsettled()
        return (await office.courier.again(office.reader(), [parked]))[0].state

    assert engine.run(story) == "dead"


def test_only_the_reader_that_failed_runs_again(engine: Engine) -> None:
    """When its pause is over on the observer's clock a delivery is tried again, with its own reader and no other."""

    async def story(store: Store) -> tuple[list[dict[str, int]], list[dict[str, str]]]:
        office = PostOffice(store)
        good, bad = office.reader("good"), office.reader("bad")
        await office.say("a")
        await office.all(good)
        office.wrong["a"] = ValueError("not yet")
        await office.all(bad)
        office.wrong.clear()
        tried = [await office.retry(good, bad)]
        for seconds in (59.0, 1.0, 100.0):
            office.clock.seconds += seconds
            tried.append(await office.retry(good, bad))
        return tried, [await office.effects("good"), await office.effects("bad")]

    assert engine.run(story) == ([{}, {}, {"done": 1}, {}], [{"a": "I"}, {"a": "I"}])


def test_letters_of_absent_readers_hold_nobody_up(engine: Engine) -> None:
    """However many deliveries wait for readers that are not here, those of present readers are tried in time."""

    async def story(store: Store) -> dict[str, int]:
        office = PostOffice(store)
        many = dead_letters.TRIED_AT_ONCE_MAX
        await office.say(*(str(number) for number in range(many + 1)))
        async with store.begin() as tx:
            await tx.park([delivery("gone", number + 1) for number in range(many)])
            await tx.park([delivery("reader", many + 1)])
        await office.retry(office.reader())
        office.clock.seconds += 60.0
        return await office.retry(office.reader())

    assert engine.run(story) == {"done": 1}
