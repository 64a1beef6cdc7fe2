"""Durable handlers: call user code at least once per event, outside any transaction, with a stable delivery key.

    read on ─▶ call the handler for each event, several at once ─▶ park failures, move the position ─▶ COMMIT

The position moves up to the oldest event whose call still runs.  Later events are handled meanwhile, up to a batch of
them, so that a slow call delays no other as long as *concurrency* allows more.  A crash delivers everything after the
position again, each event with the same key: an effect that is stored under the key happens once.  A failed call is
parked and later events are delivered; with *ordered*, later events of the same node and source wait behind it.
A call that does not even end when it is cancelled at its time limit is left behind, and its event is parked.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import takewhile
from typing import Any

from msgspec.structs import replace

from ringrift.bus import dead_letters, spans
from ringrift.bus.delivery import WATCHED_MAX, attempt
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.bus.filters import EventFilter
from ringrift.events import alert, catalog
from ringrift.events.base import Envelope, Event, Unknown
from ringrift.kernel.backoff import DEGRADED_SECONDS, Backoff, wait_out
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import Overtaken, TimedOut
from ringrift.kernel.health import Health, Status
from ringrift.kernel.stall_detector import StallDetector
from ringrift.kernel.value import Value
from ringrift.store.ports import Delivery, Store

_ALERT = "handler"  # the kind of the alerts about handlers that hang or have stopped
_WAITING = "waits behind an earlier event of its source"
_MOVE_SECONDS = 0.2  # the position is moved at least this often, so that a crash repeats few calls of a slow handler
_CANCEL_SECONDS_MAX = 5.0  # how long a call may take to end after it was cancelled
_LEFT_BEHIND_MAX = 8  # calls that may be left behind; then the handler gets no more events until one of them returns
log = logging.getLogger(__name__)


class DurableHandler(Value):
    """A named handler; the name identifies its position in the log across restarts."""

    name: str
    filter: EventFilter
    function: Callable[[Event, Envelope, str], Awaitable[Any]]
    timeout_seconds: float
    backoff: Backoff
    concurrency: int = 1
    ordered: bool = False


class _Call:
    """The call for one event, the first or a retry; *result* is the delivery after it, None until it has ended."""

    def __init__(self, delivery: Delivery, envelope: Envelope, is_retry: bool) -> None:
        self.delivery, self.envelope, self.is_retry = delivery, envelope, is_retry
        self.position, self.source = envelope.position, (envelope.node, envelope.source)
        self.result: Any = None


class _Worker:
    """Makes one call after the other; *end_at* is the time of the loop at which the running one must have ended."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None]
        self.call: _Call
        self.end_at: float | None = None


