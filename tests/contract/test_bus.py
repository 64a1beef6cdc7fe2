"""The router: what is published is durable when it returns, refused whole or kept whole, and seen live in order."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from random import Random
from typing import Any

import pytest

from contract.engines import Engine, HandClock, envelope, logged
from ringrift.bus.delivery import Reader
from ringrift.bus.router import Router
from ringrift.bus.scribe import Scribe
from ringrift.events import catalog, data, training
from ringrift.events.base import Envelope, Event
from ringrift.events.edge import SIZE_MAX
from ringrift.kernel.errors import IdConflict, InputError, InvalidId, InvalidPayload, TooLarge
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import BusSettings
from ringrift.store.ports import Put, Store, Tx
from waiting import wait_until


def router(store: Store, **bus: Any) -> Router:
    """The router of one node."""
    clock = HandClock()
    return Router(store, clock, Scribe("n1", clock, Ids(clock, Random(7))), BusSettings(**{"poll_seconds": 0.01} | bus))


def lost(blob: str) -> data.Lost:
    """An event with a name."""
    return data.Lost(variant="v", blob=blob, reason="gone")


def finished(**changes: Any) -> training.Finished:
    """An event with numbers."""
    return training.Finished(**{"variant": "v", "model": "m", "generation": 1, "node": "n"} | changes)


def names(envelopes: Sequence[Envelope]) -> list[str]:
    """Which blobs the events in *envelopes* are about."""
    events = [catalog.decode(one.name, one.body) for one in envelopes]
    return [event.blob for event in events if isinstance(event, data.Lost)]


def test_a_published_event_is_in_the_log(engine: Engine) -> None:
    """Publishing returns the envelope as the log has it: position, node, source, and a trace of its own."""

    async def story(store: Store) -> tuple[Envelope, Sequence[Envelope]]:
        told = await router(store).publish(lost("a"), source="test")
        async with store.read() as view:
            return told, await view.read(0, 9)

    told, found = engine.run(story)

    assert list(found) == [told]
    assert catalog.decode(told.name, told.body) == lost("a")
    assert (told.node, told.source, told.cause) == ("n1", "test", "")
    assert told.correlation == told.id
    assert re.fullmatch("[0-9a-f]{32}", told.trace)


def test_publishing_again_under_one_id_is_once(engine: Engine) -> None:
    """The same id and body return the first envelope; another body is refused, and the first one stands."""

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
def test_an_id_that_is_none_is_refused(engine: Engine, id: str) -> None:
    """An id with other characters or another length than ours is refused, and nothing is appended."""

    async def story(store: Store) -> list[str]:
        with pytest.raises(InvalidId):
            await router(store).publish(lost("a"), id=id)
        return await logged(store)

    assert engine.run(story) == []


def test_many_events_keep_their_order(engine: Engine) -> None:
    """Events that are published together stand in the log together, in their order."""

    async def story(store: Store) -> tuple[list[int], list[str]]:
        told = await router(store).publish_many([lost(blob) for blob in "cab"])
        async with store.read() as view:
            return [one.position for one in told], names(await view.read(0, 9))

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
    """Through the door for one."""
    return await bus.publish(event)


async def publish_many(bus: Router, event: Event) -> object:
    """Between two good ones, through the door for many."""
    return await bus.publish_many([lost("a"), event, lost("b")])


async def post(bus: Router, event: Event) -> object:
    """Through the door for threads."""
    return await asyncio.to_thread(lambda: bus.post(event).result(10))


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("door", [publish, publish_many, post])
def test_what_has_no_bytes_is_refused(
    engine: Engine, door: Callable[[Router, Event], Awaitable[object]], case: str
) -> None:
    """An event that JSON cannot carry, or that is too large, is refused by a typed error and nothing is appended."""
    event, error = BAD[case]

    async def story(store: Store) -> list[str]:
        with pytest.raises(error):
            await door(router(store), event)
        return await logged(store)

    assert engine.run(story) == []


def test_an_event_of_just_the_greatest_size_is_taken(engine: Engine) -> None:
    """The limit itself is still allowed."""
    room = SIZE_MAX - len(catalog.encode(lost("")))

    async def story(store: Store) -> int:
        return len((await router(store).publish(lost("x" * room))).body)

    assert engine.run(story) == SIZE_MAX


def test_threads_have_a_door_of_their_own(engine: Engine) -> None:
    """What threads post is accepted at once, and their future is done when it is durable."""

    async def story(store: Store) -> tuple[set[str], list[str]]:
        bus = router(store)

        def many(thread: int) -> list[Envelope]:
            return [future.result(10) for future in [bus.post(lost(f"{thread}-{number}")) for number in range(10)]]

        told = await asyncio.gather(*(asyncio.to_thread(many, thread) for thread in range(4)))
        return {one.id for envelopes in told for one in envelopes}, await logged(store)

    told, there = engine.run(story)

    assert len(there) == 40
    assert told == set(there)


async def take(stream: AsyncIterator[Envelope], count: int) -> list[Envelope]:
    """The next *count* of a stream."""
    return [await anext(stream) for _ in range(count)]


def test_a_live_view_begins_now_or_where_it_is_told(engine: Engine) -> None:
    """A live view shows what becomes durable from now on, or from a position on, and only the names it wants."""

    async def story(store: Store) -> list[list[str]]:
        bus = router(store, batch=2)
        early = await bus.publish_many([lost(blob) for blob in "abc"])
        streams = [bus.live(), bus.live(after=0), bus.live((data.Lost.name(),), after=early[1].position)]
        looking = [asyncio.create_task(take(stream, count)) for stream, count in zip(streams, (3, 6, 3), strict=True)]
        await asyncio.sleep(0)
        await bus.publish_many([lost("d"), finished(), lost("e")])
        found = [names(await look) for look in looking]
        for stream in streams:
            await stream.aclose()  # type: ignore[attr-defined]  # it is an async generator
        return found

    assert engine.run(story) == [["d", "e"], ["a", "b", "c", "d", "e"], ["c", "d", "e"]]


def test_a_slow_view_holds_nobody_up(engine: Engine) -> None:
    """A view that is not looked at keeps neither publishers nor other views waiting, and misses nothing."""

    async def story(store: Store) -> tuple[list[str], list[str]]:
        bus = router(store, batch=3)
        slow, fast = bus.live(after=0), bus.live(after=0)
        await bus.publish(lost("0"))
        first = await take(slow, 1)
        for number in range(1, 20):
            await bus.publish(lost(str(number)))
        seen = names(await take(fast, 20)), names([*first, *await take(slow, 19)])
        for stream in (slow, fast):
            await stream.aclose()  # type: ignore[attr-defined]  # it is an async generator
        return seen

    fast, slow = engine.run(story)

    assert fast == slow == [str(number) for number in range(20)]


class Served:
    """A reader that writes down what it got, and may hold its role or not."""

    def __init__(self) -> None:
        self.got: list[str] = []
        self.holds, self.progress = True, 0
        self.reader = Reader(name="served", wants=frozenset({data.Lost.name()}), react=self.react)

    async def react(self, event: Event, envelope: Envelope, tx: Tx) -> None:
        """Write it down here, where it stays, and in the transaction, where it may vanish again."""
        assert isinstance(event, data.Lost)
        self.got.append(event.blob)
        before = (await tx.get("got", [event.blob])).get(event.blob, b"")
        await tx.put([Put(kind="got", id=event.blob, body=before + b"I")])

    def alive(self) -> None:
        """Count the signs of life."""
        self.progress += 1


def test_a_served_reader_gets_what_was_and_what_comes(engine: Engine) -> None:
    """Serving starts at the reader's place, goes on with what is published, and shows progress while it waits."""

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
            return served.got, serving.cancelled(), dict(await view.places()), last.position

    got, cancelled, places, last = engine.run(story)

    assert got == ["a", "b", "c", "d"]
    assert (cancelled, places) == (True, {"served": last})


def test_a_reader_without_its_role_waits(engine: Engine) -> None:
    """While the role is elsewhere nothing is delivered; when it comes back, everything is, once."""

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


def test_an_overtaken_reader_goes_on_from_its_new_place(engine: Engine) -> None:
    """When somebody else moved the reader, serving goes on behind that, and nothing has its effect twice."""

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
        serving.cancel()
        await asyncio.wait((serving,))
        async with store.read() as view:
            return dict(await view.get("got", ["a", "b", "skipped"]))

    assert engine.run(story) == {"a": b"I", "b": b"I"}
