"""Failures that do not end a durable handler or reaction."""

import asyncio

import pytest

from contract.engines import Engine, ManualClock, append, delivery, envelope, settle
from contract.subscribers import Subscriber, envelopes, failed_deliveries, lost, reader_position, routed, served
from ringrift.bus import dead_letters
from ringrift.bus.delivery import Deliverer, Reader
from ringrift.events import data
from ringrift.events.base import Envelope, Event
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.errors import NoRoom
from ringrift.kernel.settings import BusSettings
from ringrift.kernel.stall_detector import StallDetector
from ringrift.store.ports import Delivery, Put, Store, Tx
from wait import wait_until


async def level(store: Store, name: str) -> None:
    """Wait until the reader has handled every event."""

    async def is_level() -> bool:
        return await reader_position(store, name) == store.position

    await wait_until(is_level)


def test_an_event_on_which_a_predicate_fails_is_parked(engine: Engine) -> None:
    """When a handler's predicate fails, the event is parked like any that fails, and the next one is delivered."""
    subscriber = Subscriber()

    def new_job(event: data.Lost) -> bool:
        if event.blob == "a":
            raise KeyError("no idea")
        return event.blob != "c"

    async def story(store: Store) -> list[Delivery]:
        async with routed(store) as bus:
            bus.handle(
                lambda event, envelope: isinstance(event, data.Lost) and new_job(event), subscriber.durable, name="h"
            )
            await bus.publish_many([lost(blob) for blob in "abcd"])
            await level(store, "h")
            return [*await failed_deliveries(store)]

    [parked] = engine.run(story)

    assert subscriber.received == ["b", "d"]
    assert (parked.reader, parked.position, parked.state) == ("h", 1, "parked")
    assert "no idea" in parked.error


def test_an_event_that_does_not_decode_is_parked(engine: Engine) -> None:
    """An event in the log whose bytes do not decode stops no handler and no live subscriber."""
    subscriber, live = Subscriber(), Subscriber()

    async def story(store: Store) -> list[Delivery]:
        async with routed(store) as bus:
            bus.handle(data.Lost, subscriber.durable, name="h")
            bus.subscribe(data.Lost, live.live)
            async with store.begin() as tx:
                await tx.append([envelope("bad", b'{"type":"data.lost","blob":7}', "data.lost")])
                await tx.append([envelope("new", b"{}", "future.happened")])
            await bus.publish(lost("a"))
            await level(store, "h")
            await wait_until(lambda: bool(live.received))
            return [*await failed_deliveries(store)]

    [parked] = engine.run(story)

    assert subscriber.received == live.received == ["a"]
    assert (parked.reader, parked.position, parked.state) == ("h", 1, "parked")


def test_a_handler_awaiting_a_cancelled_task_has_failed(engine: Engine) -> None:
    """A handler that awaits a task which was cancelled elsewhere has failed, and gets the next event."""

    async def await_cancelled(event: Event) -> None:
        if getattr(event, "blob", "") == "a":
            gone = asyncio.get_running_loop().create_future()
            gone.cancel()
            await gone

    subscriber = Subscriber(await_cancelled)

    async def story(store: Store) -> list[str]:
        async with routed(store) as bus:
            bus.handle(data.Lost, subscriber.durable, name="h")
            await bus.publish_many([lost("a"), lost("b")])
            await level(store, "h")
            return [row.state for row in await failed_deliveries(store)]

    assert engine.run(story) == ["parked"]
    assert subscriber.received == ["a", "b"]


def full(engine: Engine) -> None:
    """Leave no room on the lossy disk."""
    assert engine.disk is not None
    engine.disk.room = sum(len(image.content) for image in engine.disk._images.values())


