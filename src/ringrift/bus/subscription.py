"""Subscription: a live handler with its own queue, order, concurrency and time limit.

    offer ─▶ queue (bounded) ─▶ one worker for each that may run at once ─▶ await handler(event, envelope)

Offering is an append and never waits.  A worker awaits the handler itself, because a task for each event costs more
than most handlers do; a watchdog that runs a few times a second cancels a handler that takes too long.
"""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from ringrift.bus import spans, trace
from ringrift.bus.delivery import attempt
from ringrift.bus.filters import EventFilter
from ringrift.bus.trace import Context
from ringrift.events.base import Envelope, Event
from ringrift.kernel.backoff import wait_out
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import Backpressure, TimedOut
from ringrift.kernel.foreign import attempt_sync
from ringrift.kernel.value import Value
from ringrift.threads import Threads

SubscriberFunction = Callable[[Event, Envelope], Any]
OnGap = Callable[[Backpressure], None]
_YIELD_EVERY = 256  # events after which a worker yields to the loop: handlers that never wait would block it
_CHECKS_PER_SECOND = 4.0
log = logging.getLogger(__name__)


class SubscriptionOptions(Value):
    """The function of a subscription, its filter and its limits."""

    name: str
    filter: EventFilter
    function: Callable[[Event, Envelope], Awaitable[Any]]
    concurrency: int
    queue_max: int
    timeout_seconds: float
    on_gap: OnGap | None = None  # called when events are missed


class _Worker:
    def __init__(self) -> None:
        self.task: asyncio.Task[None]
        self.envelope: Envelope
        self.calls = self.failures = 0
        self.busy = self.overdue = False
        self.checked_calls, self.since = -1, 0.0  # as the watchdog saw it, and since when


