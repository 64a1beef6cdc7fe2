"""Limits of live subscriptions: threads, concurrency and time; no subscriber delays another."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from contract.engines import Engine, run, settle
from contract.subscribers import Subscriber, failed_deliveries, log, lost, progressed, routed
from ringrift.bus.router import Router
from ringrift.events import data, work
from ringrift.events.base import Envelope, Event
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import InvalidPayload
from ringrift.store.ports import Store
from wait import wait_until


def test_plain_functions_get_threads_and_keep_the_order(on_file: Engine) -> None:
    """A plain function runs off the loop's thread, one call at a time and in order, and may block."""
    received: list[str] = []
    threads: set[int] = set()
    two_at_once: list[bool] = []
    inside = threading.Lock()

    def on_event(event: Event, envelope: Envelope) -> None:
        two_at_once.append(not inside.acquire(blocking=False))
        threads.add(threading.get_ident())
        assert isinstance(event, data.Lost)
        received.append(event.blob)
        inside.release()

    async def story(store: Store) -> None:
        async with routed(store) as bus:
            bus.subscribe(data.Lost, on_event)
            for number in range(20):
                await bus.publish(lost(str(number)))
            await wait_until(lambda: len(received) == 20)

    on_file.run(story)

    assert received == [str(number) for number in range(20)]
    assert threading.get_ident() not in threads
    assert not any(two_at_once)


def test_a_subscriber_that_hangs_or_fails_delays_no_other(on_file: Engine) -> None:
    """While one subscriber hangs and another fails each time, the third receives everything at once."""
    good, bad = Subscriber(), Subscriber()
    bad.errors = {str(number): ValueError("no") for number in range(50)}

    async def story(store: Store) -> dict[str, tuple[int, int, int]]:
        never = asyncio.Event()
        async with routed(store) as bus:
            bus.subscribe(data.Lost, Subscriber(lambda event: never.wait()).live, name="hangs")
            bus.subscribe(data.Lost, bad.live, name="fails")
            bus.subscribe(data.Lost, good.live, name="good")
            for number in range(50):
                await bus.publish(lost(str(number)))
            await wait_until(lambda: len(good.received) == len(bad.received) == 50)
            return {each.name: (each.delivered, each.failed, each.waiting) for each in bus.subscriptions}

    counts = on_file.run(story)

    assert good.received == [str(number) for number in range(50)]
    assert counts == {"hangs": (0, 0, 49), "fails": (0, 50, 0), "good": (50, 0, 0)}


class Crowd:
    """Counts how many callers are inside at once, and releases them on demand."""

    def __init__(self) -> None:
        self.inside = self.most = self.total = 0
        self.open = threading.Event()
        self.go_on = asyncio.Event()
        self._lock = threading.Lock()

    def _count(self, change: int) -> None:
        with self._lock:
            self.inside += change
            self.total += change > 0
            self.most = max(self.most, self.inside)

    def enter(self, event: Event, envelope: Envelope) -> None:
        """Block a thread."""
        self._count(1)
        self.open.wait(10)
        self._count(-1)

    async def aenter(self, event: Event, envelope: Envelope) -> None:
        """Wait on the loop."""
        self._count(1)
        await self.go_on.wait()
        self._count(-1)

    def let_go(self) -> None:
        """Release all callers, now and later."""
        self.open.set()
        self.go_on.set()


def test_the_threads_of_plain_functions_are_bounded(on_file: Engine) -> None:
    """However many plain subscribers block, only a bounded number of threads runs; the others are called later."""

    async def story(store: Store) -> Crowd:
        crowd = Crowd()
        async with routed(store, threads_max=3) as bus:
            for _ in range(6):
                bus.subscribe(data.Lost, crowd.enter)
            await bus.publish(lost("a"))
            await wait_until(lambda: crowd.inside == 3)
            await settle()
            crowd.let_go()
            await wait_until(lambda: crowd.total == 6)
        return crowd

    assert on_file.run(story).most == 3


@pytest.mark.parametrize("plain", [False, True])
def test_the_concurrency_of_a_subscriber_is_bounded(on_file: Engine, plain: bool) -> None:
    """With a concurrency of three a subscriber handles three events at once, and all of them in the end."""

    async def story(store: Store) -> Crowd:
        crowd = Crowd()
        async with routed(store) as bus:
            bus.subscribe(data.Lost, crowd.enter if plain else crowd.aenter, concurrency=3)
            await bus.publish_many([lost(str(number)) for number in range(10)])
            await wait_until(lambda: crowd.inside == 3)
            await settle()
            crowd.let_go()
            await wait_until(lambda: crowd.total == 10)
        return crowd

    assert on_file.run(story).most == 3