@pytest.mark.parametrize("fails", [False, True])
def test_a_full_disk_is_not_the_end_of_a_handler(on_lossy: Engine, fails: bool) -> None:
    """A handler that cannot store its position continues, with the same keys, once there is room again."""
    subscriber = Subscriber()

    async def story(store: Store) -> None:
        disk = on_lossy.disk
        assert disk is not None
        async with routed(store) as bus:
            bus.handle(data.Lost, subscriber.durable, name="h")
            if fails:
                subscriber.errors["a"] = ValueError("x" * 500)
            subscriber.meanwhile = fill
            await bus.publish_many([lost("a")])
            await wait_until(lambda: len(subscriber.received) > 1 or disk.room is not None)
            with pytest.raises(NoRoom):
                await append(store, *(f"big-{number}" for number in range(100)))
            await settle()
            subscriber.meanwhile = None
            disk.room = None
            await level(store, "h")
            await bus.publish(lost("b"))
            await level(store, "h")

    async def fill(event: Event) -> None:
        full(on_lossy)

    on_lossy.run(story)

    assert subscriber.received[-1] == "b"
    assert set(subscriber.received) == {"a", "b"}
    assert len(set(subscriber.keys)) == 2


async def abandoned(store: Store) -> None:
    """A delivery of a lapsed reader, whose event is no longer in the log; and one of a reader that has not lapsed."""
    async with routed(store) as bus:
        await bus.publish_many([lost("gone"), lost("there"), lost("newest")])
    async with store.begin() as tx:
        await tx.register_reader("lapsed", 1)
        await tx.register_reader("other", 3)
        await tx.put_deliveries([delivery("lapsed", 1, pause=0.0), delivery("other", 2, pause=0.0)])
        await tx.lapse_readers([("lapsed", 1)])
        assert await tx.compact(1, 1) == 1


def test_a_delivery_without_its_event_stops_no_other(engine: Engine) -> None:
    """A delivery whose event was dropped, as it may be for a lapsed reader, keeps no other delivery from its retry."""
    clock, subscriber, none = ManualClock(), Subscriber(), Subscriber()

    async def story(store: Store) -> None:
        await abandoned(store)
        deliverer = Deliverer(store, clock, envelopes("n1", clock), BusSettings().redelivery, 10)
        readers = {"lapsed": none.reader("lapsed", data.Lost), "other": subscriber.reader("other", data.Lost)}
        await deliverer.retry_due(readers, StallDetector(), clock.tick())

    engine.run(story)

    assert (none.received, subscriber.received) == ([], ["there"])


def test_a_delivery_without_its_event_can_be_discarded(engine: Engine) -> None:
    """A person may discard such a delivery like any other."""

    async def story(store: Store) -> list[str]:
        await abandoned(store)
        await dead_letters.discard(store, envelopes("n1", ManualClock()), "lapsed", 1, "too late", 9.0)
        return [row.state for row in await failed_deliveries(store, "lapsed")]

    assert engine.run(story) == ["discarded"]


def test_a_lapsed_handler_receives_nothing(on_file: Engine) -> None:
    """A lapsed handler gets nothing, moves nothing, and does not count as a subscriber."""
    subscriber = Subscriber()

    async def story(store: Store) -> tuple[bool, int | None]:
        async with store.begin() as tx:
            await tx.register_reader("h", 0)
            await tx.lapse_readers([("h", 0)])
        async with routed(store) as bus:
            await bus.publish(lost("a"))
            bus.handle(data.Lost, subscriber.durable, name="h")
            await wait_until(lambda: not bus.has_subscribers(data.Lost))
            return bus.has_subscribers(data.Lost), await reader_position(store, "h")

    assert on_file.run(story) == (False, 0)
    assert subscriber.received == []


def test_handlers_and_subscribers_end_with_their_store(on_file: Engine) -> None:
    """When the store closes, handlers and subscribers end without logging an error, and closing is clean."""
    subscriber = Subscriber()

    async def story() -> None:
        async with on_file.open() as store, routed(store) as bus:
            bus.handle(data.Lost, subscriber.durable, name="h")
            bus.subscribe(data.Lost, subscriber.live)
            async with served(bus, subscriber.reader("r", data.Lost)):
                await bus.publish(lost("a"))
                await wait_until(lambda: len(subscriber.received) == 3)

    asyncio.run(story())

    assert subscriber.received == ["a"] * 3


