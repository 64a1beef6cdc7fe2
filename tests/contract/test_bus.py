"""The router: a published event is durable when publish returns, is stored whole or refused, and is views in order."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from random import Random
from typing import Any

import pytest

from contract.engines import Engine, ManualClock, envelope, logged
from ringrift.bus.delivery import Reader
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.bus.router import Router
from ringrift.events import catalog, data, training
from ringrift.events.base import Envelope, Event
from ringrift.events.catalog import SIZE_MAX
from ringrift.kernel.errors import IdConflict, InputError, InvalidId, InvalidPayload, TooLarge
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import BusSettings
from ringrift.store.follow import follow
from ringrift.store.ports import Put, Store, Tx
from wait import wait_until


def router(store: Store, **bus: Any) -> Router:
    """The router of one node."""
    clock = ManualClock()
    return Router(
        store, clock, EnvelopeFactory("n1", clock, Ids(clock, Random(7))), BusSettings(**{"poll_seconds": 0.01} | bus)
    )


def lost(blob: str) -> data.Lost:
    """An event with a name."""
    return data.Lost(variant="v", blob=blob, reason="gone")


def finished(**changes: Any) -> training.Finished:
    """An event with numbers."""
    return training.Finished(**{"variant": "v", "model": "m", "generation": 1, "node": "n"} | changes)


def names(envelopes: Sequence[Envelope]) -> list[str]:
    """The blobs that the events in *envelopes* are about."""
    events = [catalog.decode(envelope.name, envelope.body) for envelope in envelopes]
    return [event.blob for event in events if isinstance(event, data.Lost)]


def test_a_published_event_is_in_the_log(engine: Engine) -> None:
    """Publishing returns the envelope as the log has it: position, node, source, and a trace of its own."""

    async def story(store: Store) -> tuple[Envelope, Sequence[Envelope]]:
        published = await router(store).publish(lost("a"), source="test")
        async with store.read() as view:
            return published, await view.read(0, 9)

    published, result = engine.run(story)

    assert list(result) == [published]
    assert catalog.decode(published.name, published.body) == lost("a")
    assert (published.node, published.source, published.cause) == ("n1", "test", "")
    assert published.correlation == published.id
    assert re.fullmatch("[0-9a-f]{32}", published.trace)


def test_publishing_again_under_one_id_is_once(engine: Engine) -> None:
    """The same id and body return the first envelope; another body is refused, and the first one stays."""

    async def story(store: Store) -> tuple[bool, list[str]]:
        bus = router(store)
        first = await bus.publish(lost("a"), id="one")
        again = await bus.publish(lost("a"), id="one")
        with pytest.raises(IdConflict):
            await bus.publish(lost("b"), id="one")
        async with store.read() as view:
            return again == first, names(await view.read(0, 9))

    assert engine.run(story) == (True, ["a"])


@pytest.mark.parametrize("id", ["", "a b", "a\r\nb", "x" * 65, "ü", "a/b"])
def test_a_malformed_id_is_refused(engine: Engine, id: str) -> None:
    """An id with other characters or another length is refused, and nothing is appended."""

    async def story(store: Store) -> list[str]:
        with pytest.raises(InvalidId):
            await router(store).publish(lost("a"), id=id)
        return await logged(store)

    assert engine.run(story) == []


def test_many_events_keep_their_order(engine: Engine) -> None:
    """Events that are published together are adjacent in the log, in their order."""

    async def story(store: Store) -> tuple[list[int], list[str]]:
        published = await router(store).publish_many([lost(blob) for blob in "cab"])
        async with store.read() as view:
            return [envelope.position for envelope in published], names(await view.read(0, 9))

    positions, blobs = engine.run(story)

    assert positions == sorted(set(positions))
    assert blobs == ["c", "a", "b"]


BAD: dict[str, tuple[Event, type[InputError]]] = {
    "nan": (finished(metrics={"loss": float("nan")}), InvalidPayload),
    "infinity": (finished(metrics={"loss": float("inf")}), InvalidPayload),
    "nan-in-a-plain-field": (finished(generation=float("nan")), InvalidPayload),
    "surrogate": (lost("\ud800"), InvalidPayload),
    "surrogate-in-a-key": (finished(metrics={"\udfff": 1.0}), InvalidPayload),
    "too-large": (lost("x" * SIZE_MAX), TooLarge),
}


async def publish(bus: Router, event: Event) -> object:
    """Publish one event."""
    return await bus.publish(event)


async def publish_many(bus: Router, event: Event) -> object:
    """Publish it between two valid ones, as one batch."""
    return await bus.publish_many([lost("a"), event, lost("b")])


async def post(bus: Router, event: Event) -> object:
    """Publish from a thread."""
    return await asyncio.to_thread(lambda: bus.post(event).result(10))


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("door", [publish, publish_many, post])
def test_an_event_that_cannot_be_encoded_is_refused(
    engine: Engine, door: Callable[[Router, Event], Awaitable[object]], case: str
) -> None:
    """An event that JSON cannot carry, or that is too large, is refused by a typed error and nothing is appended."""
    event, error = BAD[case]

    async def story(store: Store) -> list[str]:
        with pytest.raises(error):
            await door(router(store), event)
        return await logged(store)

    assert engine.run(story) == []


def test_an_event_of_the_greatest_size_is_accepted(engine: Engine) -> None:
    """The limit itself is still allowed."""
    room = SIZE_MAX - len(catalog.encode(lost("")))

    async def story(store: Store) -> int:
        return len((await router(store).publish(lost("x" * room))).body)

    assert engine.run(story) == SIZE_MAX


def test_threads_have_a_door_of_their_own(engine: Engine) -> None:
    """A thread's post is accepted at once, and its future is done when the event is durable."""

    async def story(store: Store) -> tuple[set[str], list[str]]:
        bus = router(store)

        def many(thread: int) -> list[Envelope]:
            futures = [bus.post(lost(f"{thread}-{number}")) for number in range(10)]
            return [future.result(10) for future in futures]

        published = await asyncio.gather(*(asyncio.to_thread(many, thread) for thread in range(4)))
        return {envelope.id for envelopes in published for envelope in envelopes}, await logged(store)

    published, there = engine.run(story)

    assert len(there) == 40
    assert published == set(there)


