"""Limits of live subscriptions: threads, how many at once, how long each; nobody pays for another."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from contract.engines import Engine, run, settle
from contract.listeners import Ear, letters, log, lost, progressed, routed
from ringrift.bus.router import Router
from ringrift.events import data, work
from ringrift.events.base import Envelope, Event
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import InvalidPayload
from ringrift.store.ports import Store
from waiting import wait_until


def test_plain_functions_get_threads_and_keep_the_order(on_file: Engine) -> None:
    """A plain function runs off the loop's thread, one call at a time and in order, and may block."""
    heard: list[str] = []
    threads: set[int] = set()
    two_at_once: list[bool] = []
    inside = threading.Lock()

    def listen(event: Event, envelope: Envelope) -> None:
        two_at_once.append(not inside.acquire(blocking=False))
        threads.add(threading.get_ident())
        assert isinstance(event, data.Lost)
        heard.append(event.blob)
        inside.release()

    async def story(store: Store) -> None:
        async with routed(store) as bus:
            bus.subscribe(data.Lost, listen)
            for number in range(20):
                await bus.publish(lost(str(number)))
            await wait_until(lambda: len(heard) == 20)

    on_file.run(story)

    assert heard == [str(number) for number in range(20)]
    assert threading.get_ident() not in threads
    assert not any(two_at_once)


class Crowd:
    """Counts how many are inside at once, and lets them out on a word."""

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
        """Let everybody out, now and later."""
        self.open.set()
        self.go_on.set()


def test_the_threads_of_plain_functions_are_bounded(on_file: Engine) -> None:
    """However many plain subscribers block, no more than so many threads run; the others have their turn later."""

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
def test_so_many_run_at_once_and_no_more(on_file: Engine, plain: bool) -> None:
    """With a concurrency of three a subscriber is at three events at once, and at all of them in the end."""

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


def test_one_that_sleeps_or_fails_delays_nobody(on_file: Engine) -> None:
    """While one subscriber hangs and another fails each time, the third hears everything at once."""
    good, bad = Ear(), Ear()
    bad.wrong = {str(number): ValueError("no") for number in range(50)}

    async def story(store: Store) -> dict[str, tuple[int, int, int]]:
        never = asyncio.Event()
        async with routed(store) as bus:
            bus.subscribe(data.Lost, Ear(lambda event: never.wait()).live, name="hangs")
            bus.subscribe(data.Lost, bad.live, name="fails")
            bus.subscribe(data.Lost, good.live, name="good")
            for number in range(50):
                await bus.publish(lost(str(number)))
            await wait_until(lambda: len(good.heard) == len(bad.heard) == 50)
            return {one.name: (one.delivered, one.failed, one.waiting) for one in bus.counts()}

    counts = on_file.run(story)

    assert good.heard == [str(number) for number in range(50)]
    assert counts == {"hangs": (0, 0, 49), "fails": (0, 50, 0), "good": (50, 0, 0)}


