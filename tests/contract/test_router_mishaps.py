"""Mishaps of durable listeners: what is not their end."""

import asyncio

import pytest

from contract.engines import Engine, HandClock, append, delivery, envelope, settle
from contract.listeners import Ear, letters, lost, place, routed, scribe, served
from ringrift.bus import dead_letters
from ringrift.bus.delivery import Courier, Reader
from ringrift.events import data
from ringrift.events.base import Envelope, Event
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.errors import NoRoom
from ringrift.kernel.settings import BusSettings
from ringrift.kernel.watch import Watch
from ringrift.store.ports import Delivery, Put, Store, Tx
from waiting import wait_until


async def level(store: Store, name: str) -> None:
    """Wait until the reader has taken in everything."""

    async def is_level() -> bool:
        return await place(store, name) == store.position

    await wait_until(is_level)


def test_a_predicate_that_fails_is_a_letter(engine: Engine) -> None:
    """When a handler's predicate cannot tell, the event is set aside like any that fails, and the next one comes."""
    ear = Ear()

    def wanted(event: data.Lost) -> bool:
        if event.blob == "a":
            raise KeyError("no idea")
        return event.blob != "c"

    async def story(store: Store) -> list[Delivery]:
        async with routed(store) as bus:
            bus.handle(lambda event, envelope: isinstance(event, data.Lost) and wanted(event), ear.durable, name="h")
            await bus.publish_many([lost(blob) for blob in "abcd"])
            await level(store, "h")
            return [*await letters(store)]

    [parked] = engine.run(story)

    assert ear.heard == ["b", "d"]
    assert (parked.reader, parked.position, parked.state) == ("h", 1, "parked")
    assert "no idea" in parked.error


def test_a_body_that_is_not_its_event_is_a_letter(engine: Engine) -> None:
    """An event in the log whose bytes do not decode stops no handler and no live subscriber."""
    ear, live = Ear(), Ear()

    async def story(store: Store) -> list[Delivery]:
        async with routed(store) as bus:
            bus.handle(data.Lost, ear.durable, name="h")
            bus.subscribe(data.Lost, live.live)
            async with store.begin() as tx:
                await tx.append([envelope("bad", b'{"type":"data.lost","blob":7}', "data.lost")])
                await tx.append([envelope("new", b"{}", "future.happened")])
            await bus.publish(lost("a"))
            await level(store, "h")
            await wait_until(lambda: bool(live.heard))
            return [*await letters(store)]

    [parked] = engine.run(story)

    assert ear.heard == live.heard == ["a"]
    assert (parked.reader, parked.position, parked.state) == ("h", 1, "parked")


def test_a_handler_that_was_cancelled_by_another_has_failed(engine: Engine) -> None:
    """A handler that awaits something which somebody else cancelled has failed, and gets the next event."""

    async def await_what_is_gone(event: Event) -> None:
        if getattr(event, "blob", "") == "a":
            gone = asyncio.get_running_loop().create_future()
            gone.cancel()
            await gone

    ear = Ear(await_what_is_gone)

    async def story(store: Store) -> list[str]:
        async with routed(store) as bus:
            bus.handle(data.Lost, ear.durable, name="h")
            await bus.publish_many([lost("a"), lost("b")])
            await level(store, "h")
            return [one.state for one in await letters(store)]

    assert engine.run(story) == ["parked"]
    assert ear.heard == ["a", "b"]


def full(engine: Engine) -> None:
    """Leave no room on the lossy disk."""
    assert engine.disk is not None
    engine.disk.room = sum(len(image.content) for image in engine.disk._images.values())


@pytest.mark.parametrize("fails", [False, True])
def test_a_full_disk_is_not_the_end_of_a_handler(on_lossy: Engine, fails: bool) -> None:
    """A handler that cannot write down how far it is goes on, with the same keys, once there is room again."""
    ear = Ear()

    async def story(store: Store) -> None:
        disk = on_lossy.disk
        assert disk is not None
        async with routed(store) as bus:
            bus.handle(data.Lost, ear.durable, name="h")
            if fails:
                ear.wrong["a"] = ValueError("x" * 500)
            ear.meanwhile = fill
            await bus.publish_many([lost("a")])
            await wait_until(lambda: len(ear.heard) > 1 or disk.room is not None)
            with pytest.raises(NoRoom):
                await append(store, *(f"big-{number}" for number in range(100)))
            await settle()
            ear.meanwhile = None
            disk.room = None
            await level(store, "h")
            await bus.publish(lost("b"))
            await level(store, "h")

    async def fill(event: Event) -> None:
        full(on_lossy)

    on_lossy.run(story)

    assert ear.heard[-1] == "b"
    assert set(ear.heard) == {"a", "b"}
    assert len(set(ear.keys)) == 2


