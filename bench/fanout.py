"""Fan-out: events to 1 and to 10 subscribers of this process, until every subscriber has received every event.

Every side makes the same event, publishes a burst of them, and waits until each subscriber has received the last.
"""

import asyncio
import sys
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench import parts
from bench.measure import Contest, Line, Metrics, Side, Stopwatch
from ringrift.events.selfplay import BatchFinished
from ringrift.events.work import Progressed

SUBSCRIBERS = (1, 10)
BURST = 50
"""Events of one burst: as many as the queue of bubus takes."""
EVENTS = {"ours": 10_000, "await": 10_000, "queues": 10_000, "pyee": 2_000, "bubus": 50}
"""Events in a round: fewer for slow peers."""
ALONE = 2_000
"""Events in a round in which each is published after the last was received."""
PUBLISHERS, EACH = 64, 60
SECONDS_MAX = 60.0
# Apart from everything else in the environment: one of them would bring its plugin into every run of pytest.
PEERS = Path(sys.prefix) / "peers"
JOB = "01JABCDEFGHJKMNPQRSTVWXY"

Publish = Callable[[int], Any]


class Subscriber:
    """A subscriber that only counts."""

    def __init__(self) -> None:
        self.received = 0

    async def receive(self, *_: object) -> None:
        """Count one event."""
        self.received += 1


def _event(number: int) -> Progressed:
    return Progressed(job=JOB, kind="play", variant=parts.VARIANT, node=parts.NODE, done=number / 1e6)


async def _wait_for_all(listeners: Sequence[Subscriber], count: int) -> None:
    """Yield to other tasks until each has received *count* events."""
    for listener in listeners:
        while listener.received < count:  # noqa: ASYNC110 - setting an event would cost a subscriber more than receiving one
            await asyncio.sleep(0)


async def _bursts(send: Publish, listeners: Sequence[Subscriber], events: int, burst: int) -> Metrics:
    watch = Stopwatch()
    for first in range(0, events, burst):
        for number in range(first, first + burst):
            send(number)
        await _wait_for_all(listeners, first + burst)
    reached = watch.per(events)
    assert all(listener.received == events for listener in listeners)
    return reached


async def _ours(folder: Path, listeners: Sequence[Subscriber], events: int, burst: int) -> Metrics:
    async with parts.ours(folder / "log.db") as ours:
        for listener in listeners:
            ours.router.subscribe(Progressed, listener.receive)
        return await _bursts(lambda number: ours.router.publish_memory(_event(number)), listeners, events, burst)


async def _plain_await(_: Path, listeners: Sequence[Subscriber], events: int, burst: int) -> Metrics:
    """The minimum: the publisher awaits one subscriber after the other."""
    functions = [listener.receive for listener in listeners]
    watch = Stopwatch()
    for number in range(events):
        event = _event(number)
        for receive in functions:
            await receive(event)
    return watch.per(events)


async def _queues(_: Path, listeners: Sequence[Subscriber], events: int, burst: int) -> Metrics:
    """A queue and a task for each subscriber, with asyncio alone."""
    queues: list[asyncio.Queue[Progressed]] = [asyncio.Queue() for _ in listeners]

    async def drain(queue: asyncio.Queue[Progressed], receive: Callable[..., Awaitable[None]]) -> None:
        while True:
            await receive(await queue.get())

    def send(number: int) -> None:
        event = _event(number)
        for queue in queues:
            queue.put_nowait(event)

    tasks = [
        asyncio.create_task(drain(queue, listener.receive)) for queue, listener in zip(queues, listeners, strict=True)
    ]
    try:
        return await _bursts(send, listeners, events, burst)
    finally:
        for task in tasks:
            task.cancel()


async def _pyee(_: Path, listeners: Sequence[Subscriber], events: int, burst: int) -> Metrics:
    from pyee.asyncio import AsyncIOEventEmitter

    emitter = AsyncIOEventEmitter()
    for listener in listeners:
        emitter.on("progressed", listener.receive)
    return await _bursts(lambda number: emitter.emit("progressed", _event(number)), listeners, events, burst)


