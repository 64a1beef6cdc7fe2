"""Durable handlers: every event at least once with one key, over restarts, failures and time limits."""

import asyncio
import threading

import pytest

from contract.engines import Engine, HandClock, settle
from contract.listeners import Ear, finished, letters, log, lost, place, routed
from ringrift.events import data, letter
from ringrift.events.base import Envelope, Event
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.errors import Discard, InputError, Retry
from ringrift.store.ports import Delivery, Store
from waiting import wait_until

SOON = Backoff(first_seconds=60.0, seconds_max=3600.0, tries=5)


async def level(store: Store, name: str) -> None:
    """Wait until the handler has taken in everything."""

    async def is_level() -> bool:
        return await place(store, name) == store.position

    await wait_until(is_level)


async def settled(store: Store, clock: HandClock, *states: str) -> list[Delivery]:
    """Let time pass until the letters have these states."""

    async def are() -> bool:
        clock.seconds += 5.0
        return [one.state for one in await letters(store)] == list(states)

    await wait_until(are, 10)
    return [*await letters(store)]


def test_a_handler_goes_on_where_it_was(engine: Engine) -> None:
    """A handler under the same name gets what was published while it was away, and nothing that it had before."""
    first, second = Ear(), Ear()

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

    assert (first.heard, second.heard) == (["a", "b"], ["c", "d", "e"])


def test_a_handler_may_begin_at_the_beginning(engine: Engine) -> None:
    """A new handler that asks for it gets all there is, but only the first time."""
    ear = Ear()

    async def story(store: Store) -> None:
        for blobs in ("ab", "c"):
            async with routed(store, batch=2) as bus:
                await bus.publish_many([lost(blob) for blob in blobs])
                bus.handle(data.Lost, ear.durable, name="h", from_start=True)
                await level(store, "h")

    engine.run(story)

    assert ear.heard == ["a", "b", "c"]


def test_a_delivery_that_was_cut_off_comes_again_under_its_key(engine: Engine) -> None:
    """A handler that ends in the middle of an event gets it again with the same key; no two events share one."""
    first, second = Ear(), Ear()

    async def story(store: Store) -> None:
        never = asyncio.Event()

        async def hang(event: Event) -> None:
            if getattr(event, "blob", "") == "b":
                await never.wait()

        first.meanwhile = hang
        async with routed(store) as bus:
            bus.handle(data.Lost, first.durable, name="h")
            await bus.publish_many([lost("a"), lost("b"), lost("c")])
            await wait_until(lambda: first.heard == ["a", "b"])
        async with routed(store, node="n2") as bus:
            bus.handle(data.Lost, second.durable, name="h")
            await level(store, "h")

    engine.run(story)
    keys = dict(zip(second.heard, second.keys, strict=True))

    assert second.heard[-2:] == ["b", "c"]
    assert first.keys[1] == keys["b"]
    assert len(set(keys.values())) == len(keys)
    assert all(dict(zip(first.heard, first.keys, strict=True)).get(blob, key) == key for blob, key in keys.items())


def test_keys_of_two_handlers_differ(engine: Engine) -> None:
    """A key names the handler and the event, so that two handlers may remember keys in one place."""
    one, two = Ear(), Ear()

    async def story(store: Store) -> None:
        async with routed(store) as bus:
            bus.handle(data.Lost, one.durable, name="one")
            bus.handle(data.Lost, two.durable, name="two")
            await bus.publish_many([lost("a"), lost("b")])
            await wait_until(lambda: len(one.keys) == len(two.keys) == 2)

    engine.run(story)

    assert len({*one.keys, *two.keys}) == 4


def test_a_handler_that_hangs_becomes_a_letter(on_file: Engine) -> None:
    """Who takes longer than it may is ended, the event is parked with that reason, and the next one comes."""
    ear = Ear()

    async def story(store: Store) -> tuple[Delivery, ...]:
        never = asyncio.Event()

        async def hang(event: Event) -> None:
            if getattr(event, "blob", "") == "a":
                await never.wait()

        ear.meanwhile = hang
        async with routed(store) as bus:
            bus.handle(data.Lost, ear.durable, name="h", seconds_max=0.1)
            await bus.publish_many([lost("a"), lost("b")])
            await level(store, "h")
        return tuple(await letters(store))

    [parked] = on_file.run(story)

    assert ear.heard == ["a", "b"]
    assert (parked.state, parked.attempts, parked.pause) == ("parked", 1, 60.0)
    assert parked.error.endswith("TimedOut: h took longer than 0.1 s")


