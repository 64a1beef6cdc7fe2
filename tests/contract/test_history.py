"""History: the most recent events, and past events again for a durable reader."""

import asyncio
from collections.abc import Sequence

import pytest

from contract.engines import Engine, ManualClock
from contract.subscribers import Subscriber, envelopes, failed_deliveries, finished, lost, reader_position, routed
from ringrift.bus import dead_letters
from ringrift.bus.delivery import Deliverer
from ringrift.bus.router import Router
from ringrift.events import catalog, data, training
from ringrift.events.base import Envelope
from ringrift.kernel.errors import UnknownName
from ringrift.kernel.settings import BusSettings
from ringrift.kernel.stall_detector import StallDetector
from ringrift.store.ports import Store
from wait import wait_until

LOST, FINISHED = data.Lost.name(), training.Finished.name()


async def recent(store: Store, limit: int, names: tuple[str, ...] = ()) -> Sequence[Envelope]:
    """The most recent events."""
    async with store.read() as view:
        return await view.last(None, limit, names)


def subjects(envelopes: Sequence[Envelope]) -> str:
    """The subjects of *envelopes*, one character each."""
    events = [catalog.decode(envelope.name, envelope.body) for envelope in envelopes]
    return "".join(getattr(event, "blob", None) or getattr(event, "model", "?") for event in events)


async def publish_each(bus: Router, clock: ManualClock, blobs: str) -> None:
    """Publish one event each second: lower-case characters of one kind, capitals of another."""
    for blob in blobs:
        await bus.publish(finished(blob) if blob.isupper() else lost(blob))
        clock.seconds += 1.0


@pytest.mark.parametrize(
    ("limit", "names", "result"),
    [
        (3, (), "DeF"),
        (100, (), "aBcDeF"),
        (1, (), "F"),
        (2, (LOST,), "ce"),
        (100, (FINISHED,), "BDF"),
        (2, (LOST, FINISHED), "eF"),
        (5, ("no.such",), ""),
    ],
)
def test_the_most_recent_events_come_oldest_first(
    engine: Engine, limit: int, names: tuple[str, ...], result: str
) -> None:
    """The last *limit* events, of all or of some names, come in their order."""

    async def story(store: Store) -> str:
        clock = ManualClock()
        async with routed(store, clock) as bus:
            assert await recent(store, limit, names) == []
            await publish_each(bus, clock, "aBcDeF")
            return subjects(await recent(store, limit, names))

    assert engine.run(story) == result


def test_holes_in_the_log_do_not_shorten_the_recent_events(engine: Engine) -> None:
    """Where the log has holes, because details were dropped, the last *limit* of the remaining events are returned."""

    async def story(store: Store) -> str:
        clock = ManualClock()
        async with routed(store, clock) as bus:
            await publish_each(bus, clock, "abcDDDDDDDDe")
            async with store.begin() as tx:
                await tx.compact(1, 1000, (FINISHED,))
            return subjects(await recent(store, 3))

    assert engine.run(story) == "bce"


class Replayed:
    """A reader that has handled five events, and the retry of its deliveries."""

    def __init__(self, store: Store) -> None:
        self.store, self.clock, self.subscriber, self.watch = store, ManualClock(), Subscriber(), StallDetector()
        self.reader = self.subscriber.reader("r", data.Lost)
        self._envelopes = envelopes("n1", self.clock)
        self.deliverer = Deliverer(store, self.clock, self._envelopes, BusSettings().redelivery, 100)

    async def publish(self, blobs: str) -> None:
        """Publish one event for each character."""
        async with self.store.begin() as tx:
            await tx.append([self._envelopes.make(lost(blob)) for blob in blobs])

    async def take(self) -> None:
        """Deliver the new events."""
        await self.deliverer.deliver_batch(self.reader, await self.deliverer.register(self.reader))

    async def replay(self, *positions: int) -> int:
        """Replay these positions."""
        return await dead_letters.replay(self.store, "r", positions, self.clock.now())

    async def retry(self) -> dict[str, int]:
        """Retry what is due, as the daemon does."""
        tick = self.clock.tick()
        return dict(await self.deliverer.retry_due({"r": self.reader}, self.watch, tick))


def test_a_replay_delivers_its_positions_once_more(engine: Engine) -> None:
    """Replayed positions run once each at the next retry, and the reader's position stays."""

    async def story(store: Store) -> tuple[int, list[dict[str, int]], str, int | None]:
        post = Replayed(store)
        await post.publish("abcde")
        await post.take()
        position = await reader_position(store, "r")
        parked = await post.replay(2, 4)
        tried = [await post.retry(), await post.retry()]
        post.clock.seconds += 1e6
        tried.append(await post.retry())
        assert await reader_position(store, "r") == position
        return parked, tried, "".join(post.subscriber.received), position

    assert engine.run(story) == (2, [{"done": 2}, {}, {}], "abcdebd", 5)


