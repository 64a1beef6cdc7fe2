"""Storms: a live subscriber that falls behind gets the log late, and is notified of events that it cannot get."""

import asyncio

import pytest

from contract.engines import Engine, settle
from contract.subscribers import Subscriber, lost, progressed, routed
from ringrift.events import data, work
from ringrift.kernel.errors import Backpressure
from ringrift.store.ports import Store
from wait import wait_until

NUMBERS = [str(number) for number in range(100)]


@pytest.mark.parametrize(("queue_max", "batch"), [(1, 1), (1, 10), (3, 7), (10, 3), (50, 256)])
def test_a_slow_subscriber_gets_the_whole_log(engine: Engine, queue_max: int, batch: int) -> None:
    """A subscriber that falls behind its queue still gets every event of the log, once and in order."""
    slow, fast = Subscriber(lambda event: settle()), Subscriber()

    async def story(store: Store) -> int:
        async with routed(store, batch=batch) as bus:
            bus.subscribe(data.Lost, slow.live, queue_max=queue_max)
            bus.subscribe(data.Lost, fast.live)
            for start in range(0, 100, 20):
                await bus.publish_many([lost(blob) for blob in NUMBERS[start : start + 20]])
            await wait_until(lambda: len(slow.received) >= 100 and len(fast.received) >= 100, 15)
            await settle()
            return sum(subscription.missed for subscription in bus.subscriptions)

    assert engine.run(story) == 0
    assert slow.received == fast.received == NUMBERS


def test_a_concurrent_subscriber_catches_up_without_repeating(engine: Engine) -> None:
    """A slow subscriber that handles four events at once gets each event of the log once, too."""
    slow = Subscriber(lambda event: settle())

    async def story(store: Store) -> None:
        async with routed(store, batch=5) as bus:
            bus.subscribe(data.Lost, slow.live, queue_max=2, concurrency=4)
            for start in range(0, 100, 20):
                await bus.publish_many([lost(blob) for blob in NUMBERS[start : start + 20]])
            await wait_until(lambda: len(slow.received) >= 100)
            await settle()

    engine.run(story)

    assert sorted(slow.received, key=int) == NUMBERS


def test_dropped_memory_events_are_counted_and_reported(on_file: Engine) -> None:
    """Memory events without room are counted, and the subscriber is notified each time; logged events still arrive."""
    published: list[Backpressure] = []

    async def story(store: Store) -> tuple[list[str], int]:
        go_on = asyncio.Event()
        subscriber = Subscriber(lambda event: go_on.wait())
        async with routed(store) as bus:
            bus.subscribe(
                (work.Progressed, data.Lost), subscriber.live, name="slow", queue_max=2, on_gap=published.append
            )
            bus.publish_memory(progressed("at work"))
            await wait_until(lambda: subscriber.received == ["at work"])
            for number in range(5):
                bus.publish_memory(progressed(str(number)))
            await bus.publish(lost("in the log"))
            await wait_until(lambda: bus.subscriptions[0].waiting == 2)
            go_on.set()
            await wait_until(lambda: "in the log" in subscriber.received)
            return subscriber.received, bus.subscriptions[0].missed

    received, missed = on_file.run(story)

    assert received == ["at work", "0", "1", "in the log"]
    assert missed == len(published) == 3
    assert (published[0].queue, published[0].limit) == ("the queue of slow", 2)


def test_a_subscriber_that_fails_on_a_gap_harms_no_other(on_file: Engine) -> None:
    """A subscriber that raises an error when notified of a gap harms neither the publisher nor other subscribers."""

    def refuse(pressure: Backpressure) -> None:
        raise pressure

    async def story(store: Store) -> tuple[list[str], int]:
        subscriber = Subscriber()
        async with routed(store) as bus:
            bus.subscribe(
                work.Progressed, Subscriber(lambda event: asyncio.Event().wait()).live, queue_max=1, on_gap=refuse
            )
            bus.subscribe(work.Progressed, subscriber.live)
            for number in range(4):
                await bus.publish(progressed(str(number)))
            await wait_until(lambda: len(subscriber.received) == 4)
            return subscriber.received, bus.subscriptions[0].missed

    received, missed = on_file.run(story)

    assert received == ["0", "1", "2", "3"]
    assert missed >= 2


def test_events_compacted_before_a_slow_subscriber_are_counted_and_reported(engine: Engine) -> None:
    """When the log has dropped events before a slow subscriber, that is counted and reported, and it continues."""
    published: list[Backpressure] = []

    async def story(store: Store) -> tuple[list[str], int]:
        go_on = asyncio.Event()
        subscriber = Subscriber(lambda event: go_on.wait())
        async with routed(store) as bus:
            bus.subscribe(data.Lost, subscriber.live, queue_max=1, on_gap=published.append)
            await bus.publish_many([lost(blob) for blob in NUMBERS[:10]])
            await wait_until(lambda: subscriber.received == ["0"])
            async with store.begin() as tx:
                await tx.compact(3, 1000)
            go_on.set()
            await wait_until(lambda: subscriber.received[-1] == "9")
            return subscriber.received, bus.subscriptions[0].missed

    received, missed = engine.run(story)

    assert received == ["0", "7", "8", "9"]
    assert (missed > 0, len(published) > 0) == (True, True)