def test_what_failed_is_tried_again_after_its_pause(engine: Engine) -> None:
    """A handler's own loop tries a parked event again once its pause is over, alone, under its key, and says so."""
    clock, ear, tried = HandClock(), Ear(), list[float]()

    async def note(event: Event) -> None:
        if getattr(event, "blob", "") == "b":
            tried.append(clock.seconds)
            if len(tried) == 3:
                ear.wrong.clear()

    ear.meanwhile = note

    async def story(store: Store) -> tuple[list[Delivery], list[str], list[str]]:
        ear.wrong["b"] = ValueError("not yet")
        async with routed(store, clock) as bus:
            bus.handle(data.Lost, ear.durable, name="h", retry=SOON)
            await bus.publish_many([lost(blob) for blob in "abc"])
            await level(store, "h")
            meanwhile = [*ear.heard]
            found = await settled(store, clock, "done")
            told = [one for one in await log(store) if one.name == letter.Changed.name()]
            return found, meanwhile, [one.body.decode() for one in told]

    [done], meanwhile, told = engine.run(story)

    assert meanwhile == ["a", "b", "c"]
    assert ear.heard == ["a", "b", "c", "b", "b"]
    assert len(set(ear.keys)) == 3
    assert tried[1] - tried[0] >= 60.0
    assert tried[2] - tried[1] >= 120.0
    assert (done.state, done.attempts) == ("done", 3)
    assert [state for body in told for state in ("parked", "done") if f'"{state}"' in body] == [
        "parked", "parked", "done",
    ]  # fmt: skip


def test_a_letter_outlives_its_handler(engine: Engine) -> None:
    """What was parked before a restart is tried again after it, when its pause is over on the newcomer's clock."""
    clock, ear = HandClock(), Ear()

    async def story(store: Store) -> tuple[list[str], list[Delivery]]:
        ear.wrong["a"] = ValueError("not yet")
        async with routed(store, clock) as bus:
            bus.handle(data.Lost, ear.durable, name="h")
            await bus.publish(lost("a"))
            await level(store, "h")
        ear.wrong.clear()
        async with routed(store, clock, "n2") as bus:
            bus.handle(data.Lost, ear.durable, name="h")
            await bus.publish(lost("b"))
            await level(store, "h")
            early = [*ear.heard]
            return early, await settled(store, clock, "done")

    early, _ = engine.run(story)

    assert early == ["a", "b"]
    assert ear.heard == ["a", "b", "a"]
    assert ear.keys[0] == ear.keys[2]


@pytest.mark.parametrize(
    ("wrong", "state", "pause"),
    [(Retry(after=5.0), "parked", 5.0), (Discard("not ours"), "discarded", 0.0), (KeyError("x"), "parked", 60.0)],
)
def test_a_handler_may_say_what_becomes_of_its_event(
    engine: Engine, wrong: Exception, state: str, pause: float
) -> None:
    """Retry, Discard and other errors mean for a handler what they mean for a reaction."""

    async def story(store: Store) -> tuple[Delivery, ...]:
        ear = Ear()
        ear.wrong["a"] = wrong
        async with routed(store) as bus:
            bus.handle(data.Lost, ear.durable, name="h")
            await bus.publish(lost("a"))
            await level(store, "h")
        return tuple(await letters(store))

    [found] = engine.run(story)

    assert (found.state, found.pause, found.attempts) == (state, pause, 1)


def test_order_is_kept_within_a_source(engine: Engine) -> None:
    """With ordered, what comes from the source of a parked event waits behind it; other sources pass by."""
    clock, ear = HandClock(), Ear()

    async def story(store: Store) -> tuple[list[str], list[str], set[str]]:
        ear.wrong["a1"] = ValueError("not yet")
        async with routed(store, clock) as bus, routed(store, clock, "n2") as other:
            bus.handle(data.Lost, ear.durable, name="h", ordered=True)
            for number in (1, 2, 3):
                await bus.publish(lost(f"a{number}"), source="a")
                await bus.publish(lost(f"b{number}"), source="b")
                await other.publish(lost(f"c{number}"), source="a")
            await level(store, "h")
            meanwhile = [*ear.heard]
            parked = {one.state for one in await letters(store)}
            ear.wrong.clear()
            await settled(store, clock, "done", "done", "done")
            await bus.publish(lost("a4"), source="a")
            await level(store, "h")
            return meanwhile, ear.heard[len(meanwhile) :], parked

    meanwhile, later, parked = engine.run(story)

    assert meanwhile == ["a1", "b1", "c1", "b2", "c2", "b3", "c3"]
    assert parked == {"parked"}
    assert later == ["a1", "a2", "a3", "a4"]


