"""Durable handlers: every event at least once with one key, over restarts, failures and time limits."""

import asyncio
import threading

import pytest

from contract.engines import Engine, ManualClock, settle
from contract.subscribers import Subscriber, failed_deliveries, finished, log, lost, reader_position, routed
from ringrift.events import data, delivery
from ringrift.events.base import Envelope, Event
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.errors import Discard, InputError, Retry
from ringrift.store.ports import Delivery, Store
from wait import wait_until

SOON = Backoff(first_seconds=60.0, seconds_max=3600.0, tries=5)


async def level(store: Store, name: str) -> None:
    """Wait until the handler has handled every event."""

    async def is_level() -> bool:
        return await reader_position(store, name) == store.position

    await wait_until(is_level)


async def settled(store: Store, clock: ManualClock, *states: str) -> list[Delivery]:
    """Advance the clock until the deliveries have these states."""

    async def are() -> bool:
        clock.seconds += 5.0
        return [row.state for row in await failed_deliveries(store)] == list(states)

    await wait_until(are, 10)
    return [*await failed_deliveries(store)]


def test_a_handler_continues_where_it_stopped(engine: Engine) -> None:
    """A handler under the same name gets the events published while it was away, and none that it had before."""
    first, second = Subscriber(), Subscriber()

    async def story(store: Store) -> None:
        async with routed(store) as bus:
            await bus.publish(lost("before it was"))
            bus.handle(data.Lost, first.durable, name="h")
            await bus.publish_many([lost("a"), finished("no"), lost("b")])
            await level(store, "h")
        async with routed(store, node="n2") as bus:
            await bus.publish_many([lost("c"), lost("d")])
        async with routed(store, node="n3") as bus:
            bus.handle(data.Lost, second.durable, name="h")
            await bus.publish(lost("e"))
            await level(store, "h")

    engine.run(story)

    assert (first.received, second.received) == (["a", "b"], ["c", "d", "e"])


def test_a_handler_may_begin_at_the_beginning(engine: Engine) -> None:
    """A new handler with from_start gets the whole log, but only the first time."""
    subscriber = Subscriber()

    async def story(store: Store) -> None:
        for blobs in ("ab", "c"):
            async with routed(store, batch=2) as bus:
                await bus.publish_many([lost(blob) for blob in blobs])
                bus.handle(data.Lost, subscriber.durable, name="h", from_start=True)
                await level(store, "h")

    engine.run(story)

    assert subscriber.received == ["a", "b", "c"]


def test_an_interrupted_delivery_is_repeated_under_its_key(engine: Engine) -> None:
    """A handler that ends in the middle of an event gets it again with the same key; no two events share one."""
    first, second = Subscriber(), Subscriber()

    async def story(store: Store) -> None:
        never = asyncio.Event()

        async def hang(event: Event) -> None:
            if getattr(event, "blob", "") == "b":
                await never.wait()

        first.meanwhile = hang
        async with routed(store) as bus:
            bus.handle(data.Lost, first.durable, name="h")
            await bus.publish_many([lost("a"), lost("b"), lost("c")])
            await wait_until(lambda: first.received == ["a", "b"])
        async with routed(store, node="n2") as bus:
            bus.handle(data.Lost, second.durable, name="h")
            await level(store, "h")

    engine.run(story)
    keys = dict(zip(second.received, second.keys, strict=True))

    assert second.received[-2:] == ["b", "c"]
    assert first.keys[1] == keys["b"]
    assert len(set(keys.values())) == len(keys)
    assert all(dict(zip(first.received, first.keys, strict=True)).get(blob, key) == key for blob, key in keys.items())


def test_keys_of_two_handlers_differ(engine: Engine) -> None:
    """A key names the handler and the event, so that two handlers may store their keys together."""
    first, second = Subscriber(), Subscriber()

    async def story(store: Store) -> None:
        async with routed(store) as bus:
            bus.handle(data.Lost, first.durable, name="one")
            bus.handle(data.Lost, second.durable, name="two")
            await bus.publish_many([lost("a"), lost("b")])
            await wait_until(lambda: len(first.keys) == len(second.keys) == 2)

    engine.run(story)

    assert len({*first.keys, *second.keys}) == 4


def test_an_event_on_which_a_handler_hangs_is_parked(on_file: Engine) -> None:
    """A handler that exceeds its time is ended, the event is parked with that reason, and the next one is delivered."""
    subscriber = Subscriber()

    async def story(store: Store) -> tuple[Delivery, ...]:
        never = asyncio.Event()

        async def hang(event: Event) -> None:
            if getattr(event, "blob", "") == "a":
                await never.wait()

        subscriber.meanwhile = hang
        async with routed(store) as bus:
            bus.handle(data.Lost, subscriber.durable, name="h", timeout_seconds=0.1)
            await bus.publish_many([lost("a"), lost("b")])
            await level(store, "h")
        return tuple(await failed_deliveries(store))

    [parked] = on_file.run(story)

    assert subscriber.received == ["a", "b"]
    assert (parked.state, parked.attempts, parked.pause) == ("parked", 1, 60.0)
    assert parked.error.endswith("TimedOut: h took longer than 0.1 s and was cancelled: shorten it or raise its limit")


