"""A store that is busy for a while silences no listener: handlers, live subscriptions and those that catch up go on."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ringrift.bus.delivery import Reader
from ringrift.bus.handlers import _LEFT_BEHIND_MAX
from ringrift.bus.router import Router
from ringrift.events import alert
from ringrift.events.base import Envelope, Event
from ringrift.events.custom import Published
from ringrift.kernel.errors import Backpressure, Busy, NoRoom, Overdue, Unreachable
from ringrift.kernel.health import Status
from ringrift.kernel.settings import BusSettings
from ringrift.store.ports import Delivery
from unit.supervision.watched import loop_clock
from unit.work.refusal import RefusingStore
from unit.work.world import World, play
from wait import wait_until

PATIENT = 2_500.0
"""Seconds of virtual time in which a story must come to its end."""
LOCKED = Busy("/data", "another process has been writing for 10 s")
TRANSIENT = pytest.mark.parametrize(
    "error", [Backpressure("store", 1), LOCKED, NoRoom("/"), Overdue(1.0)], ids=lambda error: type(error).__name__
)


class Listener:
    """Collects the names of the custom events that it gets; *meanwhile* is awaited for each."""

    def __init__(self, meanwhile: Callable[[str], Awaitable[None]] | None = None) -> None:
        self.names: list[str] = []
        self.keys: list[str] = []
        self._meanwhile = meanwhile

    async def live(self, event: Event, envelope: Envelope) -> None:
        """As a live subscriber."""
        assert isinstance(event, Published)
        self.names.append(event.event)
        if self._meanwhile is not None:
            await self._meanwhile(event.event)

    async def handle(self, event: Event, envelope: Envelope, key: str) -> None:
        """As a durable handler."""
        self.keys.append(key)
        await self.live(event, envelope)


@asynccontextmanager
async def routed(world: World, **settings: Any) -> AsyncIterator[tuple[Router, RefusingStore]]:
    """A router on a store that the test can make refuse, on the time of the simulated loop."""
    store = RefusingStore(world.store)
    router = Router(store, loop_clock(), world.envelopes, BusSettings(**settings))
    try:
        yield router, store
    finally:
        store.error = None
        await router.close()


async def publish(world: World, *names: str) -> None:
    """Publish custom events past the store that refuses, as another process does."""
    for name in names:
        await world.router.publish(Published(event=name))


async def deliveries(world: World) -> list[Delivery]:
    """Every delivery that failed."""
    async with world.store.read() as view:
        return [*await view.deliveries(("parked", "dead", "done", "discarded"), 1000)]


async def position(world: World, reader: str) -> int | None:
    """The stored position of *reader*."""
    async with world.store.read() as view:
        return (await view.positions()).get(reader)


@TRANSIENT
def test_a_handler_waits_and_gets_every_event_once(tmp_path: Path, error: Exception) -> None:
    """It is shown as waiting meanwhile; what it had handled is not handled again when the store answers."""

    async def story(world: World) -> None:
        async def refuse(name: str) -> None:
            if name == "a":
                store.error = error

        listener = Listener(refuse)
        async with routed(world) as (router, store):
            router.handle(Published, listener.handle, name="h", from_start=True)
            await publish(world, "a", "b")
            await wait_until(lambda: store.refused > 20, PATIENT, step_seconds=0.1)
            [health] = router.health()
            assert (health.part, health.status, health.reason) == ("handler h", Status.DEGRADED, f"waits: {error}")
            store.error = None
            await publish(world, "c")
            await wait_until(lambda: "c" in listener.names, PATIENT, step_seconds=0.1)
            assert router.health() == []
        assert listener.names == ["a", "b", "c"]
        assert await deliveries(world) == []

    play(tmp_path, story, simulated=True)


@TRANSIENT
def test_live_subscriptions_wait_and_miss_nothing(tmp_path: Path, error: Exception) -> None:
    """The pump goes on where it was, and so does a subscription that was too slow for its queue."""

    async def story(world: World) -> None:
        listener, go_on = Listener(), asyncio.Event()
        slow = Listener(lambda name: go_on.wait())  # type: ignore[arg-type, return-value]  # it may return anything
        async with routed(world) as (router, store):
            router.subscribe(Published, listener.live)
            router.subscribe(Published, slow.live, queue_max=1)
            await publish(world, "a", "b", "c", "d")
            await wait_until(lambda: listener.names == ["a", "b", "c", "d"], PATIENT, step_seconds=0.1)
            store.error = error
            go_on.set()
            await publish(world, "e")
            await wait_until(lambda: store.refused > 40, PATIENT, step_seconds=0.1)
            store.error = None
            await wait_until(
                lambda: listener.names == slow.names == ["a", "b", "c", "d", "e"], PATIENT, step_seconds=0.1
            )

    play(tmp_path, story, simulated=True)


@TRANSIENT
def test_a_handler_that_meets_a_busy_store_has_not_failed(tmp_path: Path, error: Exception) -> None:
    """A handler that publishes into a full queue is called again under its key, and no try is counted."""

    async def story(world: World) -> None:
        async def publishes(name: str) -> None:
            if len(listener.keys) < 10:
                raise error

        listener = Listener(publishes)
        async with routed(world) as (router, _):
            router.handle(Published, listener.handle, name="h", from_start=True)
            await publish(world, "a")
            await wait_until(lambda: len(listener.keys) == 10, PATIENT, step_seconds=0.1)
            await wait_until(lambda: _is_at(world, "h", 1), PATIENT, step_seconds=0.1)
        assert len(set(listener.keys)) == 1
        assert await deliveries(world) == []

    play(tmp_path, story, simulated=True)


async def _is_at(world: World, reader: str, at: int) -> bool:
    actual = await position(world, reader)
    return actual is not None and actual >= at


def test_only_a_broken_store_ends_a_handler(tmp_path: Path) -> None:
    """The handler ends, health says so, and an alert is there for those whose store still works."""

    async def story(world: World) -> None:
        listener = Listener()
        async with routed(world) as (router, store):
            router.handle(Published, listener.handle, name="h")
            await wait_until(lambda: _is_at(world, "h", 0), PATIENT, step_seconds=0.1)
            store.error = Unreachable("the disk is gone")
            await publish(world, "a")
            await wait_until(
                lambda: [health.status for health in router.health()] == [Status.UNHEALTHY], PATIENT, step_seconds=0.1
            )
            assert router.health()[0].reason == "stopped and gets no more events: the disk is gone"

    play(tmp_path, story, simulated=True)


def test_a_handler_that_has_lapsed_raises_an_alert(tmp_path: Path) -> None:
    """An ended handler is named in an alert, not only in a log file."""

    async def story(world: World) -> None:
        await publish(world, "a")
        async with world.store.begin() as tx:
            await tx.register_reader("h", 0)
            await tx.lapse_readers([("h", 0)])
        async with routed(world) as (router, store):
            store.error = LOCKED
            router.handle(Published, Listener().handle, name="h")
            await wait_until(lambda: store.refused > 5, PATIENT, step_seconds=0.1)
            store.error = None
            await wait_until(
                lambda: [health.status for health in router.health()] == [Status.UNHEALTHY], PATIENT, step_seconds=0.1
            )
        [raised] = await world.events(alert.Raised)
        assert isinstance(raised, alert.Raised)
        assert (raised.kind, raised.subject, raised.level) == ("handler", "h", "severe")
        assert "has lapsed" in raised.detail

    play(tmp_path, story, simulated=True)


def test_a_slow_call_delays_no_other(tmp_path: Path) -> None:
    """With a concurrency of 8, one slow call leaves seven: later events are handled, up to a batch of open ones.

    The position stays before the slow event until it is settled, so that a crash repeats it.
    """

    async def story(world: World) -> None:
        go_on = asyncio.Event()

        async def waits(name: str) -> None:
            if name == "slow":
                await go_on.wait()

        listener = Listener(waits)
        async with routed(world, batch=50) as (router, _):
            router.handle(Published, listener.handle, name="h", from_start=True, concurrency=8)
            await publish(world, "first", "slow", *map(str, range(30)))
            await wait_until(lambda: len(listener.names) == 32, PATIENT, step_seconds=0.1)
            await publish(world, *map(str, range(30, 60)))
            await wait_until(lambda: len(listener.names) == 51, PATIENT, step_seconds=0.1)
            began = asyncio.get_running_loop().time()
            await wait_until(lambda: asyncio.get_running_loop().time() - began > 10.0, PATIENT, step_seconds=0.1)
            assert len(listener.names) == 51, "50 are open"
            assert await position(world, "h") == 1
            go_on.set()
            await wait_until(lambda: _is_at(world, "h", 62), PATIENT, step_seconds=0.1)
        assert sorted(listener.names) == sorted(["first", "slow", *map(str, range(60))])

    play(tmp_path, story, simulated=True)


def test_a_retried_slow_call_delays_no_other(tmp_path: Path) -> None:
    """A parked event that is slow when it is tried again occupies one of the calls, not the handler."""

    async def story(world: World) -> None:
        async def fails_then_hangs(name: str) -> None:
            if name == "bad" and listener.names.count("bad") == 1:
                raise ValueError("no")
            if name == "bad":
                await asyncio.Event().wait()

        listener = Listener(fails_then_hangs)
        async with routed(world) as (router, _):
            router.handle(Published, listener.handle, name="h", from_start=True, concurrency=2, timeout_seconds=3600.0)
            await publish(world, "bad")
            await wait_until(lambda: listener.names.count("bad") == 2, PATIENT, step_seconds=0.1)
            await publish(world, "good")
            await wait_until(lambda: "good" in listener.names, 10.0)

    play(tmp_path, story, simulated=True)


async def _cling(release: asyncio.Event, name: str) -> None:
    """A call for the event *bad* ignores that it is cancelled, until it is released."""
    while name == "bad" and not release.is_set():
        with suppress(asyncio.CancelledError):
            await release.wait()


def test_a_call_that_cannot_be_cancelled_is_left_behind(tmp_path: Path) -> None:
    """Its event is parked, the next one is handled, and an alert and health tell of it until it returns."""

    async def story(world: World) -> None:
        release = asyncio.Event()

        listener = Listener(partial(_cling, release))
        async with routed(world) as (router, _):
            router.handle(Published, listener.handle, name="h", from_start=True, timeout_seconds=60.0)
            await publish(world, "bad", "good")
            await wait_until(lambda: listener.names == ["bad", "good"], PATIENT, step_seconds=0.1)
            [health] = router.health()
            assert (health.status, health.reason) == (
                Status.DEGRADED,
                "1 calls have not returned after their 60 s",
            )
            await wait_until(lambda: _is_at(world, "h", 2), PATIENT, step_seconds=0.1)
            [parked] = await deliveries(world)
            assert parked.state == "parked"
            assert "took longer than 60 s" in parked.error
            release.set()
            await wait_until(lambda: router.health() == [], PATIENT, step_seconds=0.1)
        kinds = [type(event) for event in await world.events(alert.Raised, alert.Cleared)]
        assert kinds == [alert.Raised, alert.Cleared]

    play(tmp_path, story, simulated=True)


def test_a_call_that_is_left_behind_holds_back_its_source(tmp_path: Path) -> None:
    """With ordered, later events of the same source wait behind one whose call cannot be ended."""

    async def story(world: World) -> None:
        release = asyncio.Event()

        listener = Listener(partial(_cling, release))
        async with routed(world) as (router, _):
            options = {"from_start": True, "timeout_seconds": 0.5, "ordered": True}
            router.handle(Published, listener.handle, name="h", **options)  # type: ignore[arg-type]  # of mixed types
            await publish(world, "bad", "good")
            await wait_until(lambda: _is_at(world, "h", 2), PATIENT, step_seconds=0.1)
            assert listener.names == ["bad"]
            release.set()
            await wait_until(lambda: listener.names == ["bad", "bad", "good"], PATIENT, step_seconds=0.1)

    play(tmp_path, story, simulated=True)


def test_calls_that_are_left_behind_are_bounded(tmp_path: Path) -> None:
    """When too many calls hang the handler gets no more events and is unhealthy; one that returns helps."""

    async def story(world: World) -> None:
        release = asyncio.Event()

        async def clings(name: str) -> None:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

        listener = Listener(clings)
        async with routed(world, batch=4) as (router, _):
            router.handle(Published, listener.handle, name="h", from_start=True, timeout_seconds=1.0)
            await publish(world, *map(str, range(100)))
            await wait_until(
                lambda: [health.status for health in router.health()] == [Status.UNHEALTHY], PATIENT, step_seconds=0.1
            )
            began = asyncio.get_running_loop().time()
            await wait_until(lambda: asyncio.get_running_loop().time() - began > 1000.0, PATIENT, step_seconds=0.1)
            assert len(listener.names) == _LEFT_BEHIND_MAX
            release.set()
            await wait_until(lambda: _is_at(world, "h", 100), PATIENT, step_seconds=0.1)
            await wait_until(lambda: router.health() == [], PATIENT, step_seconds=0.1)

    play(tmp_path, story, simulated=True)


def test_a_thread_that_hangs_is_counted(tmp_path: Path) -> None:
    """A plain function cannot be cancelled: its event is parked at the time limit, and health counts the thread."""

    async def story(world: World) -> None:
        release, names = threading.Event(), list[str]()

        def blocks(event: Event, envelope: Envelope, key: str) -> None:
            assert isinstance(event, Published)
            names.append(event.event)
            if event.event == "bad":
                release.wait(30.0)

        router = Router(world.store, world.clock, world.envelopes, BusSettings(poll_seconds=0.01))
        router.handle(Published, blocks, name="h", from_start=True, timeout_seconds=0.05)
        try:
            await publish(world, "bad", "good")
            await wait_until(lambda: names == ["bad", "good"])
            assert [health.reason for health in router.health()] == ["1 calls have not returned after their 0.05 s"]
            release.set()
            await wait_until(lambda: router.health() == [])
        finally:
            release.set()
            await router.close()

    play(tmp_path, story)


def test_a_reaction_that_meets_a_busy_store_is_not_parked(tmp_path: Path) -> None:
    """The error says nothing about the event: its reader stays where it is, and the event is delivered later."""

    async def story(world: World) -> None:
        events: list[Event] = []
        errors: list[Exception] = [LOCKED, Backpressure("store", 1), NoRoom("/")]

        async def react(event: Event, envelope: Envelope, tx: object) -> None:
            if errors:
                raise errors.pop()
            events.append(event)

        reader = Reader(name="r", event_names=frozenset({Published.name()}), react=react)
        await publish(world, "a")
        at = await world.router.deliverer.register(reader)
        for _ in range(3):
            with pytest.raises((Busy, Backpressure, NoRoom)):
                await world.router.deliverer.deliver_batch(reader, at)
        assert await world.router.deliverer.deliver_batch(reader, at) == 1
        assert (len(events), await deliveries(world)) == (1, [])

    play(tmp_path, story)