async def _bubus(_: Path, listeners: Sequence[Subscriber], events: int, burst: int) -> Metrics:
    """Typed events with a history; whether they are done is awaited as its authors do it."""
    from bubus import BaseEvent, EventBus

    class Moved(BaseEvent[None]):
        job: str
        kind: str
        variant: str
        node: str
        done: float

    bus = EventBus()
    with warnings.catch_warnings(action="ignore"):  # subscribers of one name
        for listener in listeners:
            bus.on(Moved, listener.receive)
    watch = Stopwatch()
    for first in range(0, events, burst):
        dispatched = [
            bus.dispatch(Moved(job=JOB, kind="play", variant=parts.VARIANT, node=parts.NODE, done=number / 1e6))
            for number in range(first, first + burst)
        ]
        for event in dispatched:
            await event
    reached = watch.per(events)
    assert all(listener.received == events for listener in listeners)
    await bus.stop(clear=True)
    return reached


Fan = Callable[[Path, Sequence[Subscriber], int, int], Awaitable[Metrics]]
FANS: Mapping[str, Fan] = {"ours": _ours, "await": _plain_await, "queues": _queues, "pyee": _pyee, "bubus": _bubus}


def _once(folder: Path, *, fan: Fan, subscribers: int, events: int, burst: int) -> Metrics:
    async def run() -> Metrics:
        async with asyncio.timeout(SECONDS_MAX):
            return await fan(folder, [Subscriber() for _ in range(subscribers)], events, burst)

    return asyncio.run(run())


@contextmanager
def _memory(_: Path) -> Iterator[Mapping[str, Side]]:
    sys.path.append(str(PEERS))
    try:
        yield {
            f"{peer}, {count}": partial(_once, fan=fan, subscribers=count, events=EVENTS[peer], burst=BURST)
            for peer, fan in FANS.items()
            for count in SUBSCRIBERS
        } | {
            f"{peer}, alone": partial(_once, fan=FANS[peer], subscribers=10, events=ALONE, burst=1)
            for peer in ("ours", "queues", "pyee")
        }
    finally:
        sys.path.remove(str(PEERS))


# -- through the log ---------------------------------------------------------------------------------------------------


async def _durable(folder: Path, subscribers: int) -> Metrics:
    listeners = [Subscriber() for _ in range(subscribers)]
    async with parts.ours(folder / "log.db") as ours, asyncio.timeout(SECONDS_MAX):
        for listener in listeners:
            ours.router.subscribe(BatchFinished, listener.receive)

        async def publish(first: int) -> None:
            for number in range(first, first + EACH):
                await ours.router.publish(parts.event(number))

        watch = Stopwatch()
        await asyncio.gather(*(publish(publisher * EACH) for publisher in range(PUBLISHERS)))
        await _wait_for_all(listeners, PUBLISHERS * EACH)
        return watch.per(PUBLISHERS * EACH)


@contextmanager
def _log(_: Path) -> Iterator[Mapping[str, Side]]:
    def side(subscribers: int) -> Side:
        return lambda folder: asyncio.run(_durable(folder, subscribers))

    yield {str(count): side(count) for count in (0, *SUBSCRIBERS)}


def _lines() -> Iterator[Line]:
    floor = {1: 200_000.0, 10: 100_000.0}
    ratios = {("pyee", 10): 5.0, ("bubus", 10): 300.0}
    names = {
        "await": "plain `await`, one after the other",
        "queues": "a queue and a task each",
        "pyee": "pyee",
        "bubus": "bubus",
    }
    for count in SUBSCRIBERS:
        many = f"{count} subscriber{'s' if count > 1 else ''}"
        for peer, name in names.items():
            yield Line(
                f"fanout {count}, {peer}",
                f"memory events to {many}; {name}",
                "events/s",
                "rate",
                f"ours, {count}",
                f"{peer}, {count}",
                ratio_min=ratios.get((peer, count)),
                ours_min=floor[count] if peer == "await" else None,
            )
    yield Line(
        "fanout, CPU",
        "memory events to 10 subscribers in CPU time; a queue and a task each",
        "µs",
        "cpu",
        "ours, 10",
        "queues, 10",
        recorded=True,
    )
    for peer in ("queues", "pyee"):
        yield Line(
            f"fanout alone, {peer}",
            f"the same, each event received before the next is published; {names[peer]}",
            "events/s",
            "rate",
            "ours, alone",
            f"{peer}, alone",
        )


MEMORY = Contest(name="fanout", open=_memory, lines=tuple(_lines()))
LIVE = Contest(
    name="live",
    open=_log,
    lines=tuple(
        Line(
            f"live {count}",
            f"durable publish until {count} live subscribers have it; without subscribers",
            "events/s",
            "rate",
            str(count),
            "0",
        )
        for count in SUBSCRIBERS
    ),
)
