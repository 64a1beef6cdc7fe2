"""Subscription: a live listener with its own queue, order, concurrency and time limit.

    offer ─▶ queue (bounded) ─▶ one drainer for each that may run at once ─▶ await handler(event, envelope)

Who offers never waits: offering is an append.  A drainer awaits the handler itself, because a task for each event costs
more than most handlers do; a watchdog that looks a few times a second ends a handler that takes too long.
"""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from ringrift.bus import spans, trace
from ringrift.bus.delivery import attempt, attempt_plain
from ringrift.bus.trace import Context
from ringrift.bus.wants import Wants
from ringrift.events.base import Envelope, Event
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import Backpressure, TimedOut
from ringrift.kernel.value import Value
from ringrift.threads import Threads

Call = Callable[[Event, Envelope], Any]
Item = tuple[Event, Envelope, Context]
Gap = Callable[[Backpressure], None]
CatchUp = Callable[["Subscription"], Awaitable[None]]
YIELD_EVERY = 256
"""Events after which a drainer lets others run: handlers that never wait would keep the loop for themselves."""
LOOKS_PER_SECOND = 4.0
log = logging.getLogger(__name__)


class Counts(Value):
    """What a subscription has come to."""

    name: str
    delivered: int
    failed: int
    missed: int
    waiting: int
    error: str = ""