async def abandoned(store: Store) -> None:
    """A letter of a reader that has lapsed, whose event is no longer in the log; and one of a reader that has not."""
    async with routed(store) as bus:
        await bus.publish_many([lost("gone"), lost("there"), lost("newest")])
    async with store.begin() as tx:
        await tx.enrol("lapsed", 1)
        await tx.enrol("other", 3)
        await tx.park([delivery("lapsed", 1, pause=0.0), delivery("other", 2, pause=0.0)])
        await tx.lapse([("lapsed", 1)])
        assert await tx.compact(1, 1) == 1


def test_a_letter_without_its_event_stops_nobody(engine: Engine) -> None:
    """A letter whose event has been dropped, as it may be for a lapsed reader, keeps no other letter from its try."""
    clock, ear, none = HandClock(), Ear(), Ear()

    async def story(store: Store) -> None:
        await abandoned(store)
        courier = Courier(store, clock, scribe("n1", clock), BusSettings().redelivery, 10)
        readers = {"lapsed": none.reader("lapsed", data.Lost), "other": ear.reader("other", data.Lost)}
        await dead_letters.retry(store, courier, readers, Watch(), clock.tick())

    engine.run(story)

    assert (none.heard, ear.heard) == ([], ["there"])


def test_a_letter_without_its_event_can_be_given_up(engine: Engine) -> None:
    """A person may discard such a letter like any other."""

    async def story(store: Store) -> list[str]:
        await abandoned(store)
        await dead_letters.discard(store, scribe("n1", HandClock()), "lapsed", 1, "too late", 9.0)
        return [one.state for one in await letters(store, "lapsed")]

    assert engine.run(story) == ["discarded"]


def test_a_lapsed_handler_does_not_listen(on_file: Engine) -> None:
    """A handler that has lapsed gets nothing, moves nothing, and nobody is told that it listens."""
    ear = Ear()

    async def story(store: Store) -> tuple[bool, int | None]:
        async with store.begin() as tx:
            await tx.enrol("h", 0)
            await tx.lapse([("h", 0)])
        async with routed(store) as bus:
            await bus.publish(lost("a"))
            bus.handle(data.Lost, ear.durable, name="h")
            await wait_until(lambda: not bus.has_subscribers(data.Lost))
            return bus.has_subscribers(data.Lost), await place(store, "h")

    assert on_file.run(story) == (False, 0)
    assert ear.heard == []


def test_a_handler_of_an_open_store_ends_with_it(on_file: Engine) -> None:
    """When the store goes, handlers and subscribers end without a word too many, and closing is clean."""
    ear = Ear()

    async def story() -> None:
        async with on_file.open() as store, routed(store) as bus:
            bus.handle(data.Lost, ear.durable, name="h")
            bus.subscribe(data.Lost, ear.live)
            async with served(bus, ear.reader("r", data.Lost)):
                await bus.publish(lost("a"))
                await wait_until(lambda: len(ear.heard) == 3)

    asyncio.run(story())

    assert ear.heard == ["a"] * 3


def test_a_full_disk_at_a_second_try_is_not_the_end_either(on_lossy: Engine) -> None:
    """A handler that cannot write down what became of a letter tries it again once there is room."""
    clock, ear = HandClock(), Ear()
    disk = on_lossy.disk
    assert disk is not None

    async def fill(event: Event) -> None:
        full(on_lossy)

    async def story(store: Store) -> list[str]:
        ear.wrong["a"] = ValueError("not yet")
        async with routed(store, clock) as bus:
            bus.handle(data.Lost, ear.durable, name="h")
            await bus.publish(lost("a"))
            await level(store, "h")
            ear.wrong = {"a": ValueError("x" * 1900)}
            ear.meanwhile = fill

            def later() -> bool:
                clock.seconds += 5.0
                return len(ear.heard) > 1

            await wait_until(later)
            await settle()
            ear.wrong, ear.meanwhile, disk.room = {}, None, None
            await bus.publish(lost("b"))

            async def is_done() -> bool:
                clock.seconds += 5.0
                return [one.state for one in await letters(store)] == ["done"]

            await wait_until(is_done)
            await level(store, "h")
            return ear.heard

    heard = on_lossy.run(story)

    assert "b" in heard
    assert len(set(ear.keys)) == 2