def test_a_replay_skips_positions_that_are_still_pending(engine: Engine) -> None:
    """Events after the reader's position are delivered once, in their turn; parked deliveries stay as they are."""

    async def story(store: Store) -> tuple[list[int], str, list[tuple[int, str]]]:
        post = Replayed(store)
        await post.publish("ab")
        post.subscriber.errors["b"] = ValueError("not yet")
        await post.take()
        await post.publish("cd")
        before = [*await failed_deliveries(store)]
        parked = [await post.replay(2), await post.replay(4, 5), await post.replay()]
        assert [*await failed_deliveries(store)] == before
        parked += [await post.replay(1, 1, 2)]
        post.subscriber.received.clear()
        await post.retry()
        await post.take()
        return (
            parked,
            "".join(post.subscriber.received),
            [(row.position, row.state) for row in await failed_deliveries(store)],
        )

    assert engine.run(story) == ([0, 0, 0, 1], "acd", [(1, "done"), (2, "parked")])


def test_a_replay_that_fails_is_parked_like_any_delivery(engine: Engine) -> None:
    """An event that fails when it is replayed has its five tries and pauses, and is counted as pending."""

    async def story(store: Store) -> tuple[dict[str, int], list[tuple[str, int, float]], dict[str, int]]:
        post = Replayed(store)
        await post.publish("ab")
        await post.take()
        post.subscriber.errors["a"] = ValueError("not again")
        await post.replay(1)
        tried = await post.retry()
        result = [(row.state, row.attempts, row.pause) for row in await failed_deliveries(store)]
        return tried, result, await dead_letters.stats(store)

    tried, result, counts = engine.run(story)

    assert (tried, result) == ({"parked": 1}, [("parked", 1, 60.0)])
    assert counts == {"pending": 1, "recovered": 0, "abandoned": 0, "discarded": 0}


def test_a_recovered_delivery_can_be_replayed(engine: Engine) -> None:
    """A delivery that once failed and was recovered is replayed like one that never did."""

    async def story(store: Store) -> tuple[int, str]:
        post = Replayed(store)
        await post.publish("a")
        post.subscriber.errors["a"] = ValueError("not yet")
        await post.take()
        await post.retry()
        post.subscriber.errors.clear()
        post.clock.seconds += 60.0
        await post.retry()
        post.subscriber.received.clear()
        parked = await post.replay(1)
        await post.retry()
        await post.retry()
        return parked, "".join(post.subscriber.received)

    assert engine.run(story) == (1, "a")


def test_positions_dropped_from_the_log_are_not_replayed(engine: Engine) -> None:
    """A position that is no longer in the log, or never was, is skipped, and the others run."""

    async def story(store: Store) -> tuple[int, dict[str, int], str]:
        post = Replayed(store)
        await post.publish("abcd")
        await post.take()
        async with store.begin() as tx:
            await tx.compact(2, 1000)
        post.subscriber.received.clear()
        return await post.replay(0, 1, 3), await post.retry(), "".join(post.subscriber.received)

    assert engine.run(story) == (1, {"done": 1}, "c")


def test_a_handler_replays_too(engine: Engine) -> None:
    """A replayed event is delivered by the handler's own loop, with the key it had before."""
    subscriber, clock = Subscriber(), ManualClock()

    async def story(store: Store) -> None:
        async with routed(store, clock) as bus:
            bus.handle(data.Lost, subscriber.durable, name="h")
            await bus.publish_many([lost(blob) for blob in "abc"])
            await wait_until(lambda: len(subscriber.received) == 3)

            async def is_level() -> bool:
                return await reader_position(store, "h") == 3

            await wait_until(is_level)
            assert await dead_letters.replay(store, "h", [2], clock.now()) == 1
            clock.seconds += 1.0
            await wait_until(lambda: len(subscriber.received) > 3)
            await asyncio.sleep(0)

    engine.run(story)

    assert subscriber.received == ["a", "b", "c", "b"]
    assert subscriber.keys[3] == subscriber.keys[1]


def test_a_replay_for_an_unknown_reader_is_refused(engine: Engine) -> None:
    """An unknown reader is refused by name."""

    async def story(store: Store) -> list[str]:
        post = Replayed(store)
        await post.publish("a")
        await post.take()
        with pytest.raises(UnknownName, match="unknown"):
            await dead_letters.replay(store, "unknown", [1], 0.0)
        return [row.state for row in await failed_deliveries(store)]

    assert engine.run(story) == []