def test_a_full_disk_at_a_retry_is_not_the_end_of_a_handler(on_lossy: Engine) -> None:
    """A handler that cannot store the result of a retry tries again once there is room."""
    clock, subscriber = ManualClock(), Subscriber()
    disk = on_lossy.disk
    assert disk is not None

    async def fill(event: Event) -> None:
        full(on_lossy)

    async def story(store: Store) -> list[str]:
        subscriber.errors["a"] = ValueError("not yet")
        async with routed(store, clock) as bus:
            bus.handle(data.Lost, subscriber.durable, name="h")
            await bus.publish(lost("a"))
            await level(store, "h")
            subscriber.errors = {"a": ValueError("x" * 1900)}
            subscriber.meanwhile = fill

            def later() -> bool:
                clock.seconds += 5.0
                return len(subscriber.received) > 1

            await wait_until(later)
            await settle()
            subscriber.errors, subscriber.meanwhile, disk.room = {}, None, None
            await bus.publish(lost("b"))

            async def is_done() -> bool:
                clock.seconds += 5.0
                return [row.state for row in await failed_deliveries(store)] == ["done"]

            await wait_until(is_done)
            await level(store, "h")
            return subscriber.received

    received = on_lossy.run(story)

    assert "b" in received
    assert len(set(subscriber.keys)) == 2


def test_a_source_is_not_blocked_for_ever(engine: Engine) -> None:
    """With ordered, events that waited behind another continue once that one has used up its tries."""
    clock, subscriber = ManualClock(), Subscriber()

    async def story(store: Store) -> list[str]:
        subscriber.errors["a1"] = ValueError("never")
        twice = Backoff(first_seconds=60.0, seconds_max=60.0, tries=2)
        async with routed(store, clock) as bus:
            bus.handle(data.Lost, subscriber.durable, name="h", ordered=True, retry=twice)
            await bus.publish_many([lost("a1"), lost("a2"), lost("a3")], source="a")

            def later() -> bool:
                clock.seconds += 5.0
                return len(subscriber.received) == 4

            await wait_until(later)
            await bus.publish(lost("a4"), source="a")
            await level(store, "h")

            async def are_settled() -> bool:
                return [row.state for row in await failed_deliveries(store)] == ["dead", "done", "done"]

            await wait_until(are_settled)
        return subscriber.received

    assert engine.run(story) == ["a1", "a1", "a2", "a3", "a4"]


def test_two_nodes_that_serve_one_handler_share_its_keys(engine: Engine) -> None:
    """Two nodes that serve one handler handle every event between them, twice at worst, and under one key each."""
    first, second = Subscriber(), Subscriber()

    async def story(store: Store) -> None:
        async with routed(store, batch=7) as bus, routed(store, node="n2", batch=5) as other:
            bus.handle(data.Lost, first.durable, name="h", from_start=True)
            other.handle(data.Lost, second.durable, name="h", from_start=True)
            for start in range(0, 200, 20):
                await bus.publish_many([lost(str(number)) for number in range(start, start + 20)])
            await level(store, "h")

    engine.run(story)
    pairs = {*zip(first.received, first.keys, strict=True), *zip(second.received, second.keys, strict=True)}

    assert {blob for blob, _ in pairs} == {str(number) for number in range(200)}
    assert len(pairs) == 200


def test_two_nodes_that_serve_one_reaction_have_its_effects_once(engine: Engine) -> None:
    """Two nodes that serve one reaction have each effect once between them."""

    async def react(event: Event, envelope: Envelope, tx: Tx) -> None:
        before = (await tx.get("strokes", [envelope.id])).get(envelope.id, b"")
        await tx.put([Put(kind="strokes", id=envelope.id, body=before + b"I")])

    reader = Reader(name="r", event_names=frozenset({data.Lost.name()}), react=react)

    async def story(store: Store) -> list[bytes]:
        async with (
            routed(store, batch=7) as bus,
            routed(store, node="n2", batch=5) as other,
            served(bus, reader),
            served(other, reader),
        ):
            for start in range(0, 200, 20):
                await bus.publish_many([lost(str(number)) for number in range(start, start + 20)])
            await level(store, "r")
        async with store.read() as view:
            return list((await view.scan("strokes", "", 1000)).values())

    assert engine.run(story) == [b"I"] * 200


def test_a_reader_served_twice_in_one_process_ends_both_times(on_file: Engine) -> None:
    """When a reaction is served again before the first serving has ended, both end when they are stopped."""

    async def story(store: Store) -> list[bool]:
        async with routed(store) as bus:
            reader = Subscriber().reader("r", data.Lost)
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