def test_a_source_is_not_blocked_for_ever(engine: Engine) -> None:
    """With ordered, what waited behind an event goes on once that one has used up its tries."""
    clock, ear = HandClock(), Ear()

    async def story(store: Store) -> list[str]:
        ear.wrong["a1"] = ValueError("never")
        twice = Backoff(first_seconds=60.0, seconds_max=60.0, tries=2)
        async with routed(store, clock) as bus:
            bus.handle(data.Lost, ear.durable, name="h", ordered=True, retry=twice)
            await bus.publish_many([lost("a1"), lost("a2"), lost("a3")], source="a")

            def later() -> bool:
                clock.seconds += 5.0
                return len(ear.heard) == 4

            await wait_until(later)
            await bus.publish(lost("a4"), source="a")
            await level(store, "h")

            async def are_settled() -> bool:
                return [one.state for one in await letters(store)] == ["dead", "done", "done"]

            await wait_until(are_settled)
        return ear.heard

    assert engine.run(story) == ["a1", "a1", "a2", "a3", "a4"]


def test_two_that_serve_one_handler_share_its_keys(engine: Engine) -> None:
    """Two nodes that serve one handler hear everything between them, twice at worst, and under one key each."""
    one, two = Ear(), Ear()

    async def story(store: Store) -> None:
        async with routed(store, batch=7) as bus, routed(store, node="n2", batch=5) as other:
            bus.handle(data.Lost, one.durable, name="h", from_start=True)
            other.handle(data.Lost, two.durable, name="h", from_start=True)
            for start in range(0, 200, 20):
                await bus.publish_many([lost(str(number)) for number in range(start, start + 20)])
            await level(store, "h")

    engine.run(story)
    pairs = {*zip(one.heard, one.keys, strict=True), *zip(two.heard, two.keys, strict=True)}

    assert {blob for blob, _ in pairs} == {str(number) for number in range(200)}
    assert len(pairs) == 200


def test_two_that_serve_one_reaction_have_its_effects_once(engine: Engine) -> None:
    """Two nodes that serve one reaction have each effect once between them."""

    async def react(event: Event, envelope: Envelope, tx: Tx) -> None:
        before = (await tx.get("strokes", [envelope.id])).get(envelope.id, b"")
        await tx.put([Put(kind="strokes", id=envelope.id, body=before + b"I")])

    reader = Reader(name="r", wants=frozenset({data.Lost.name()}), react=react)

    async def story(store: Store) -> list[bytes]:
        async with (
            routed(store, batch=7) as bus, routed(store, node="n2", batch=5) as other,
            served(bus, reader), served(other, reader),
        ):  # fmt: skip
            for start in range(0, 200, 20):
                await bus.publish_many([lost(str(number)) for number in range(start, start + 20)])
            await level(store, "r")
        async with store.read() as view:
            return [record.body for record in await view.scan("strokes", "", 1000)]

    assert engine.run(story) == [b"I"] * 200


def test_a_reader_that_is_served_twice_in_one_process_ends_twice(on_file: Engine) -> None:
    """When a reaction is served again before the first serving has ended, both end as they were told to."""

    async def story(store: Store) -> list[bool]:
        async with routed(store) as bus:
            reader = Ear().reader("r", data.Lost)
            tasks = [asyncio.create_task(bus.serve(reader, lambda: None, lambda: True)) for _ in range(2)]
            await bus.publish(lost("a"))
            await level(store, "r")
            tasks[0].cancel()
            await asyncio.wait(tasks[:1])
            assert bus.has_subscribers(data.Lost)
            tasks[1].cancel()
            await asyncio.wait(tasks)
            return [task.cancelled() for task in tasks]

    assert on_file.run(story) == [True, True]