async def take(stream: AsyncIterator[Envelope], count: int) -> list[Envelope]:
    """The next *count* events of a stream."""
    return [await anext(stream) for _ in range(count)]


def test_a_live_view_begins_now_or_at_a_position(engine: Engine) -> None:
    """A live view yields events that become durable from now on, or from a position on, and only of its names."""

    async def story(store: Store) -> list[list[str]]:
        bus = router(store, batch=2)
        early = await bus.publish_many([lost(blob) for blob in "abc"])
        lost_only = follow(store, early[1].position, names=(data.Lost.name(),), page=2)
        streams = [follow(store, store.position, page=2), follow(store, 0, page=2), lost_only]
        looking = [asyncio.create_task(take(stream, count)) for stream, count in zip(streams, (3, 6, 3), strict=True)]
        await asyncio.sleep(0)
        await bus.publish_many([lost("d"), finished(), lost("e")])
        result = [names(await look) for look in looking]
        for stream in streams:
            await stream.aclose()
        return result

    assert engine.run(story) == [["d", "e"], ["a", "b", "c", "d", "e"], ["c", "d", "e"]]


def test_a_slow_view_delays_no_publisher_and_no_other_view(engine: Engine) -> None:
    """A view that is not read delays neither publishers nor other views, and misses nothing."""

    async def story(store: Store) -> tuple[list[str], list[str]]:
        bus = router(store, batch=3)
        slow, fast = follow(store, 0, page=3), follow(store, 0, page=3)
        await bus.publish(lost("0"))
        first = await take(slow, 1)
        for number in range(1, 20):
            await bus.publish(lost(str(number)))
        views = names(await take(fast, 20)), names([*first, *await take(slow, 19)])
        for stream in (slow, fast):
            await stream.aclose()
        return views

    fast, slow = engine.run(story)

    assert fast == slow == [str(number) for number in range(20)]


