"""Fan-out: events to 1 and to 10 subscribers of this process, until every one of them has heard every event.

Everybody makes the same event, says a burst of them, and waits until each subscriber has heard the last.
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
"""Events that are said before anybody waits: as many as the queue of bubus takes."""
EVENTS = {"ours": 10_000, "await": 10_000, "queues": 10_000, "pyee": 2_000, "bubus": 50}
"""Events in a round: fewer for who is slow."""
ALONE = 2_000
"""Events in a round of those that are said one by one."""
PUBLISHERS, EACH = 64, 60
SECONDS_MAX = 60.0
# Apart from everything else in the environment: one of them would bring its plugin into every run of pytest.
PEERS = Path(sys.prefix) / "peers"
JOB = "01JABCDEFGHJKMNPQRSTVWXY"

Say = Callable[[int], Any]


class Ear:
    """A subscriber that does as little as one can."""

    def __init__(self) -> None:
        self.heard = 0

    async def hear(self, *_: object) -> None:
        """Count."""
        self.heard += 1


def _event(number: int) -> Progressed:
    return Progressed(job=JOB, kind="play", variant=parts.VARIANT, node=parts.NODE, done=number / 1e6)


async def _heard(ears: Sequence[Ear], count: int) -> None:
    """Let the others run until each has heard *count* events."""
    for ear in ears:
        while ear.heard < count:  # noqa: ASYNC110 - to set an event costs a subscriber more than to hear one
            await asyncio.sleep(0)


async def _bursts(say: Say, ears: Sequence[Ear], events: int, burst: int) -> Metrics:
    watch = Stopwatch()
    for first in range(0, events, burst):
        for number in range(first, first + burst):
            say(number)
        await _heard(ears, first + burst)
    reached = watch.per(events)
    assert all(ear.heard == events for ear in ears)
    return reached


async def _ours(folder: Path, ears: Sequence[Ear], events: int, burst: int) -> Metrics:
    async with parts.ours(folder / "log.db") as ours:
        for ear in ears:
            ours.router.subscribe(Progressed, ear.hear)
        return await _bursts(lambda number: ours.router.tell(_event(number)), ears, events, burst)


async def _awaited(_: Path, ears: Sequence[Ear], events: int, burst: int) -> Metrics:
    """The least there is: the publisher awaits one subscriber after the other."""
    hears = [ear.hear for ear in ears]
    watch = Stopwatch()
    for number in range(events):
        event = _event(number)
        for hear in hears:
            await hear(event)
    return watch.per(events)


async def _queues(_: Path, ears: Sequence[Ear], events: int, burst: int) -> Metrics:
    """A queue and a task for each subscriber, as one writes it with asyncio alone."""
    queues: list[asyncio.Queue[Progressed]] = [asyncio.Queue() for _ in ears]

    async def drain(queue: asyncio.Queue[Progressed], hear: Callable[..., Awaitable[None]]) -> None:
        while True:
            await hear(await queue.get())

    def say(number: int) -> None:
        event = _event(number)
        for queue in queues:
            queue.put_nowait(event)

    tasks = [asyncio.create_task(drain(queue, ear.hear)) for queue, ear in zip(queues, ears, strict=True)]
    try:
        return await _bursts(say, ears, events, burst)
    finally:
        for task in tasks:
            task.cancel()


async def _pyee(_: Path, ears: Sequence[Ear], events: int, burst: int) -> Metrics:
    from pyee.asyncio import AsyncIOEventEmitter

    emitter = AsyncIOEventEmitter()
    for ear in ears:
        emitter.on("progressed", ear.hear)
    return await _bursts(lambda number: emitter.emit("progressed", _event(number)), ears, events, burst)


async def _bubus(_: Path, ears: Sequence[Ear], events: int, burst: int) -> Metrics:
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
        for ear in ears:
            bus.on(Moved, ear.hear)
    watch = Stopwatch()
    for first in range(0, events, burst):
        said = [
            bus.dispatch(Moved(job=JOB, kind="play", variant=parts.VARIANT, node=parts.NODE, done=number / 1e6))
            for number in range(first, first + burst)
        ]
        for event in said:
            await event
    reached = watch.per(events)
    assert all(ear.heard == events for ear in ears)
    await bus.stop(clear=True)
    return reached


Fan = Callable[[Path, Sequence[Ear], int, int], Awaitable[Metrics]]
FANS: Mapping[str, Fan] = {"ours": _ours, "await": _awaited, "queues": _queues, "pyee": _pyee, "bubus": _bubus}


def _once(folder: Path, *, fan: Fan, subscribers: int, events: int, burst: int) -> Metrics:
    async def run() -> Metrics:
        async with asyncio.timeout(SECONDS_MAX):
            return await fan(folder, [Ear() for _ in range(subscribers)], events, burst)

    return asyncio.run(run())


@contextmanager
def _memory(_: Path) -> Iterator[Mapping[str, Side]]:
    sys.path.append(str(PEERS))
    try:
        yield {
            f"{who}, {count}": partial(_once, fan=fan, subscribers=count, events=EVENTS[who], burst=BURST)
            for who, fan in FANS.items()
            for count in SUBSCRIBERS
        } | {
            f"{who}, alone": partial(_once, fan=FANS[who], subscribers=10, events=ALONE, burst=1)
            for who in ("ours", "queues", "pyee")
        }
    finally:
        sys.path.remove(str(PEERS))


# -- through the log ---------------------------------------------------------------------------------------------------


async def _durable(folder: Path, subscribers: int) -> Metrics:
    ears = [Ear() for _ in range(subscribers)]
    async with parts.ours(folder / "log.db") as ours, asyncio.timeout(SECONDS_MAX):
        for ear in ears:
            ours.router.subscribe(BatchFinished, ear.hear)

        async def publish(first: int) -> None:
            for number in range(first, first + EACH):
                await ours.router.publish(parts.event(number))

        watch = Stopwatch()
        await asyncio.gather(*(publish(publisher * EACH) for publisher in range(PUBLISHERS)))
        await _heard(ears, PUBLISHERS * EACH)
        return watch.per(PUBLISHERS * EACH)


@contextmanager
def _log(_: Path) -> Iterator[Mapping[str, Side]]:
    def side(subscribers: int) -> Side:
        return lambda folder: asyncio.run(_durable(folder, subscribers))

    yield {str(count): side(count) for count in (0, *SUBSCRIBERS)}


def _lines() -> Iterator[Line]:
    floor = {1: 200_000.0, 10: 100_000.0}
    wanted = {("pyee", 10): 5.0, ("bubus", 10): 300.0}
    names = {
        "await": "plain `await`, one after the other", "queues": "a queue and a task each", "pyee": "pyee",
        "bubus": "bubus",
    }  # fmt: skip
    for count in SUBSCRIBERS:
        many = f"{count} subscriber{'s' if count > 1 else ''}"
        for who, name in names.items():
            yield Line(
                f"fanout {count}, {who}", f"memory events to {many}; {name}", "events/s", "rate", f"ours, {count}",
                f"{who}, {count}", ratio_min=wanted.get((who, count)),
                ours_min=floor[count] if who == "await" else None,
            )  # fmt: skip
    yield Line("fanout, CPU", "memory events to 10 subscribers in CPU time; a queue and a task each", "µs", "cpu",
               "ours, 10", "queues, 10", recorded=True)  # fmt: skip
    for who in ("queues", "pyee"):
        yield Line(
            f"fanout alone, {who}", f"the same, each event heard before the next is said; {names[who]}", "events/s",
            "rate", "ours, alone", f"{who}, alone",
        )  # fmt: skip


MEMORY = Contest(name="fanout", open=_memory, lines=tuple(_lines()))
LIVE = Contest(
    name="live",
    open=_log,
    lines=tuple(
        Line(f"live {count}", f"durable publish until {count} live have heard it; with nobody listening", "events/s",
             "rate", str(count), "0")
        for count in SUBSCRIBERS
    ),
)  # fmt: skip