def test_a_parked_event_is_retried_after_its_pause(engine: Engine) -> None:
    """A handler's own loop retries a parked event after its pause, alone, under its key, and publishes the result."""
    clock, subscriber, tried = ManualClock(), Subscriber(), list[float]()

    async def note(event: Event) -> None:
        if getattr(event, "blob", "") == "b":
            tried.append(clock.seconds)
            if len(tried) == 3:
                subscriber.errors.clear()

    subscriber.meanwhile = note

    async def story(store: Store) -> tuple[list[Delivery], list[str], list[str]]:
        subscriber.errors["b"] = ValueError("not yet")
        async with routed(store, clock) as bus:
            bus.handle(data.Lost, subscriber.durable, name="h", retry=SOON)
            await bus.publish_many([lost(blob) for blob in "abc"])
            await level(store, "h")
            meanwhile = [*subscriber.received]
            result = await settled(store, clock, "done")
            published = [envelope for envelope in await log(store) if envelope.name == delivery.Changed.name()]
            return result, meanwhile, [envelope.body.decode() for envelope in published]

    [done], meanwhile, published = engine.run(story)

    assert meanwhile == ["a", "b", "c"]
    assert subscriber.received == ["a", "b", "c", "b", "b"]
    assert len(set(subscriber.keys)) == 3
    assert tried[1] - tried[0] >= 60.0
    assert tried[2] - tried[1] >= 120.0
    assert (done.state, done.attempts) == ("done", 3)
    assert [state for body in published for state in ("parked", "done") if f'"{state}"' in body] == [
        "parked",
        "parked",
        "done",
    ]


def test_a_parked_delivery_outlives_its_handler(engine: Engine) -> None:
    """A delivery parked before a restart is retried after it, when its pause is over on the new process's clock."""
    clock, subscriber = ManualClock(), Subscriber()

    async def story(store: Store) -> tuple[list[str], list[Delivery]]:
        subscriber.errors["a"] = ValueError("not yet")
        async with routed(store, clock) as bus:
            bus.handle(data.Lost, subscriber.durable, name="h")
            await bus.publish(lost("a"))
            await level(store, "h")
        subscriber.errors.clear()
        async with routed(store, clock, "n2") as bus:
            bus.handle(data.Lost, subscriber.durable, name="h")
            await bus.publish(lost("b"))
            await level(store, "h")
            early = [*subscriber.received]
            return early, await settled(store, clock, "done")

    early, _ = engine.run(story)

    assert early == ["a", "b"]
    assert subscriber.received == ["a", "b", "a"]
    assert subscriber.keys[0] == subscriber.keys[2]


@pytest.mark.parametrize(
    ("error", "state", "pause"),
    [(Retry(after=5.0), "parked", 5.0), (Discard("not ours"), "discarded", 0.0), (KeyError("x"), "parked", 60.0)],
)
def test_a_handler_chooses_retry_or_discard_by_its_error(
    engine: Engine, error: Exception, state: str, pause: float
) -> None:
    """Retry, Discard and other errors mean for a handler what they mean for a reaction."""

    async def story(store: Store) -> tuple[Delivery, ...]:
        subscriber = Subscriber()
        subscriber.errors["a"] = error
        async with routed(store) as bus:
            bus.handle(data.Lost, subscriber.durable, name="h")
            await bus.publish(lost("a"))
            await level(store, "h")
        return tuple(await failed_deliveries(store))

    [result] = engine.run(story)

    assert (result.state, result.pause, result.attempts) == (state, pause, 1)


def test_order_is_kept_within_a_source(engine: Engine) -> None:
    """With ordered, events from the source of a parked event wait behind it; those of other sources do not."""
    clock, subscriber = ManualClock(), Subscriber()

    async def story(store: Store) -> tuple[list[str], list[str], set[str]]:
        subscriber.errors["a1"] = ValueError("not yet")
        async with routed(store, clock) as bus, routed(store, clock, "n2") as other:
            bus.handle(data.Lost, subscriber.durable, name="h", ordered=True)
            for number in (1, 2, 3):
                await bus.publish(lost(f"a{number}"), source="a")
                await bus.publish(lost(f"b{number}"), source="b")
                await other.publish(lost(f"c{number}"), source="a")
            await level(store, "h")
            meanwhile = [*subscriber.received]
            parked = {row.state for row in await failed_deliveries(store)}
            subscriber.errors.clear()
            await settled(store, clock, "done", "done", "done")
            await bus.publish(lost("a4"), source="a")
            await level(store, "h")
            return meanwhile, subscriber.received[len(meanwhile) :], parked

    meanwhile, later, parked = engine.run(story)

    assert meanwhile == ["a1", "b1", "c1", "b2", "c2", "b3", "c3"]
    assert parked == {"parked"}
    assert later == ["a1", "a2", "a3", "a4"]