class Gate:
    """Stands before whatever the store does in threads, and holds it back while it is shut."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.opened.set()

    async def offload(self, call: Callable[..., Any], *args: Any) -> Any:
        """Run *call* in a thread once the gate is open."""
        await self.opened.wait()
        return await asyncio.to_thread(call, *args)


def hanging() -> Ear:
    """An ear that never comes back from hearing "hang"."""
    never = asyncio.Event()

    async def hang(event: Event) -> None:
        if "hang" in (getattr(event, "job", ""), getattr(event, "blob", "")):
            await never.wait()

    return Ear(hang)


async def ended(bus: Router, ear: Ear) -> tuple[int, str]:
    """Wait until the ear has been freed and hears on; how often and why it failed."""
    await wait_until(lambda: "hang" in ear.heard)
    bus.tell(progressed("next"))
    await wait_until(lambda: ear.heard[-1] == "next")
    [counts] = bus.counts()
    return counts.failed, counts.error


@pytest.mark.parametrize("waits", [True, False])
def test_a_subscriber_that_hangs_is_ended(on_file: Engine, waits: bool) -> None:
    """Who takes longer than it may is ended and counted, also when the event came before it had begun to wait."""

    async def story(store: Store) -> tuple[int, str]:
        ear = hanging()
        async with routed(store, SystemClock()) as bus:
            bus.subscribe(work.Progressed, ear.live, name="sleeper", seconds_max=0.1)
            if waits:
                await settle()
            bus.tell(progressed("hang"))
            return await ended(bus, ear)

    assert on_file.run(story) == (1, "TimedOut: sleeper took longer than 0.1 s")


def test_a_subscriber_that_hangs_after_catching_up_is_ended(on_file: Engine) -> None:
    """The time limit also holds for what a slow subscriber reads from the log, however long that reading took."""

    async def story() -> tuple[int, str]:
        ear, gate, loop = hanging(), Gate(), asyncio.get_running_loop()
        async with on_file.open(offload=gate.offload) as store, routed(store, SystemClock()) as bus:
            bus.subscribe((data.Lost, work.Progressed), ear.live, name="sleeper", seconds_max=0.1, queue_max=1)
            slow = ear.meanwhile
            assert slow is not None

            async def shut(event: Event) -> None:
                gate.opened.clear()
                ear.meanwhile = slow

            ear.meanwhile = shut
            await bus.publish_many([lost("first"), lost("second"), lost("hang")])
            await wait_until(lambda: ear.heard == ["first"])
            later = loop.time() + 0.3
            await wait_until(lambda: loop.time() > later)
            gate.opened.set()
            return await ended(bus, ear)

    assert run(story()) == (1, "TimedOut: sleeper took longer than 0.1 s")


def test_a_plain_function_that_hangs_is_let_go(on_file: Engine) -> None:
    """A plain function cannot be ended, but it is counted and no longer waited for."""
    let_go, heard = threading.Event(), list[str]()

    def listen(event: Event, envelope: Envelope) -> None:
        assert isinstance(event, work.Progressed)
        heard.append(event.job)
        if event.job == "hang":
            let_go.wait(10)

    async def story(store: Store) -> tuple[int, str]:
        async with routed(store, SystemClock()) as bus:
            bus.subscribe(work.Progressed, listen, seconds_max=0.1)
            bus.tell(progressed("first"))
            await wait_until(lambda: heard == ["first"])
            for job in ("hang", "next"):
                bus.tell(progressed(job))
            await wait_until(lambda: heard == ["first", "hang", "next"])
            let_go.set()
            [counts] = bus.counts()
            return counts.failed, counts.error[:8]

    assert on_file.run(story) == (1, "TimedOut")


ENDS: dict[str, BaseException] = {
    "exit": SystemExit("enough"), "interrupt": KeyboardInterrupt("enough"), "cancel": asyncio.CancelledError("enough"),
}  # fmt: skip


@pytest.mark.parametrize("end", ENDS)
def test_a_plain_function_that_calls_for_an_end_has_failed(on_file: Engine, end: str) -> None:
    """A plain function that exits, or is interrupted, has failed: its thread and its subscription go on."""
    heard: list[str] = []

    def listen(event: Event, envelope: Envelope) -> None:
        assert isinstance(event, work.Progressed)
        heard.append(event.job)
        if event.job == "end":
            raise ENDS[end]

    async def story(store: Store) -> tuple[int, str]:
        async with routed(store, threads_max=1) as bus:
            bus.subscribe(work.Progressed, listen)
            for job in ("end", "next"):
                bus.tell(progressed(job))
            await wait_until(lambda: heard == ["end", "next"])
            await settle()
            [counts] = bus.counts()
            return counts.failed, counts.error

    failed, error = on_file.run(story)

    assert failed == 1
    assert "enough" in error


def test_a_subscriber_that_exits_has_failed(on_file: Engine) -> None:
    """An asynchronous subscriber or handler that calls for the end of the program has failed; the program goes on."""
    ear, other = Ear(), Ear()
    ear.wrong["end"] = other.wrong["end"] = SystemExit("enough")

    async def story(store: Store) -> tuple[int, list[str]]:
        async with routed(store) as bus:
            bus.subscribe(data.Lost, ear.live)
            bus.handle(data.Lost, other.durable, name="h")
            await bus.publish_many([lost("end"), lost("next")])
            await wait_until(lambda: ear.heard == other.heard == ["end", "next"])
            await wait_until(lambda: store.position > 2)
            return bus.counts()[0].failed, [one.error for one in await letters(store)]

    failed, [error] = on_file.run(story)

    assert failed == 1
    assert "enough" in error


def test_plain_functions_that_hang_leave_threads_for_others(on_file: Engine) -> None:
    """One plain subscriber that hangs at every event takes some threads for good, but never all of them."""
    let_go, hung, ear = threading.Event(), list[str](), Ear()

    def hang(event: Event, envelope: Envelope) -> None:
        hung.append("hung")
        let_go.wait(20)

    async def story(store: Store) -> int:
        async with routed(store, SystemClock(), threads_max=4) as bus:
            subscription = bus.subscribe(work.Progressed, hang, seconds_max=0.05)
            for number in range(12):
                bus.tell(progressed(str(number)))
            await wait_until(lambda: subscription.counts().failed >= 6)
            bus.subscribe(work.Progressed, ear.plain)
            bus.tell(progressed("for the other"))
            try:
                await wait_until(lambda: ear.heard == ["for the other"], 3)
            finally:
                let_go.set()
            return len(hung)

    assert on_file.run(story) < 4


def test_a_handler_that_was_cancelled_by_another_has_failed(on_file: Engine) -> None:
    """A subscriber that awaits something which somebody else cancelled has failed, and hears the next event."""

    async def await_what_is_gone(event: Event) -> None:
        if getattr(event, "blob", "") == "a":
            gone = asyncio.get_running_loop().create_future()
            gone.cancel()
            await gone

    ear = Ear(await_what_is_gone)

    async def story(store: Store) -> tuple[int, int]:
        async with routed(store) as bus:
            bus.subscribe(data.Lost, ear.live)
            await bus.publish_many([lost("a"), lost("b")])
            await wait_until(lambda: ear.heard == ["a", "b"])
            await settle()
            [counts] = bus.counts()
            return counts.failed, counts.delivered

    assert on_file.run(story) == (1, 1)


def test_threads_have_a_door_of_their_own(on_file: Engine) -> None:
    """What another thread posts, in the log or not, is heard on the loop's thread and answered with its envelope."""
    ears: list[tuple[str, int]] = []

    async def listen(event: Event, envelope: Envelope) -> None:
        ears.append((event.name(), threading.get_ident()))

    async def story(store: Store) -> list[int]:
        async with routed(store) as bus:
            bus.subscribe((data.Lost, work.Progressed), listen)
            events = (lost("a"), progressed("b"))
            futures = await asyncio.to_thread(lambda: [bus.post(event) for event in events])
            told = [await asyncio.wrap_future(future) for future in futures]
            await wait_until(lambda: len(ears) == 2)
            return [envelope.position for envelope in told]

    assert on_file.run(story) == [1, 0]
    assert sorted(ears) == [(name, threading.get_ident()) for name in ("data.lost", "work.progressed")]


def test_many_of_both_kinds_keep_their_order(engine: Engine) -> None:
    """Of many events at once each gets its envelope in its place; each kind is heard in order; bad ones stop all."""
    ear = Ear()

    async def story(store: Store) -> tuple[list[int], list[str], int]:
        async with routed(store) as bus:
            bus.subscribe(None, ear.live)
            told = await bus.publish_many([progressed("m1"), lost("a"), progressed("m2"), lost("b"), progressed("m3")])
            with pytest.raises(InvalidPayload, match="surrogate"):
                await bus.publish_many([progressed("m4"), lost("c"), lost("\ud800")])
            await wait_until(lambda: len(ear.heard) >= 5)
            await settle()
            return [one.position for one in told], [one.name for one in told], len(await log(store))

    positions, names, there = engine.run(story)

    assert positions == [0, 1, 0, 2, 0]
    assert names == ["work.progressed", "data.lost"] * 2 + ["work.progressed"]
    assert there == 2
    assert [word for word in ear.heard if word[0] == "m"] == ["m1", "m2", "m3"]
    assert [word for word in ear.heard if word[0] != "m"] == ["a", "b"]