class Served:
    """A reader that records its events, and may hold its role or not."""

    def __init__(self) -> None:
        self.got: list[str] = []
        self.holds, self.progress = True, 0
        self.reader = Reader(name="served", event_names=frozenset({data.Lost.name()}), react=self.react)

    async def react(self, event: Event, envelope: Envelope, tx: Tx) -> None:
        """Record the event here, where it stays, and in the transaction, where it may be undone."""
        assert isinstance(event, data.Lost)
        self.got.append(event.blob)
        before = (await tx.get("got", [event.blob])).get(event.blob, b"")
        await tx.put([Put(kind="got", id=event.blob, body=before + b"I")])

    def alive(self) -> None:
        """Count the progress reports."""
        self.progress += 1


def test_a_served_reader_gets_past_and_new_events(engine: Engine) -> None:
    """Serving starts at the reader's position, continues with new events, and reports progress while it waits."""

    async def story(store: Store) -> tuple[list[str], bool, dict[str, int], int]:
        bus, served = router(store, batch=2), Served()
        await bus.publish_many([lost("a"), finished(), lost("b"), lost("c")])
        serving = asyncio.create_task(bus.serve(served.reader, served.alive, lambda: served.holds))
        await wait_until(lambda: len(served.got) == 3)
        last = await bus.publish(lost("d"))
        await wait_until(lambda: len(served.got) == 4)
        before = served.progress
        await wait_until(lambda: served.progress > before)
        serving.cancel()
        await asyncio.wait((serving,))
        async with store.read() as view:
            return served.got, serving.cancelled(), dict(await view.positions()), last.position

    got, cancelled, positions, last = engine.run(story)

    assert got == ["a", "b", "c", "d"]
    assert (cancelled, positions) == (True, {"served": last})


def test_a_reader_without_its_role_waits(engine: Engine) -> None:
    """While another node holds the role nothing is delivered; when it returns, every event is, once."""

    async def story(store: Store) -> tuple[list[str], list[str]]:
        bus, served = router(store), Served()
        served.holds = False
        serving = asyncio.create_task(bus.serve(served.reader, served.alive, lambda: served.holds))
        await bus.publish_many([lost("a"), lost("b")])
        await wait_until(lambda: served.progress > 3)
        without = [*served.got]
        served.holds = True
        await wait_until(lambda: len(served.got) == 2)
        serving.cancel()
        await asyncio.wait((serving,))
        return without, served.got

    assert engine.run(story) == ([], ["a", "b"])


def test_an_overtaken_reader_continues_from_its_new_position(engine: Engine) -> None:
    """When another process has moved the reader, serving continues after that position, and no effect happens twice."""

    async def story(store: Store) -> dict[str, bytes]:
        bus, served = router(store), Served()
        serving = asyncio.create_task(bus.serve(served.reader, served.alive, lambda: served.holds))
        first = await bus.publish(lost("a"))
        await wait_until(lambda: served.got == ["a"])
        served.holds = False
        before = served.progress
        await wait_until(lambda: served.progress > before + 1)
        skipped = await bus.publish(lost("skipped"))
        async with store.begin() as tx:
            await tx.advance("served", first.position, skipped.position)
            await tx.append([envelope("of-no-interest")])
        served.holds = True
        await bus.publish(lost("b"))
        await wait_until(lambda: served.got[-1:] == ["b"] and served.progress > before + 5)
        delivered = served.progress
        await wait_until(lambda: served.progress > delivered + 1)  # its transaction has ended
        serving.cancel()
        await asyncio.wait((serving,))
        async with store.read() as view:
            return dict(await view.get("got", ["a", "b", "skipped"]))

    assert engine.run(story) == {"a": b"I", "b": b"I"}
