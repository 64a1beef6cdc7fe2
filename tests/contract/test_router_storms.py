"""Storms: a live subscriber that falls behind gets the log late, and is told aloud of what it cannot get."""

import asyncio

import pytest

from contract.engines import Engine, settle
from contract.listeners import Ear, lost, progressed, routed
from ringrift.events import data, work
from ringrift.kernel.errors import Backpressure
from ringrift.store.ports import Store
from waiting import wait_until

NUMBERS = [str(number) for number in range(100)]


@pytest.mark.parametrize(("queue_max", "batch"), [(1, 1), (1, 10), (3, 7), (10, 3), (50, 256)])
def test_a_slow_subscriber_gets_the_whole_log(engine: Engine, queue_max: int, batch: int) -> None:
    """Who falls behind its queue gets every event of the log all the same, once and in order."""
    slow, fast = Ear(lambda event: settle()), Ear()

    async def story(store: Store) -> int:
        async with routed(store, batch=batch) as bus:
            bus.subscribe(data.Lost, slow.live, queue_max=queue_max)
            bus.subscribe(data.Lost, fast.live)
            for start in range(0, 100, 20):
                await bus.publish_many([lost(blob) for blob in NUMBERS[start : start + 20]])
            await wait_until(lambda: len(slow.heard) >= 100 and len(fast.heard) >= 100, 15)
            await settle()
            return sum(one.missed for one in bus.counts())

    assert engine.run(story) == 0
    assert slow.heard == fast.heard == NUMBERS


def test_several_at_once_catch_up_without_repeating(engine: Engine) -> None:
    """A slow subscriber that works at four events at once gets each event of the log once, too."""
    slow = Ear(lambda event: settle())

    async def story(store: Store) -> None:
        async with routed(store, batch=5) as bus:
            bus.subscribe(data.Lost, slow.live, queue_max=2, concurrency=4)
            for start in range(0, 100, 20):
                await bus.publish_many([lost(blob) for blob in NUMBERS[start : start + 20]])
            await wait_until(lambda: len(slow.heard) >= 100)
            await settle()

    engine.run(story)

    assert sorted(slow.heard, key=int) == NUMBERS


def test_what_is_in_no_log_is_missed_aloud(on_file: Engine) -> None:
    """Memory events that find no room are counted, and the subscriber is told each time; the log's still come."""
    told: list[Backpressure] = []

    async def story(store: Store) -> tuple[list[str], int]:
        go_on = asyncio.Event()
        ear = Ear(lambda event: go_on.wait())
        async with routed(store) as bus:
            bus.subscribe((work.Progressed, data.Lost), ear.live, name="slow", queue_max=2, gap=told.append)
            bus.tell(progressed("at work"))
            await wait_until(lambda: ear.heard == ["at work"])
            for number in range(5):
                bus.tell(progressed(str(number)))
            await bus.publish(lost("in the log"))
            await wait_until(lambda: bus.counts()[0].waiting == 2)
            go_on.set()
            await wait_until(lambda: "in the log" in ear.heard)
            return ear.heard, bus.counts()[0].missed

    heard, missed = on_file.run(story)

    assert heard == ["at work", "0", "1", "in the log"]
    assert missed == len(told) == 3
    assert (told[0].queue, told[0].limit) == ("the queue of slow", 2)


def test_who_fails_at_being_told_hurts_nobody(on_file: Engine) -> None:
    """A subscriber whose answer to a gap is an error harms neither the publisher nor the other subscribers."""

    def refuse(pressure: Backpressure) -> None:
        raise pressure

    async def story(store: Store) -> tuple[list[str], int]:
        ear = Ear()
        async with routed(store) as bus:
            bus.subscribe(work.Progressed, Ear(lambda event: asyncio.Event().wait()).live, queue_max=1, gap=refuse)
            bus.subscribe(work.Progressed, ear.live)
            for number in range(4):
                await bus.publish(progressed(str(number)))
            await wait_until(lambda: len(ear.heard) == 4)
            return ear.heard, bus.counts()[0].missed

    heard, missed = on_file.run(story)

    assert heard == ["0", "1", "2", "3"]
    assert missed >= 2


def test_what_was_compacted_before_a_slow_one_is_missed_aloud(engine: Engine) -> None:
    """When the log has dropped what a slow subscriber still wanted, that is counted and told, and it hears on."""
    told: list[Backpressure] = []

    async def story(store: Store) -> tuple[list[str], int]:
        go_on = asyncio.Event()
        ear = Ear(lambda event: go_on.wait())
        async with routed(store) as bus:
            bus.subscribe(data.Lost, ear.live, queue_max=1, gap=told.append)
            await bus.publish_many([lost(blob) for blob in NUMBERS[:10]])
            await wait_until(lambda: ear.heard == ["0"])
            async with store.begin() as tx:
                await tx.compact(3, 1000)
            go_on.set()
            await wait_until(lambda: ear.heard[-1] == "9")
            return ear.heard, bus.counts()[0].missed

    heard, missed = engine.run(story)

    assert heard == ["0", "7", "8", "9"]
    assert (missed > 0, len(told) > 0) == (True, True)
