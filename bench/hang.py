"""Isolation: how fast ten subscribers or handlers get an event while others hang, against the same without those."""

import asyncio
import statistics
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

from bench import parts
from bench.measure import Contest, Line, Metrics, Side
from ringrift.bus.router import Router
from ringrift.events.base import Envelope, Event
from ringrift.events.selfplay import BatchFinished

KINDS = ("subscribers", "handlers")
RECEIVERS = 10
EVENTS = {"subscribers": 500, "handlers": 150}
WARM_UP_EVENTS = 50
HANG_SECONDS = 30.0
RATIO_MAX = 2.0


class Receivers:
    """Ten subscribers or handlers that note how long each event took to reach each of them."""

    def __init__(self, router: Router, kind: str) -> None:
        self._router = router
        self._start, self._missing, self._complete = 0.0, 0, asyncio.Event()
        self._seconds: list[float] = []
        for number in range(RECEIVERS):
            if kind == "handlers":
                router.handle(BatchFinished, self._handle, name=f"receiver{number}")
            else:
                router.subscribe(BatchFinished, self._receive)

    async def _receive(self, event: Event, envelope: Envelope) -> None:
        self._seconds.append(time.perf_counter() - self._start)
        self._missing -= 1
        if not self._missing:
            self._complete.set()

    async def _handle(self, event: Event, envelope: Envelope, key: str) -> None:
        await self._receive(event, envelope)

    async def p99(self, events: int) -> float:
        """Publish events one by one; the milliseconds within which 99 of 100 deliveries began."""
        self._seconds.clear()
        for number in range(events):
            self._missing = RECEIVERS
            self._complete.clear()
            self._start = time.perf_counter()
            await self._router.publish(parts.event(number))
            await self._complete.wait()
        return statistics.quantiles(self._seconds, n=100)[98] * 1000


@asynccontextmanager
async def _hanging(router: Router) -> AsyncIterator[None]:
    """A subscriber, a handler and a plain function in a thread, all of which hang in their first call."""
    release, calls = threading.Event(), 0

    async def sleep(event: Event, envelope: Envelope) -> None:
        nonlocal calls
        calls += 1
        await asyncio.sleep(HANG_SECONDS)

    async def handle(event: Event, envelope: Envelope, key: str) -> None:
        await sleep(event, envelope)

    def block(event: Event, envelope: Envelope) -> None:
        nonlocal calls
        calls += 1
        release.wait(HANG_SECONDS)

    router.handle(BatchFinished, handle, name="hanging")
    subscriptions = [router.subscribe(BatchFinished, function) for function in (sleep, block)]
    await router.publish(parts.event(0))
    while calls < 3:  # noqa: ASYNC110 - not measured
        await asyncio.sleep(0.001)
    try:
        yield
        assert calls == 3, "a hanging call has ended: the measurement took too long"
    finally:
        release.set()
        for subscriber in (*subscriptions, "hanging"):
            await router.unsubscribe(subscriber)


async def _measure(folder: Path, kind: str, *, hang: bool) -> Metrics:
    async with parts.ours(folder / "log.db") as ours:
        if not hang:
            receivers = Receivers(ours.router, kind)
            await receivers.p99(WARM_UP_EVENTS)
            return {"p99": await receivers.p99(EVENTS[kind])}
        async with _hanging(ours.router):
            receivers = Receivers(ours.router, kind)
            await receivers.p99(WARM_UP_EVENTS)
            return {"p99": await receivers.p99(EVENTS[kind])}


@contextmanager
def _open(_: Path) -> Iterator[Mapping[str, Side]]:
    def side(folder: Path, *, kind: str, hang: bool) -> Metrics:
        return asyncio.run(_measure(folder, kind, hang=hang))

    yield {f"{kind}{', hang' * hang}": partial(side, kind=kind, hang=hang) for kind in KINDS for hang in (False, True)}


ISOLATION = Contest(
    name="hang",
    open=_open,
    lines=tuple(
        Line(
            f"hang, {kind}",
            f"p99 until ten {kind} have an event while others hang; without those",
            "ms",
            "p99",
            f"{kind}, hang",
            kind,
            ratio_max=RATIO_MAX,
        )
        for kind in KINDS
    ),
)