def test_order_is_kept_over_a_restart(engine: Engine) -> None:
    """A handler that comes back still keeps what is new behind what was parked before."""
    clock, ear = HandClock(), Ear()

    async def story(store: Store) -> list[str]:
        ear.wrong["a1"] = ValueError("not yet")
        async with routed(store, clock) as bus:
            bus.handle(data.Lost, ear.durable, name="h", ordered=True)
            await bus.publish_many([lost("a1"), lost("a2")], source="a")
            await level(store, "h")
        async with routed(store, clock) as bus:
            bus.handle(data.Lost, ear.durable, name="h", ordered=True)
            await bus.publish(lost("a3"), source="a")
            await level(store, "h")
            meanwhile = [*ear.heard]
            ear.wrong.clear()
            await settled(store, clock, "done", "done", "done")
            return meanwhile

    assert engine.run(story) == ["a1"]
    assert ear.heard == ["a1", "a1", "a2", "a3"]


def test_many_that_waited_go_in_order_and_soon(on_file: Engine) -> None:
    """Hundreds of events behind a parked one follow it in order, without looking at all of them for each."""
    clock, ear = HandClock(), Ear()
    many = [f"a{number}" for number in range(400)]

    async def story(store: Store) -> None:
        ear.wrong["a0"] = ValueError("not yet")
        async with routed(store, clock) as bus:
            bus.handle(data.Lost, ear.durable, name="h", ordered=True)
            await bus.publish_many([lost(blob) for blob in many], source="a")
            await level(store, "h")
            ear.wrong.clear()
            await settled(store, clock, *["done"] * 400)

    on_file.run(story)

    assert ear.heard == ["a0", *many]


def test_a_handler_may_be_at_several_events_at_once(on_file: Engine) -> None:
    """With a concurrency of four, four events are under way at once, and the place moves when all have ended."""

    async def story(store: Store) -> tuple[list[str], int | None]:
        go_on = asyncio.Event()
        ear = Ear(lambda event: go_on.wait())
        async with routed(store) as bus:
            bus.handle(data.Lost, ear.durable, name="h", concurrency=4)
            await bus.publish_many([lost(str(number)) for number in range(10)])
            await wait_until(lambda: len(ear.heard) == 4)
            await settle()
            meanwhile, stands = [*ear.heard], await place(store, "h")
            go_on.set()
            await level(store, "h")
            assert sorted(ear.heard) == [str(number) for number in range(10)]
            return meanwhile, stands

    assert on_file.run(story) == (["0", "1", "2", "3"], 0)


def test_a_plain_function_may_handle(on_file: Engine) -> None:
    """A plain function is called in a thread with event, envelope and key, and its failures are letters, too."""
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
        return tuple(await letters(store))

    [parked] = on_file.run(story)

    assert [(blob, on_loop) for blob, _, on_loop in calls] == [("a", False), ("b", False), ("c", False)]
    assert parked.error == "ValueError: no b today"


def test_a_name_has_one_handler(on_file: Engine) -> None:
    """A second handler of one name is refused, as is a name that is none; the first one is still there."""

    async def story(store: Store) -> list[str]:
        ear = Ear()
        async with routed(store) as bus:
            bus.handle(data.Lost, ear.durable, name="h")
            for name in ("h", "", "no name", "a/b"):
                with pytest.raises(InputError):
                    bus.handle(data.Lost, Ear().durable, name=name)
            await bus.publish(lost("a"))
            await level(store, "h")
        return ear.heard

    assert on_file.run(story) == ["a"]


def test_unsubscribing_keeps_the_place(engine: Engine) -> None:
    """A handler that is ended by its name hears nothing more, and what comes meanwhile waits for it."""
    ear, again = Ear(), Ear()

    async def story(store: Store) -> list[str]:
        async with routed(store) as bus:
            bus.handle(data.Lost, ear.durable, name="h")
            await bus.publish(lost("a"))
            await level(store, "h")
            await bus.unsubscribe("h")
            await bus.publish(lost("b"))
            await settle()
            meanwhile = [*ear.heard]
            bus.handle(data.Lost, again.durable, name="h")
            await level(store, "h")
            return meanwhile

    assert engine.run(story) == ["a"]
    assert again.heard == ["b"]
