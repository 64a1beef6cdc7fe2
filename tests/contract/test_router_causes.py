"""Causes: an event published because of another records that, and a loop of causes is stopped."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from contract.engines import Engine, ManualClock, settle
from contract.subscribers import (
    Subscriber,
    envelopes,
    failed_deliveries,
    finished,
    log,
    lost,
    progressed,
    reader_position,
    routed,
    served,
)
from ringrift.bus.delivery import Reader
from ringrift.bus.router import Router
from ringrift.bus.trace import _DEPTH_MAX
from ringrift.events import custom, data, training, work
from ringrift.events.base import Envelope, Event
from ringrift.kernel.errors import LoopDetected
from ringrift.store.ports import Delivery, Store, Tx
from wait import wait_until

Answer = Callable[[Event], Event]


class Echo:
    """Answers an event with another, as a live subscriber, as a handler or as a reaction."""

    def __init__(self, bus: Router, answer: Answer) -> None:
        self._bus, self._answer = bus, answer
        self._envelopes = envelopes("n1", ManualClock())
        self.errors: list[Exception] = []

    async def live(self, event: Event, envelope: Envelope) -> None:
        """Answer, and record the error if that failed."""
        try:
            await self._bus.publish(self._answer(event))
        except LoopDetected as loop:
            self.errors.append(loop)
            raise

    async def durable(self, event: Event, envelope: Envelope, key: str) -> None:
        """The same as a handler."""
        await self.live(event, envelope)

    def plain(self, event: Event, envelope: Envelope, key: str = "") -> None:
        """The same in a thread."""
        self._bus.post(self._answer(event)).result(10)

    async def react(self, event: Event, envelope: Envelope, tx: Tx) -> None:
        """The same in a transaction, with an explicit cause or without."""
        cause = envelope if envelope.depth % 2 else None
        await tx.append([self._envelopes.make(self._answer(event), cause=cause)])


async def as_live(bus: Router, echo: Echo, spec: type[Event]) -> None:
    """Subscribe in this process."""
    bus.subscribe(spec, echo.live, name="echo")


async def as_plain_live(bus: Router, echo: Echo, spec: type[Event]) -> None:
    """Subscribe in this process and in threads."""
    bus.subscribe(spec, echo.plain, name="echo")


async def as_handler(bus: Router, echo: Echo, spec: type[Event]) -> None:
    """Register a durable handler."""
    bus.handle(spec, echo.durable, name="echo")


async def as_plain_handler(bus: Router, echo: Echo, spec: type[Event]) -> None:
    """Register a durable handler that runs in threads."""
    bus.handle(spec, echo.plain, name="echo")


REGISTER_WAYS = [as_live, as_plain_live, as_handler, as_plain_handler]
Register = Callable[[Router, Echo, type[Event]], Awaitable[None]]


def check_cause(first: Envelope, second: Envelope) -> None:
    """*second* was published because of *first*."""
    assert (second.cause, second.depth) == (first.id, first.depth + 1)
    assert (second.trace, second.correlation) == (first.trace, first.correlation)


@pytest.mark.parametrize("register", REGISTER_WAYS)
def test_an_event_published_while_handling_records_its_cause(on_file: Engine, register: Register) -> None:
    """An event that a subscriber publishes carries the event it was handling, its trace and its depth."""

    async def story(store: Store) -> tuple[Envelope, ...]:
        async with routed(store) as bus:
            await register(bus, Echo(bus, lambda event: finished("answer")), data.Lost)
            first, other = await bus.publish(lost("a")), await bus.publish(lost("b"))
            await wait_until(lambda: store.position == 4)
            return (
                first,
                other,
                *[envelope for envelope in await log(store) if envelope.name == training.Finished.name()],
            )

    first, other, answer, second = on_file.run(story)

    check_cause(first, answer)
    check_cause(other, second)
    assert (first.cause, first.depth, first.correlation) == ("", 0, first.id)
    assert first.trace != other.trace


def test_an_event_published_in_a_reaction_records_its_cause(engine: Engine) -> None:
    """The same holds inside a transaction, and through a chain of both kinds."""

    async def story(store: Store) -> list[Envelope]:
        async with routed(store) as bus:
            echo = Echo(bus, lambda event: finished("answer"))
            bus.handle(training.Finished, Echo(bus, lambda event: progressed("end")).durable, name="last")
            subscriber = Subscriber()
            bus.subscribe(work.Progressed, subscriber.live)
            async with served(bus, Reader(name="r", event_names=frozenset({data.Lost.name()}), react=echo.react)):
                await bus.publish(lost("a"))
                await wait_until(lambda: bool(subscriber.envelopes))
            return [*await log(store), *subscriber.envelopes]

    first, second, third = engine.run(story)

    check_cause(first, second)
    check_cause(second, third)


def test_an_event_published_outside_begins_its_own_trace(engine: Engine) -> None:
    """Publishing outside of any subscriber has no cause, even while one runs in the same process."""

    async def story(store: Store) -> list[str]:
        go_on = asyncio.Event()
        async with routed(store) as bus:
            subscriber = Subscriber(lambda event: go_on.wait())
            bus.subscribe(data.Lost, subscriber.live)
            published = [await bus.publish(lost("a"))]
            await wait_until(lambda: subscriber.received == ["a"])
            published += [await bus.publish(lost("b")), await bus.publish(custom.Published(event="MY_OWN"))]
            go_on.set()
            return [envelope.cause for envelope in published]

    assert engine.run(story) == ["", "", ""]


def same(event: Event) -> Event:
    """The trigger itself."""
    return event


async def stopped(store: Store, bus: Router) -> tuple[list[int], list[Delivery]]:
    """Wait until the loop has ended, and a little longer; the depths of its events, and the failed deliveries."""
    await wait_until(lambda: store.position >= _DEPTH_MAX + 1)
    for _ in range(10):
        await settle()
        await log(store)
    return [row.depth for row in await log(store) if row.name == data.Lost.name()], [*await failed_deliveries(store)]


@pytest.mark.parametrize("register", [as_live, as_plain_live])
def test_a_subscriber_that_publishes_its_own_trigger_is_stopped(on_file: Engine, register: Register) -> None:
    """A live loop ends at depth 32 with LoopDetected, which is counted, after 33 events in the log."""

    async def story(store: Store) -> tuple[list[int], list[Delivery], int, str]:
        async with routed(store) as bus:
            await register(bus, Echo(bus, same), data.Lost)
            await bus.publish(lost("a"))
            depths, result = await stopped(store, bus)
            await wait_until(lambda: bus.subscriptions[0].failed > 0)
            [counts] = bus.subscriptions
            return depths, result, counts.failed, counts.error

    depths, result, failed, error = on_file.run(story)

    assert depths == list(range(_DEPTH_MAX + 1))
    assert (result, failed) == ([], 1)
    assert error.startswith("LoopDetected: event data.lost")


def test_a_loop_in_memory_is_stopped(on_file: Engine) -> None:
    """A loop of events that are not logged ends at the same depth."""
    subscriber = Subscriber()

    async def story(store: Store) -> tuple[int, str]:
        async with routed(store) as bus:
            echo = Echo(bus, same)
            bus.subscribe(work.Progressed, subscriber.live)
            bus.subscribe(work.Progressed, echo.live, name="echo")
            bus.publish_memory(progressed("again"))
            await wait_until(lambda: bool(echo.errors))
            await settle()
            counts = {subscription.name: subscription for subscription in bus.subscriptions}
            return counts["echo"].failed, counts["echo"].error[:12]

    assert on_file.run(story) == (1, "LoopDetected")
    assert [envelope.depth for envelope in subscriber.envelopes] == list(range(_DEPTH_MAX + 1))


@pytest.mark.parametrize("register", [as_handler, as_plain_handler])
def test_a_handler_that_publishes_its_own_trigger_is_stopped(on_file: Engine, register: Register) -> None:
    """A loop through a handler ends at depth 32; its delivery is dead at once, because a retry would loop again."""

    async def story(store: Store) -> tuple[list[int], list[Delivery]]:
        async with routed(store) as bus:
            await register(bus, Echo(bus, same), data.Lost)
            await bus.publish(lost("a"))
            await wait_until(lambda: store.position >= _DEPTH_MAX + 2)  # the last event is of the delivery
            return await stopped(store, bus)

    depths, [delivery] = on_file.run(story)

    assert depths == list(range(_DEPTH_MAX + 1))
    assert (delivery.state, delivery.attempts, delivery.position) == ("dead", 1, _DEPTH_MAX + 1)
    assert "LoopDetected" in delivery.error


def test_a_reaction_that_publishes_its_own_trigger_is_stopped(engine: Engine) -> None:
    """A loop through a reaction ends the same way, and the reader continues after it."""

    async def story(store: Store) -> tuple[list[int], list[Delivery]]:
        async with routed(store) as bus:
            reader = Reader(name="r", event_names=frozenset({data.Lost.name()}), react=Echo(bus, same).react)
            async with served(bus, reader):
                await bus.publish(lost("a"))

                async def is_level() -> bool:
                    return await reader_position(store, "r") == _DEPTH_MAX + 2

                await wait_until(is_level)
                return await stopped(store, bus)

    depths, [delivery] = engine.run(story)

    assert depths == list(range(_DEPTH_MAX + 1))
    assert (delivery.state, delivery.attempts, delivery.position) == ("dead", 1, _DEPTH_MAX + 1)
    assert "LoopDetected" in delivery.error


def test_two_handlers_that_trigger_each_other_are_stopped(on_file: Engine) -> None:
    """A loop of two handlers is one loop: together they publish no more than one alone."""

    async def story(store: Store) -> tuple[list[int], list[str]]:
        async with routed(store) as bus:
            bus.handle(data.Lost, Echo(bus, lambda event: finished("pong")).durable, name="ping")
            bus.handle(training.Finished, Echo(bus, lambda event: lost("ping")).durable, name="pong")
            await bus.publish(lost("a"))
            await wait_until(lambda: store.position >= _DEPTH_MAX + 2)
            await stopped(store, bus)
            reported = [
                envelope.depth
                for envelope in await log(store)
                if envelope.name in (data.Lost.name(), training.Finished.name())
            ]
            return reported, [delivery.state for delivery in await failed_deliveries(store)]

    assert on_file.run(story) == (list(range(_DEPTH_MAX + 1)), ["dead"])