def test_order_is_kept_over_a_restart(engine: Engine) -> None:
    """A restarted handler still holds new events back behind those that were parked before."""
    clock, subscriber = ManualClock(), Subscriber()

    async def story(store: Store) -> list[str]:
        subscriber.errors["a1"] = ValueError("not yet")
        async with routed(store, clock) as bus:
            bus.handle(data.Lost, subscriber.durable, name="h", ordered=True)
            await bus.publish_many([lost("a1"), lost("a2")], source="a")
            await level(store, "h")
        async with routed(store, clock) as bus:
            bus.handle(data.Lost, subscriber.durable, name="h", ordered=True)
            await bus.publish(lost("a3"), source="a")
            await level(store, "h")
            meanwhile = [*subscriber.received]
            subscriber.errors.clear()
            await settled(store, clock, "done", "done", "done")
            return meanwhile

    assert engine.run(story) == ["a1"]
    assert subscriber.received == ["a1", "a1", "a2", "a3"]


def test_many_waiting_events_follow_in_order_and_soon(on_file: Engine) -> None:
    """Hundreds of events behind a parked one follow it in order, without reading all of them for each."""
    clock, subscriber = ManualClock(), Subscriber()
    many = [f"a{number}" for number in range(400)]

    async def story(store: Store) -> None:
        subscriber.errors["a0"] = ValueError("not yet")
        async with routed(store, clock) as bus:
            bus.handle(data.Lost, subscriber.durable, name="h", ordered=True)
            await bus.publish_many([lost(blob) for blob in many], source="a")
            await level(store, "h")
            subscriber.errors.clear()
            await settled(store, clock, *["done"] * 400)

    on_file.run(story)

    assert subscriber.received == ["a0", *many]


def test_a_handler_may_handle_several_events_at_once(on_file: Engine) -> None:
    """With a concurrency of four, four events are handled at once, and the position moves when all have ended."""

    async def story(store: Store) -> tuple[list[str], int | None]:
        go_on = asyncio.Event()
        subscriber = Subscriber(lambda event: go_on.wait())
        async with routed(store) as bus:
            bus.handle(data.Lost, subscriber.durable, name="h", concurrency=4)
            await bus.publish_many([lost(str(number)) for number in range(10)])
            await wait_until(lambda: len(subscriber.received) == 4)
            await settle()
            meanwhile, position = [*subscriber.received], await reader_position(store, "h")
            go_on.set()
            await level(store, "h")
            assert sorted(subscriber.received) == [str(number) for number in range(10)]
            return meanwhile, position

    assert on_file.run(story) == (["0", "1", "2", "3"], 0)


def test_a_plain_function_may_handle(on_file: Engine) -> None:
    """A plain function is called in a thread with event, envelope and key, and its failures are parked, too."""
    calls: list[tuple[str, str, bool]] = []

    def handle(event: Event, envelope: Envelope, key: str) -> None:
        assert isinstance(event, data.Lost)
        calls.append((event.blob, key, threading.current_thread() is threading.main_thread()))
        if event.blob == "b":
            raise ValueError("no b today")

    async def story(store: Store) -> tuple[Delivery, ...]:
        async with routed(store) as bus:
            bus.handle(data.Lost, handle, name="h")
            await bus.publish_many([lost(blob) for blob in "abc"])
            await level(store, "h")
        return tuple(await failed_deliveries(store))

    [parked] = on_file.run(story)

    assert [(blob, on_loop) for blob, _, on_loop in calls] == [("a", False), ("b", False), ("c", False)]
    assert parked.error == "ValueError: no b today"


def test_a_name_has_one_handler(on_file: Engine) -> None:
    """A second handler of one name is refused, as is an invalid name; the first one still exists."""

    async def story(store: Store) -> list[str]:
        subscriber = Subscriber()
        async with routed(store) as bus:
            bus.handle(data.Lost, subscriber.durable, name="h")
            for name in ("h", "", "no name", "a/b"):
                with pytest.raises(InputError):
                    bus.handle(data.Lost, Subscriber().durable, name=name)
            await bus.publish(lost("a"))
            await level(store, "h")
        return subscriber.received

    assert on_file.run(story) == ["a"]


def test_unsubscribing_keeps_the_position(engine: Engine) -> None:
    """A handler that is ended by its name receives nothing more, and later events wait for it."""
    subscriber, again = Subscriber(), Subscriber()

    async def story(store: Store) -> list[str]:
        async with routed(store) as bus:
            bus.handle(data.Lost, subscriber.durable, name="h")
            await bus.publish(lost("a"))
            await level(store, "h")
            await bus.unsubscribe("h")
            await bus.publish(lost("b"))
            await settle()
            meanwhile = [*subscriber.received]
            bus.handle(data.Lost, again.durable, name="h")
            await level(store, "h")
            return meanwhile

    assert engine.run(story) == ["a"]
    assert again.received == ["b"]