class Gate:
    """A gate before all work that the store does in threads; holds it back while it is shut."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.opened.set()

    async def offload(self, call: Callable[..., Any], *args: Any) -> Any:
        """Run *call* in a thread once the gate is open."""
        await self.opened.wait()
        return await asyncio.to_thread(call, *args)


def hanging_subscriber() -> Subscriber:
    """A subscriber that never returns from the event "hang"."""
    never = asyncio.Event()

    async def hang(event: Event) -> None:
        if "hang" in (getattr(event, "job", ""), getattr(event, "blob", "")):
            await never.wait()

    return Subscriber(hang)


async def ended(bus: Router, subscriber: Subscriber) -> tuple[int, str]:
    """Wait until the subscriber has been freed and receives again; how often and why it failed."""
    await wait_until(lambda: "hang" in subscriber.received)
    bus.publish_memory(progressed("next"))
    await wait_until(lambda: subscriber.received[-1] == "next")
    [counts] = bus.subscriptions
    return counts.failed, counts.error


@pytest.mark.parametrize("waits", [True, False])
def test_a_subscriber_that_hangs_is_ended(on_file: Engine, waits: bool) -> None:
    """A subscriber that exceeds its time is ended and counted, also when the event came before it began to wait."""

    async def story(store: Store) -> tuple[int, str]:
        subscriber = hanging_subscriber()
        async with routed(store, SystemClock()) as bus:
            bus.subscribe(work.Progressed, subscriber.live, name="sleeper", timeout_seconds=0.1)
            if waits:
                await settle()
            bus.publish_memory(progressed("hang"))
            return await ended(bus, subscriber)

    assert on_file.run(story) == (
        1,
        "TimedOut: sleeper took longer than 0.1 s and was cancelled: shorten it or raise its limit",
    )


def test_a_subscriber_that_hangs_after_catching_up_is_ended(on_file: Engine) -> None:
    """The time limit also holds for events that a slow subscriber reads from the log, however long the reading took."""

    async def story() -> tuple[int, str]:
        subscriber, gate, loop = hanging_subscriber(), Gate(), asyncio.get_running_loop()
        async with on_file.open(offload=gate.offload) as store, routed(store, SystemClock()) as bus:
            bus.subscribe(
                (data.Lost, work.Progressed), subscriber.live, name="sleeper", timeout_seconds=0.1, queue_max=1
            )
            slow = subscriber.meanwhile
            assert slow is not None

            async def shut(event: Event) -> None:
                gate.opened.clear()
                subscriber.meanwhile = slow

            subscriber.meanwhile = shut
            await bus.publish_many([lost("first"), lost("second"), lost("hang")])
            await wait_until(lambda: subscriber.received == ["first"])
            later = loop.time() + 0.3
            await wait_until(lambda: loop.time() > later)
            gate.opened.set()
            return await ended(bus, subscriber)

    assert run(story()) == (
        1,
        "TimedOut: sleeper took longer than 0.1 s and was cancelled: shorten it or raise its limit",
    )


def test_a_plain_function_that_hangs_is_abandoned(on_file: Engine) -> None:
    """A plain function cannot be ended, but it is counted and no longer waited for."""
    let_go, received = threading.Event(), list[str]()

    def on_event(event: Event, envelope: Envelope) -> None:
        assert isinstance(event, work.Progressed)
        received.append(event.job)
        if event.job == "hang":
            let_go.wait(10)

    async def story(store: Store) -> tuple[int, str]:
        async with routed(store, SystemClock()) as bus:
            bus.subscribe(work.Progressed, on_event, timeout_seconds=0.1)
            bus.publish_memory(progressed("first"))
            await wait_until(lambda: received == ["first"])
            for job in ("hang", "next"):
                bus.publish_memory(progressed(job))
            await wait_until(lambda: received == ["first", "hang", "next"])
            let_go.set()
            [counts] = bus.subscriptions
            return counts.failed, counts.error[:8]

    assert on_file.run(story) == (1, "TimedOut")


ENDS: dict[str, BaseException] = {
    "exit": SystemExit("enough"),
    "interrupt": KeyboardInterrupt("enough"),
    "cancel": asyncio.CancelledError("enough"),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_plain_function_that_exits_has_failed(on_file: Engine, end: str) -> None:
    """A plain function that exits, or is interrupted, has failed: its thread and its subscription continue."""
    received: list[str] = []

    def on_event(event: Event, envelope: Envelope) -> None:
        assert isinstance(event, work.Progressed)
        received.append(event.job)
        if event.job == "end":
            raise ENDS[end]

    async def story(store: Store) -> tuple[int, str]:
        async with routed(store, threads_max=1) as bus:
            bus.subscribe(work.Progressed, on_event)
            for job in ("end", "next"):
                bus.publish_memory(progressed(job))
            await wait_until(lambda: received == ["end", "next"])
            await settle()
            [counts] = bus.subscriptions
            return counts.failed, counts.error

    failed, error = on_file.run(story)

    assert failed == 1
    assert "enough" in error


def test_a_subscriber_that_exits_has_failed(on_file: Engine) -> None:
    """An asynchronous subscriber or handler that raises SystemExit has failed; the program continues."""
    subscriber, other = Subscriber(), Subscriber()
    subscriber.errors["end"] = other.errors["end"] = SystemExit("enough")

    async def story(store: Store) -> tuple[int, list[str]]:
        async with routed(store) as bus:
            bus.subscribe(data.Lost, subscriber.live)
            bus.handle(data.Lost, other.durable, name="h")
            await bus.publish_many([lost("end"), lost("next")])
            await wait_until(lambda: subscriber.received == other.received == ["end", "next"])
            await wait_until(lambda: store.position > 2)
            return bus.subscriptions[0].failed, [row.error for row in await failed_deliveries(store)]

    failed, [error] = on_file.run(story)

    assert failed == 1
    assert "enough" in error


def test_plain_functions_that_hang_leave_threads_for_others(on_file: Engine) -> None:
    """One plain subscriber that hangs at every event uses up some threads for good, but never all of them."""
    let_go, hung, subscriber = threading.Event(), list[str](), Subscriber()

    def hang(event: Event, envelope: Envelope) -> None:
        hung.append("hung")
        let_go.wait(20)

    async def story(store: Store) -> int:
        async with routed(store, SystemClock(), threads_max=4) as bus:
            subscription = bus.subscribe(work.Progressed, hang, timeout_seconds=0.05)
            for number in range(12):
                bus.publish_memory(progressed(str(number)))
            await wait_until(lambda: subscription.failed >= 6)
            bus.subscribe(work.Progressed, subscriber.plain)
            bus.publish_memory(progressed("for the other"))
            try:
                await wait_until(lambda: subscriber.received == ["for the other"], 3)
            finally:
                let_go.set()
            return len(hung)

    assert on_file.run(story) < 4


def test_a_handler_awaiting_a_cancelled_task_has_failed(on_file: Engine) -> None:
    """A subscriber that awaits a task which was cancelled elsewhere has failed, and receives the next event."""

    async def await_cancelled(event: Event) -> None:
        if getattr(event, "blob", "") == "a":
            gone = asyncio.get_running_loop().create_future()
            gone.cancel()
            await gone

    subscriber = Subscriber(await_cancelled)

    async def story(store: Store) -> tuple[int, int]:
        async with routed(store) as bus:
            bus.subscribe(data.Lost, subscriber.live)
            await bus.publish_many([lost("a"), lost("b")])
            await wait_until(lambda: subscriber.received == ["a", "b"])
            await settle()
            [counts] = bus.subscriptions
            return counts.failed, counts.delivered

    assert on_file.run(story) == (1, 1)


def test_threads_have_a_door_of_their_own(on_file: Engine) -> None:
    """An event posted by another thread, logged or not, is delivered on the loop's thread and returns its envelope."""
    subscribers: list[tuple[str, int]] = []

    async def on_event(event: Event, envelope: Envelope) -> None:
        subscribers.append((event.name(), threading.get_ident()))

    async def story(store: Store) -> list[int]:
        async with routed(store) as bus:
            bus.subscribe((data.Lost, work.Progressed), on_event)
            events = (lost("a"), progressed("b"))
            futures = await asyncio.to_thread(lambda: [bus.post(event) for event in events])
            published = [await asyncio.wrap_future(future) for future in futures]
            await wait_until(lambda: len(subscribers) == 2)
            return [envelope.position for envelope in published]

    assert on_file.run(story) == [1, 0]
    assert sorted(subscribers) == [(name, threading.get_ident()) for name in ("data.lost", "work.progressed")]


def test_many_of_both_kinds_keep_their_order(engine: Engine) -> None:
    """A batch returns its envelopes in order; each kind is delivered in order; an invalid event refuses the batch."""
    subscriber = Subscriber()

    async def story(store: Store) -> tuple[list[int], list[str], int]:
        async with routed(store) as bus:
            bus.subscribe(None, subscriber.live)
            events = [progressed("m1"), lost("a"), progressed("m2"), lost("b"), progressed("m3")]
            published = await bus.publish_many(events)
            with pytest.raises(InvalidPayload, match="surrogate"):
                await bus.publish_many([progressed("m4"), lost("c"), lost("\ud800")])
            await wait_until(lambda: len(subscriber.received) >= 5)
            await settle()
            return (
                [envelope.position for envelope in published],
                [envelope.name for envelope in published],
                len(await log(store)),
            )

    positions, names, there = engine.run(story)

    assert positions == [0, 1, 0, 2, 0]
    assert names == ["work.progressed", "data.lost"] * 2 + ["work.progressed"]
    assert there == 2
    assert [word for word in subscriber.received if word[0] == "m"] == ["m1", "m2", "m3"]
    assert [word for word in subscriber.received if word[0] != "m"] == ["a", "b"]
