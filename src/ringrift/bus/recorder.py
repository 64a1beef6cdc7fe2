"""Open the recorder of a node and send its spans to a collector and to the debug log, as the settings say.

    offer ─▶ queue (bounded) ─▶ a thread of its own ─▶ send(batch)

Tracing never makes the node wait: when the queue is full the newest spans are dropped and counted.
"""

import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from ringrift.bus.spans import Recorder, Sink, Span, recording
from ringrift.kernel.backoff import wait_out
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import TRANSIENT, StoreError
from ringrift.kernel.extras import require_module
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import TraceSettings
from ringrift.store.follow import follow
from ringrift.store.ports import Store
from ringrift.threads import beside, to_its_end

log = logging.getLogger(__name__)
_trace_log = logging.getLogger("ringrift.trace")


class _Outbox:
    """Passes spans to *send* in batches; *send* returns whether they were accepted, and may block."""

    def __init__(self, send: Callable[[Sequence[Span]], bool], settings: TraceSettings) -> None:
        self._send, self._settings = send, settings
        self._changed = threading.Condition()
        self._queue: deque[Span] = deque()
        self._closing = False
        # Spans that were sent, that found the queue full, that the collector refused, and lost ones that are reported.
        self.sent = self.dropped = self.failed = self._reported = 0
        # A daemon thread: a send that hangs does not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="ringrift-spans", daemon=True)
        self._thread.start()

    def offer(self, span: Span) -> None:
        """Queue *span* if there is room; never wait."""
        with self._changed:
            if self._closing or len(self._queue) >= self._settings.queue_max:
                self.dropped += 1
                return
            self._queue.append(span)
            if len(self._queue) == self._settings.batch_max:
                self._changed.notify_all()

    def close(self, seconds: float) -> None:
        """Send the queue within *seconds*; spans that are left count as dropped.  Blocks."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(seconds)
        with self._changed:
            self.dropped += len(self._queue)
            self._queue.clear()
        self._report_lost()

    def _run(self) -> None:
        while (batch := self._next_batch()) is not None:
            if batch:
                accepted = self._send(batch)
                with self._changed:
                    self.sent += len(batch) if accepted else 0
                    self.failed += 0 if accepted else len(batch)
            self._report_lost()

    def _next_batch(self) -> list[Span] | None:
        """The next batch, as soon as it is full or its oldest span has waited long enough; None at the end."""
        limit = self._settings.batch_max
        with self._changed:
            self._changed.wait_for(lambda: self._closing or len(self._queue) >= limit, self._settings.flush_seconds)
            batch = [self._queue.popleft() for _ in range(min(limit, len(self._queue)))]
            return None if self._closing and not batch else batch

    def _report_lost(self) -> None:
        """Log the spans that were lost since the last report."""
        with self._changed:
            lost, self._reported = self.dropped + self.failed - self._reported, self.dropped + self.failed
        if lost:
            log.warning("%d spans were lost: the collector is too slow or not reachable", lost)


@asynccontextmanager
async def open_recorder(
    settings: TraceSettings, node: str, clock: Clock, ids: Ids, store: Store | None
) -> AsyncIterator[Recorder]:
    """Record the spans of *node*, and of the body.  Raises MissingExtra if the exporter is not installed.

    Those of its events are recorded where the *store* is.
    """
    sinks: list[Sink] = [_log] if settings.debug else []
    async with AsyncExitStack() as stack:
        if settings.endpoint:
            sinks.append((await stack.enter_async_context(_open_outbox(settings, node))).offer)
        recorder = Recorder(clock, ids.trace(), sinks)
        if recorder.on and store is not None:
            await stack.enter_async_context(_record_events(recorder, node, store))
        stack.enter_context(recording(recorder))
        yield recorder


@asynccontextmanager
async def _open_outbox(settings: TraceSettings, node: str) -> AsyncIterator[_Outbox]:
    require_module("opentelemetry.exporter.otlp.proto.http.trace_exporter", "otel")
    from ringrift.bus.otel import Collector

    collector = Collector(settings, node)
    outbox = _Outbox(collector.send, settings)
    try:
        yield outbox
    finally:
        await to_its_end(None, outbox.close, settings.stop_seconds_max)
        collector.close()
        log.info("%s: %d spans were sent, %d lost", node, outbox.sent, outbox.dropped + outbox.failed)


@asynccontextmanager
async def _record_events(recorder: Recorder, node: str, store: Store) -> AsyncIterator[None]:
    """Record the events of *node* from now on as spans once they are durable."""
    position = store.position

    async def consume(until: int | None = None) -> None:
        """Record the events up to *until*, or as they come.  Raises TRANSIENT in that case only."""
        nonlocal position
        try:
            async for envelope in follow(store, position, until=until):
                if envelope.node == node:
                    recorder.record_event(envelope)
                position = envelope.position
        except (StoreError, *TRANSIENT) as error:
            if until is None and isinstance(error, TRANSIENT):
                raise
            log.warning("cannot read events to record their spans: %s", error)

    try:
        async with beside(wait_out(consume)):
            yield
    finally:
        await consume(store.position)


def _log(span: Span) -> None:
    ids = f"trace={span.trace} span={span.id} parent={span.parent or '-'}"
    tags = "".join(f" {name}={value}" for name, value in span.tags.items())
    error = f" error={span.error}" if span.error else ""
    _trace_log.debug("%s %s %s seconds=%.6f%s%s", span.kind, span.name, ids, span.seconds, tags, error)