class Subscription:
    """Made by :meth:`ringrift.bus.router.Router.subscribe`."""

    def __init__(self, options: SubscriptionOptions, clock: Clock, after: int, catch_up: "_CatchUp") -> None:
        self.name, self.filter, self.position = options.name, options.filter, after
        self.behind = False  # too slow for its queue: it reads the log itself until it has caught up
        self.next_position = 0  # position of the first event that did not fit into the queue
        self._function = spans.traced_handler(options.name, options.function)
        self._clock, self._options, self._catch_up = clock, options, catch_up
        self._queue: deque[tuple[Event, Envelope, Context]] = deque()
        self._wake = asyncio.Event()
        self._idle = self._catching_up = False
        self.failed = self.missed = 0
        self.error = ""  # the last one
        self._watchdog: asyncio.TimerHandle | None = None
        self._workers = [_Worker() for _ in range(options.concurrency)]
        for number, worker in enumerate(self._workers):
            worker.task = asyncio.get_running_loop().create_task(self._work(worker), name=f"{self.name}:{number}")

    def offer(self, item: tuple[Event, Envelope, Context]) -> None:
        """Queue one event, or note that the queue is full; never waits, never drops silently."""
        position = item[1].position
        if len(self._queue) < self._options.queue_max:
            self._queue.append(item)
            if position:
                self.position = position
        elif not position:
            self.note_gap()
        elif not self.behind:
            self.behind, self.next_position = True, position
        if self._idle:
            self._idle = False
            self._wake.set()

    def note_gap(self) -> None:
        """Count an event that is lost to the subscriber: it was never in the log, or is compacted."""
        self.missed += 1
        pressure = Backpressure(f"the queue of {self.name}", self._options.queue_max)
        if self._options.on_gap is not None:
            _, error = attempt_sync(self._options.on_gap, pressure)
            if error is not None:
                log.warning("subscriber %s: its function for missed events failed", self.name, exc_info=error)
        elif self.missed == 1:
            log.warning("%s: events are missed", pressure)

    def note_failure(self, envelope: Envelope, error: Exception) -> None:
        self.failed += 1
        self.error = f"{type(error).__name__}: {error}"
        log.warning("live subscriber %s failed on %s", self.name, envelope.name, exc_info=error)

    @property
    def delivered(self) -> int:
        return sum(worker.calls - worker.failures for worker in self._workers)

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def end(self) -> list["asyncio.Task[None]"]:
        if self._watchdog is not None:
            self._watchdog.cancel()
        for worker in self._workers:
            worker.task.cancel()
        return [worker.task for worker in self._workers]

    async def _work(self, worker: _Worker) -> None:
        while True:
            worker.busy = True
            self._start_watchdog()
            while self._queue:
                try:
                    error = await attempt(self._drain, worker)
                except asyncio.CancelledError:
                    if not self._clear_overdue(worker):
                        raise
                    error = TimedOut(self.name, self._options.timeout_seconds)
                if error is not None:
                    worker.failures += 1
                    worker.calls += 1
                    self._clear_overdue(worker)
                    self.note_failure(worker.envelope, error)
            worker.busy = False
            await self._wait()

    async def _drain(self, worker: _Worker) -> None:
        """Call the handler until the queue is empty or a call fails.  Hot: a frame, a ``try`` or a task for each event
        would cost as much as all the rest."""
        queue, function, enter = self._queue, self._function, trace.enter
        while queue:
            event, envelope, context = queue.popleft()
            worker.envelope = envelope
            enter(context)
            await function(event, envelope)
            worker.calls += 1
            if worker.overdue:  # it ended by itself all the same
                self._clear_overdue(worker)
            if worker.calls % _YIELD_EVERY == 0:
                await asyncio.sleep(0)

    async def _wait(self) -> None:
        """Wait for more events, or catch up with the log if the queue was too short."""
        if self.behind and not self._catching_up:
            self._catching_up = True
            try:
                await wait_out(partial(self._catch_up, self))
            finally:
                self._catching_up = False
        else:
            self._wake.clear()
            self._idle = True
            await self._wake.wait()

    def _clear_overdue(self, worker: _Worker) -> bool:
        """Whether the watchdog cancelled the worker, and no other caller did."""
        if not worker.overdue:
            return False
        worker.overdue = False
        return worker.task.uncancel() == 0

    def _start_watchdog(self) -> None:
        if self._watchdog is None:
            seconds = min(1 / _CHECKS_PER_SECOND, self._options.timeout_seconds / 2)
            self._watchdog = asyncio.get_running_loop().call_later(seconds, self._check_workers)

    def _check_workers(self) -> None:
        """Cancel workers whose call takes too long; check again while any is busy."""
        self._watchdog = None
        tick = self._clock.tick()
        for worker in self._workers:
            if not worker.busy or worker.checked_calls != worker.calls:
                worker.checked_calls, worker.since = worker.calls if worker.busy else -1, tick
            elif tick - worker.since >= self._options.timeout_seconds and not worker.overdue:
                worker.overdue = True
                worker.task.cancel()
        if any(worker.busy for worker in self._workers):
            self._start_watchdog()


_CatchUp = Callable[[Subscription], Awaitable[None]]


def make_async(function: Callable[..., Any], threads: Threads) -> Callable[..., Awaitable[Any]]:
    """*function* as an async function; a plain one may block, so it runs in a thread."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        return function
    return _InThread(function, threads)


class _InThread:
    """A plain function that is called in a thread; *hanging* calls were abandoned at their time limit and still run."""

    def __init__(self, function: Callable[..., Any], threads: Threads) -> None:
        self._function, self._threads = function, threads
        # A call that timed out keeps its thread: one subscriber must not occupy all of them.
        self._share = asyncio.Semaphore(threads.share)
        self.hanging = 0

    async def __call__(self, *args: Any) -> None:
        await self._share.acquire()
        is_abandoned = False

        def on_end() -> None:
            self._share.release()
            self.hanging -= is_abandoned

        try:
            result, error = await self._threads.run(attempt_sync, self._function, *args, on_end=on_end)
        except asyncio.CancelledError:
            is_abandoned = True
            self.hanging += 1
            raise
        if error is not None:
            raise error
        if inspect.isawaitable(result):
            await result
