"""Causes: what is said because of an event knows so, and what causes itself is stopped."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from contract.engines import Engine, HandClock, settle
from contract.listeners import Ear, finished, letters, log, lost, place, progressed, routed, scribe, served
from ringrift.bus.delivery import Reader
from ringrift.bus.router import Router
from ringrift.bus.trace import DEPTH_MAX
from ringrift.events import data, training, work
from ringrift.events.base import Envelope, Event
from ringrift.kernel.errors import LoopDetected
from ringrift.store.ports import Delivery, Store, Tx
from waiting import wait_until

Answer = Callable[[Event], Event]


class Echo:
    """Answers an event with another, as a live subscriber, as a handler or as a reaction."""

    def __init__(self, bus: Router, answer: Answer) -> None:
        self._bus, self._answer = bus, answer
        self._scribe = scribe("n1", HandClock())
        self.wrong: list[Exception] = []

    async def live(self, event: Event, envelope: Envelope) -> None:
        """Answer, and remember why that failed."""
        try:
            await self._bus.publish(self._answer(event))
        except LoopDetected as loop:
            self.wrong.append(loop)
            raise

    async def durable(self, event: Event, envelope: Envelope, key: str) -> None:
        """The same as a handler."""
        await self.live(event, envelope)

    def plain(self, event: Event, envelope: Envelope, key: str = "") -> None:
        """The same in a thread."""
        self._bus.post(self._answer(event)).result(10)

    async def react(self, event: Event, envelope: Envelope, tx: Tx) -> None:
        """The same in a transaction, with the cause given or not."""
        given = envelope if envelope.depth % 2 else None
        await tx.append([self._scribe.wrap(self._answer(event), cause=given)])


async def as_live(bus: Router, echo: Echo, asked: type[Event]) -> None:
    """Listen in this process."""
    bus.subscribe(asked, echo.live, name="echo")


async def as_plain_live(bus: Router, echo: Echo, asked: type[Event]) -> None:
    """Listen in this process and in threads."""
    bus.subscribe(asked, echo.plain, name="echo")


async def as_handler(bus: Router, echo: Echo, asked: type[Event]) -> None:
    """Listen durably."""
    bus.handle(asked, echo.durable, name="echo")


async def as_plain_handler(bus: Router, echo: Echo, asked: type[Event]) -> None:
    """Listen durably and in threads."""
    bus.handle(asked, echo.plain, name="echo")


EARS = [as_live, as_plain_live, as_handler, as_plain_handler]
Listen = Callable[[Router, Echo, type[Event]], Awaitable[None]]


def check_story(first: Envelope, second: Envelope) -> None:
    """*second* was said because of *first*."""
    assert (second.cause, second.depth) == (first.id, first.depth + 1)
    assert (second.trace, second.correlation) == (first.trace, first.correlation)


@pytest.mark.parametrize("listen", EARS)
def test_what_is_said_while_handling_knows_its_cause(on_file: Engine, listen: Listen) -> None:
    """An event that a listener publishes carries the event it was handling, its story and its depth."""

    async def story(store: Store) -> tuple[Envelope, ...]:
        async with routed(store) as bus:
            await listen(bus, Echo(bus, lambda event: finished("answer")), data.Lost)
            first, other = await bus.publish(lost("a")), await bus.publish(lost("b"))
            await wait_until(lambda: store.position == 4)
            return (first, other, *[one for one in await log(store) if one.name == training.Finished.name()])

    first, other, answer, second = on_file.run(story)

    check_story(first, answer)
    check_story(other, second)
    assert (first.cause, first.depth, first.correlation) == ("", 0, first.id)
    assert first.trace != other.trace


def test_what_is_said_in_a_reaction_knows_its_cause(engine: Engine) -> None:
    """The same holds inside a transaction, and through a chain of both kinds."""

    async def story(store: Store) -> list[Envelope]:
        async with routed(store) as bus:
            echo = Echo(bus, lambda event: finished("answer"))
            bus.handle(training.Finished, Echo(bus, lambda event: progressed("end")).durable, name="last")
            ear = Ear()
            bus.subscribe(work.Progressed, ear.live)
            async with served(bus, Reader(name="r", wants=frozenset({data.Lost.name()}), react=echo.react)):
                await bus.publish(lost("a"))
                await wait_until(lambda: bool(ear.envelopes))
            return [*await log(store), *ear.envelopes]

    first, second, third = engine.run(story)

    check_story(first, second)
    check_story(second, third)


def test_what_is_said_outside_begins_its_own_story(engine: Engine) -> None:
    """Publishing outside of any listener has no cause, even while one is at work in the same process."""

    async def story(store: Store) -> list[str]:
        go_on = asyncio.Event()
        async with routed(store) as bus:
            ear = Ear(lambda event: go_on.wait())
            bus.subscribe(data.Lost, ear.live)
            told = [await bus.publish(lost("a"))]
            await wait_until(lambda: ear.heard == ["a"])
            told += [await bus.publish(lost("b")), await bus.say("MY_OWN", {})]
            go_on.set()
            return [one.cause for one in told]

    assert engine.run(story) == ["", "", ""]


def same(event: Event) -> Event:
    """The trigger itself."""
    return event


async def stopped(store: Store, bus: Router) -> tuple[list[int], list[Delivery]]:
    """Wait until the loop is at its end, and a little longer; the depths of what it said, and the letters."""
    await wait_until(lambda: store.position >= DEPTH_MAX + 1)
    for _ in range(10):
        await settle()
        await bus.recent(1)
    return [one.depth for one in await log(store) if one.name == data.Lost.name()], [*await letters(store)]


@pytest.mark.parametrize("listen", [as_live, as_plain_live])
def test_a_subscriber_that_says_its_own_trigger_is_stopped(on_file: Engine, listen: Listen) -> None:
    """A live loop ends at depth 32 with LoopDetected, which is counted, after 33 events in the log."""

    async def story(store: Store) -> tuple[list[int], list[Delivery], int, str]:
        async with routed(store) as bus:
            await listen(bus, Echo(bus, same), data.Lost)
            await bus.publish(lost("a"))
            depths, found = await stopped(store, bus)
            await wait_until(lambda: bus.counts()[0].failed > 0)
            [counts] = bus.counts()
            return depths, found, counts.failed, counts.error

    depths, found, failed, error = on_file.run(story)

    assert depths == list(range(DEPTH_MAX + 1))
    assert (found, failed) == ([], 1)
    assert error.startswith("LoopDetected: event data.lost")


def test_a_loop_in_memory_is_stopped(on_file: Engine) -> None:
    """A loop of events that are in no log ends at the same depth."""
    ear = Ear()

    async def story(store: Store) -> tuple[int, str]:
        async with routed(store) as bus:
            echo = Echo(bus, same)
            bus.subscribe(work.Progressed, ear.live)
            bus.subscribe(work.Progressed, echo.live, name="echo")
            bus.tell(progressed("again"))
            await wait_until(lambda: bool(echo.wrong))
            await settle()
            counts = {one.name: one for one in bus.counts()}
            return counts["echo"].failed, counts["echo"].error[:12]

    assert on_file.run(story) == (1, "LoopDetected")
    assert [one.depth for one in ear.envelopes] == list(range(DEPTH_MAX + 1))


@pytest.mark.parametrize("listen", [as_handler, as_plain_handler])
def test_a_handler_that_says_its_own_trigger_is_stopped(on_file: Engine, listen: Listen) -> None:
    """A loop through a handler ends at depth 32; its letter is dead at once, for trying again would go round again."""

    async def story(store: Store) -> tuple[list[int], list[Delivery]]:
        async with routed(store) as bus:
            await listen(bus, Echo(bus, same), data.Lost)
            await bus.publish(lost("a"))
            await wait_until(lambda: store.position >= DEPTH_MAX + 2)  # the last one says what became of the letter
            return await stopped(store, bus)

    depths, [letter] = on_file.run(story)

    assert depths == list(range(DEPTH_MAX + 1))
    assert (letter.state, letter.attempts, letter.position) == ("dead", 1, DEPTH_MAX + 1)
    assert "LoopDetected" in letter.error


def test_a_reaction_that_says_its_own_trigger_is_stopped(engine: Engine) -> None:
    """A loop through a reaction ends the same way, and the reader goes on behind it."""

    async def story(store: Store) -> tuple[list[int], list[Delivery]]:
        async with routed(store) as bus:
            reader = Reader(name="r", wants=frozenset({data.Lost.name()}), react=Echo(bus, same).react)
            async with served(bus, reader):
                await bus.publish(lost("a"))

                async def is_level() -> bool:
                    return await place(store, "r") == DEPTH_MAX + 2

                await wait_until(is_level)
                return await stopped(store, bus)

    depths, [letter] = engine.run(story)

    assert depths == list(range(DEPTH_MAX + 1))
    assert (letter.state, letter.attempts, letter.position) == ("dead", 1, DEPTH_MAX + 1)
    assert "LoopDetected" in letter.error


def test_two_that_call_each_other_are_stopped_too(on_file: Engine) -> None:
    """A loop of two handlers is one loop: together they say no more than one alone."""

    async def story(store: Store) -> tuple[list[int], list[str]]:
        async with routed(store) as bus:
            bus.handle(data.Lost, Echo(bus, lambda event: finished("pong")).durable, name="ping")
            bus.handle(training.Finished, Echo(bus, lambda event: lost("ping")).durable, name="pong")
            await bus.publish(lost("a"))
            await wait_until(lambda: store.position >= DEPTH_MAX + 2)
            await stopped(store, bus)
            said = [one.depth for one in await log(store) if one.name in (data.Lost.name(), training.Finished.name())]
            return said, [letter.state for letter in await letters(store)]

    assert on_file.run(story) == (list(range(DEPTH_MAX + 1)), ["dead"])