class _Drainer:
    """One of those that take from the queue."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None]
        self.envelope: Envelope
        self.taken = self.failures = 0
        self.busy = self.overdue = False


class Subscription:
    """Made by :meth:`ringrift.bus.router.Router.subscribe`."""

    def __init__(
        self, name: str, wants: Wants, call: Call, clock: Clock, threads: Threads, *,
        concurrency: int, queue_max: int, seconds_max: float, after: int, gap: Gap | None, catch_up: CatchUp,
    ) -> None:  # fmt: skip
        self.name, self.wants, self.place = name, wants, after
        self.behind = False
        """Too slow for its queue: it reads the log itself until it has caught up."""
        self.awaits = 0
        """The event that found no room first."""
        self._call = spans.watched(name, awaited(call, threads))
        self._clock, self._queue_max, self._seconds_max = clock, queue_max, seconds_max
        self._gap, self._catch_up = gap, catch_up
        self._queue: deque[tuple[Event, Envelope, Context]] = deque()
        self._awake = asyncio.Event()
        self._resting = False
        self._catching = False
        self._failed = self._missed = 0
        self._error = ""
        self._watchdog: asyncio.TimerHandle | None = None
        self._seen: dict[_Drainer, tuple[int, float]] = {}
        self._drainers = [_Drainer() for _ in range(concurrency)]
        for number, drainer in enumerate(self._drainers):
            drainer.task = asyncio.get_running_loop().create_task(self._drain(drainer), name=f"{name}:{number}")

    def offer(self, item: Item) -> None:
        """Put one event into the queue, or note that it has no room: never wait, never drop in silence."""
        position = item[1].position
        if len(self._queue) < self._queue_max:
            self._queue.append(item)
            if position:
                self.place = position
        elif not position:
            self.miss()
        elif not self.behind:
            self.behind, self.awaits = True, position
        if self._resting:
            self._resting = False
            self._awake.set()

    def miss(self) -> None:
        """An event cannot be had any more: it is in no log, or the log has dropped it.  The subscriber is told."""
        self._missed += 1
        pressure = Backpressure(f"the queue of {self.name}", self._queue_max)
        if self._gap is not None:
            _, wrong = attempt_plain(self._gap, pressure)
            if wrong is not None:
                log.warning("%s could not be told that it misses events", self.name, exc_info=wrong)
        elif self._missed == 1:
            log.warning("%s: events are missed", pressure)

    def counts(self) -> Counts:
        """What it has come to so far."""
        delivered = sum(drainer.taken - drainer.failures for drainer in self._drainers)
        return Counts(
            name=self.name, delivered=delivered, failed=self._failed, missed=self._missed,
            waiting=len(self._queue), error=self._error,
        )  # fmt: skip

    def end(self) -> list["asyncio.Task[None]"]:
        """Stop taking events; the tasks that end with it."""
        if self._watchdog is not None:
            self._watchdog.cancel()
        for drainer in self._drainers:
            drainer.task.cancel()
        return [drainer.task for drainer in self._drainers]

    # -- draining ------------------------------------------------------------------------------------------------------

    async def _drain(self, drainer: _Drainer) -> None:
        """Take from the queue for ever."""
        while True:
            drainer.busy = True
            self._watch()
            while self._queue:
                try:
                    wrong = await attempt(self._hand_over, drainer)
                except asyncio.CancelledError:
                    if not self._pardoned(drainer):
                        raise
                    wrong = TimedOut(self.name, self._seconds_max)
                if wrong is not None:
                    drainer.failures += 1
                    self._taken(drainer)
                    self.refuse(drainer.envelope, wrong)
            drainer.busy = False
            await self._rest()

    async def _hand_over(self, drainer: _Drainer) -> None:
        """Call for one event after the other until the queue is empty or a call fails.  Hot: a frame, a ``try`` or a
        task for each of them would cost as much as all the rest."""
        queue, call, enter = self._queue, self._call, trace.enter
        while queue:
            event, envelope, context = queue.popleft()
            drainer.envelope = envelope
            enter(context)
            await call(event, envelope)
            drainer.taken += 1
            if drainer.overdue:  # it ended by itself all the same
                self._pardoned(drainer)
            if drainer.taken % YIELD_EVERY == 0:
                await asyncio.sleep(0)

    def _taken(self, drainer: _Drainer) -> None:
        drainer.taken += 1
        if drainer.overdue:
            self._pardoned(drainer)

    async def _rest(self) -> None:
        """Wait for more, or catch up with the log if the queue was too short for it."""
        if self.behind and not self._catching:
            self._catching = True
            try:
                await self._catch_up(self)
            finally:
                self._catching = False
        else:
            self._awake.clear()
            self._resting = True
            await self._awake.wait()

    def _pardoned(self, drainer: _Drainer) -> bool:
        """Whether it was the watchdog that cancelled, and nobody else."""
        if not drainer.overdue:
            return False
        drainer.overdue = False
        return drainer.task.uncancel() == 0

    def refuse(self, envelope: Envelope, wrong: Exception) -> None:
        """Count a failure, and tell."""
        self._failed += 1
        self._error = f"{type(wrong).__name__}: {wrong}"
        log.warning("live subscriber %s failed on %s", self.name, envelope.name, exc_info=wrong)

    # -- the time limit ------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Look again soon, as long as a handler runs."""
        if self._watchdog is None:
            seconds = min(1 / LOOKS_PER_SECOND, self._seconds_max / 2)
            self._watchdog = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        self._watchdog = None
        tick = self._clock.tick()
        busy = [drainer for drainer in self._drainers if drainer.busy]
        seen = {}
        for drainer in busy:
            taken, since = self._seen.get(drainer, (drainer.taken, tick))
            seen[drainer] = (taken, since) if taken == drainer.taken else (drainer.taken, tick)
            if tick - seen[drainer][1] >= self._seconds_max and not drainer.overdue:
                drainer.overdue = True
                drainer.task.cancel()
        self._seen = seen
        if busy:
            self._watch()


def awaited(call: Callable[..., Any], threads: Threads) -> Callable[..., Awaitable[Any]]:
    """*call* as something to await: a plain function may block, so it gets a thread."""
    if inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__):
        return call

    share = asyncio.Semaphore(threads.share)  # calls that were let go keep their thread: one of us must not have all

    async def threaded(*args: Any) -> None:
        await share.acquire()
        result, wrong = await threads.run(attempt_plain, call, *args, ended=share.release)
        if wrong is not None:
            raise wrong
        if inspect.isawaitable(result):
            await result

    return threaded