class HandlerLoop:
    """Delivers events from one store to one handler."""

    def __init__(
        self, handler: DurableHandler, store: Store, clock: Clock, envelopes: EnvelopeFactory, batch: int,
        report: Callable[[Event], object] = lambda event: None,
    ) -> None:  # fmt: skip
        """*report* gets the alerts about calls that hang and about the end of the loop."""
        self.handler, self._store, self._clock, self._batch = handler, store, clock, batch
        self._envelopes, self._report = envelopes, report
        self._detector = StallDetector()
        self._position: int | None = None  # as stored
        self._read = 0  # up to here events were read
        self._queue: deque[_Call] = deque()
        self._open: dict[int, _Call] = {}  # by position, those after the stored one
        self._retries: dict[int, _Call] = {}  # by position, until their results are stored
        self._parked: dict[tuple[str, str], dict[int, None]] = {}  # with *ordered*: positions by source, in order
        self._workers: set[_Worker] = set()
        self._left_behind: set[_Worker] = set()
        self._waits, self._waits_since = "", 0.0
        self.task: asyncio.Task[None]  #: Of :meth:`run`, while it is subscribed.
        self.ended = ""  #: Why the loop has ended by itself, if it has.

    def health(self) -> Health | None:
        """What is wrong with the handler, if anything is."""
        hanging = len(self._left_behind) + getattr(self.handler.function, "hanging", 0)
        has_waited = self._waits and self._clock.tick() - self._waits_since > DEGRADED_SECONDS
        reason = self.ended or (f"waits: {self._waits}" if has_waited else "")
        if hanging and not self.ended:
            reason = f"{hanging} calls have not returned after their {self.handler.timeout_seconds:g} s"
        is_useless = self.ended or len(self._left_behind) >= _LEFT_BEHIND_MAX
        status = Status.UNHEALTHY if is_useless else Status.DEGRADED
        return Health(part=f"handler {self.handler.name}", status=status, reason=reason) if reason else None

    async def run(self, at: int, poll_seconds: float, retry_seconds: float) -> None:
        """Deliver for ever; a new handler starts at *at*.  Ends if it has lapsed or its store is broken."""
        retried = float("-inf")

        async def go_on() -> None:
            nonlocal retried
            while True:
                tick = self._clock.tick()
                is_retry_due = tick - retried >= retry_seconds
                await self.step(at, retry=is_retry_due)
                retried = tick if is_retry_due else retried
                self._waits = ""
                if not self._workers:
                    # With events that may not be called now, new ones change nothing.
                    after = self._store.position if self._queue else self._read
                    await self._store.wait(after, min(poll_seconds, retry_seconds))

        try:
            # Nothing is lost during a wait: outcomes that cannot be stored yet stay here.
            error = await attempt(partial(wait_out, go_on, on_wait=self._note_wait))
            self.ended = f"stopped and gets no more events: {error}"
            self._raise_alert(self.ended)
        finally:
            for worker in (*self._workers, *self._left_behind):
                worker.task.cancel()
            if self._workers:
                await asyncio.wait([worker.task for worker in self._workers], timeout=_CANCEL_SECONDS_MAX)

    def _note_wait(self, error: Exception) -> None:
        if not self._waits:
            log.warning("handler %s waits: %s", self.handler.name, error)
            self._waits_since = self._clock.tick()
        self._waits = str(error)

    def _raise_alert(self, detail: str) -> None:
        log.error("handler %s: %s", self.handler.name, detail)
        self._report(alert.Raised(kind=_ALERT, subject=self.handler.name, level="severe", detail=detail))

    async def step(self, at: int = 0, *, retry: bool = False) -> None:
        """Read on, let the workers call for a moment, and move the position over what is settled."""
        try:
            if self._position is None:
                async with self._store.begin() as tx:
                    self._position = self._read = await tx.register_reader(self.handler.name, at)
            if retry and not self._retries:
                await self._queue_retries()
            await self._read_on()
            self._start_workers()
            if self._workers:
                await asyncio.wait([worker.task for worker in self._workers], timeout=_MOVE_SECONDS)
            self._check_workers()
            await self._move()
        except Overtaken:
            if self._position is None:
                raise  # it has lapsed
            self._position, self._read = None, -1  # another process moved it, or it was deleted and starts anew
            for calls in (self._open, self._retries, self._queue):
                calls.clear()

    async def _queue_retries(self) -> None:
        """Queue the deliveries whose pause is over, before new events."""
        handler = self.handler
        async with self._store.read() as view:
            parked = await view.deliveries(("parked",), WATCHED_MAX, handler.name)
            due = {delivery.position for delivery in dead_letters.due(parked, self._detector, self._clock.tick())}
            needed = [delivery.position for delivery in parked if handler.ordered or delivery.position in due]
            events = {envelope.position: envelope for envelope in await view.events_at(needed)}
        calls = [_Call(row, events[row.position], is_retry=True) for row in parked if row.position in events]
        self._retries = {call.position: call for call in calls if call.position in due}
        self._queue.extendleft(reversed(self._retries.values()))
        failed = [call for call in self._open.values() if call.result and call.result.state == "parked"]
        self._parked = {}
        for call in (*calls, *failed):
            self._park(call)

    def _park(self, call: _Call) -> None:
        """With *ordered*, later events of its source wait behind this one."""
        if self.handler.ordered:
            self._parked.setdefault(call.source, {})[call.position] = None

    async def _read_on(self) -> None:
        room = self._batch - len(self._open)
        if room <= 0 or self._store.position <= self._read:
            return
        async with self._store.read() as view:
            envelopes = await view.read(self._read, room)
        for envelope in envelopes:
            delivery = Delivery(reader=self.handler.name, position=envelope.position)
            self._open[envelope.position] = call = _Call(delivery, envelope, is_retry=False)
            self._queue.append(call)
            self._read = envelope.position

    async def _move(self) -> None:
        """Store the results of retries, those of first calls up to the oldest that runs, and the position after it."""
        first = list(takewhile(lambda call: call.result is not None, self._open.values()))
        retries = [call for call in self._retries.values() if call.result is not None]
        if not first and not retries:
            return
        assert self._position is not None
        name, position = self.handler.name, first[-1].position if first else self._position
        async with self._store.begin() as tx:
            if first:
                await tx.advance(name, self._position, position)
            # What another process or an operator has settled meanwhile stays as it is.
            stored = set(await tx.deliveries_at(name, [call.position for call in retries]))
            changes = [(call.result, call.envelope) for call in retries if call.delivery in stored]
            changes += [(call.result, call.envelope) for call in first if call.result.state != "done"]
            await dead_letters.save(tx, self._envelopes, changes)
        self._position = position
        for call in (*first, *retries):
            del (self._retries if call.is_retry else self._open)[call.position]

    def _start_workers(self) -> None:
        limit = self.handler.concurrency if len(self._left_behind) < _LEFT_BEHIND_MAX else 0
        for _ in range(min(limit - len(self._workers), len(self._queue))):
            worker = _Worker()
            worker.task = asyncio.get_running_loop().create_task(self._work(worker), name=f"call:{self.handler.name}")
            self._workers.add(worker)

    async def _work(self, worker: _Worker) -> None:
        while self._queue and worker in self._workers:
            worker.call = call = self._queue.popleft()
            is_behind = next(iter(self._parked.get(call.source, ())), call.position) < call.position
            if is_behind and call.is_retry:
                del self._retries[call.position]
            elif is_behind:
                now = self._clock.now()
                call.result = replace(call.delivery, error=_WAITING, first=now, last=now)
                self._park(call)
            else:
                # A busy store says nothing about the event and is waited for.
                seconds = self.handler.timeout_seconds
                error = await attempt(partial(wait_out, partial(self._call, worker), seconds_max=seconds))
                if worker in self._workers:  # otherwise it was left behind
                    self._settle(call, error)

    def _settle(self, call: _Call, error: Exception | None) -> None:
        call.result = dead_letters.after_attempt(call.delivery, error, self._clock.now(), self.handler.backoff)
        if call.result.state == "parked":
            self._park(call)
        else:
            self._parked.get(call.source, {}).pop(call.position, None)

    def _check_workers(self) -> None:
        """Dismiss the workers that have ended, and leave those behind that cannot be ended.  Raises their errors."""
        tick = asyncio.get_running_loop().time()
        for worker in list(self._workers):
            if worker.task.done():
                self._workers.discard(worker)
                worker.task.result()
            elif worker.end_at is not None and tick > worker.end_at:
                self._leave_behind(worker)

    def _leave_behind(self, worker: _Worker) -> None:
        """The call of *worker* goes on and counts as failed; another worker takes its place."""
        self._workers.discard(worker)
        self._left_behind.add(worker)
        worker.task.add_done_callback(lambda _: self._note_return(worker))
        error = TimedOut(self.handler.name, self.handler.timeout_seconds)
        count = f"{len(self._left_behind)} of {_LEFT_BEHIND_MAX} at most"
        self._raise_alert(f"{error}; calls that go on all the same: {count}")
        self._settle(worker.call, error)

    def _note_return(self, worker: _Worker) -> None:
        self._left_behind.discard(worker)
        if not self._left_behind:
            self._report(alert.Cleared(kind=_ALERT, subject=self.handler.name))

    async def _call(self, worker: _Worker) -> None:
        """Call the handler if its filter selects the event.  Raises TimedOut, or any error of the handler."""
        handler, envelope = self.handler, worker.call.envelope
        if handler.filter.names is not None and envelope.name not in handler.filter.names:
            return
        event = catalog.decode(envelope.name, envelope.body)
        if isinstance(event, Unknown) or not handler.filter.matches(event, envelope):
            return
        seconds = handler.timeout_seconds
        worker.end_at = asyncio.get_running_loop().time() + seconds + _CANCEL_SECONDS_MAX
        with spans.delivery_span(handler.name, envelope):
            try:
                async with asyncio.timeout(seconds) as limit:
                    await handler.function(event, envelope, f"{handler.name}@{envelope.id}")
            except TimeoutError as late:
                if limit.expired():
                    raise TimedOut(handler.name, seconds) from late
                raise
            finally:
                worker.end_at = None
