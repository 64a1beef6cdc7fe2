"""Recording: opens the recorder of a node, and hands what it keeps to a collector and to the log, as settings say."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from ringrift.bus.outbox import Outbox
from ringrift.bus.spans import Recorder, Sink, Span, recording
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import StoreError
from ringrift.kernel.extras import need
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import TraceSettings
from ringrift.store.ports import Store
from ringrift.threads import to_its_end

READ_AT_ONCE = 500
LOOK_SECONDS = 1.0
"""How long the log is not looked at although nothing woke us, and the pause after a look that failed."""
log = logging.getLogger(__name__)
trace_log = logging.getLogger("ringrift.trace")


@asynccontextmanager
async def open_recorder(
    settings: TraceSettings, node: str, clock: Clock, ids: Ids, store: Store
) -> AsyncIterator[Recorder]:
    """The recorder of *node*, which also keeps the spans of the body.  Raises MissingExtra if it cannot be sent."""
    sinks: list[Sink] = [_log] if settings.debug else []
    async with AsyncExitStack() as stack:
        if settings.endpoint:
            sinks.append((await stack.enter_async_context(_sending(settings, node))).offer)
        recorder = Recorder(clock, ids.trace(), sinks)
        if recorder.on:
            await stack.enter_async_context(_following(recorder, node, store))
        stack.enter_context(recording(recorder))
        yield recorder


@asynccontextmanager
async def _sending(settings: TraceSettings, node: str) -> AsyncIterator[Outbox]:
    need("opentelemetry.exporter.otlp.proto.http.trace_exporter", "otel")
    from ringrift.bus.otel import Collector

    collector = Collector(settings, node)
    outbox = Outbox(collector.send, settings)
    try:
        yield outbox
    finally:
        counts = await to_its_end(None, outbox.close, settings.stop_seconds_max)
        collector.close()
        log.info("%s: %d spans were sent, %d lost", node, counts.sent, counts.dropped + counts.failed)


@asynccontextmanager
async def _following(recorder: Recorder, node: str, store: Store) -> AsyncIterator[None]:
    """Keep the events of *node* as spans, as they become durable: one that was undone has never happened."""
    follower = Follower(recorder, node, store)
    following = asyncio.get_running_loop().create_task(follower.run(), name=f"{node}:spans")
    try:
        yield
    finally:
        following.cancel()
        await asyncio.wait((following,))
        await follower.catch_up()


class Follower:
    """Reads the log from where it stands when the node opens."""

    def __init__(self, recorder: Recorder, node: str, store: Store) -> None:
        self._recorder, self._node, self._store = recorder, node, store
        self._place = store.position

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            if not await self.catch_up():
                await asyncio.sleep(LOOK_SECONDS)
            await self._store.wait(self._place, LOOK_SECONDS)

    async def catch_up(self) -> bool:
        """Take in what is in the log by now; whether it could be read."""
        end = self._store.position
        try:
            while self._place < end:
                async with self._store.read() as view:
                    envelopes = await view.read(self._place, READ_AT_ONCE)
                for envelope in envelopes:
                    if envelope.node == self._node:
                        self._recorder.published(envelope)
                self._place = envelopes[-1].position if envelopes else end
        except StoreError as away:
            log.warning("events cannot be read for their spans: %s", away)
            return False
        return True


def _log(span: Span) -> None:
    trace_log.debug(
        "%s %s trace=%s span=%s parent=%s seconds=%.6f%s%s",
        span.kind, span.name, span.trace, span.id, span.parent or "-", span.seconds,
        "".join(f" {name}={value}" for name, value in span.tags.items()), f" error={span.error}" if span.error else "",
    )  # fmt: skip
