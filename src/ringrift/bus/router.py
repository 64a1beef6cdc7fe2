"""Router: publish events, subscribe to them live, handle them durably, serve readers."""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from ringrift.bus.delivery import Deliverer, Reader
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.bus.fanout import Fanout
from ringrift.bus.filters import EventFilter, FilterSpec, make_filter
from ringrift.bus.handlers import DurableHandler, HandlerLoop
from ringrift.bus.subscription import OnGap, SubscriberFunction, Subscription, SubscriptionOptions, make_async
from ringrift.events.base import Envelope, Event
from ringrift.kernel.backoff import Backoff, wait_out
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import InputError, Overtaken, UnknownName, Unreachable
from ringrift.kernel.health import Health
from ringrift.kernel.ids import check_name
from ringrift.kernel.settings import BusSettings
from ringrift.store.ports import RESERVED, Store
from ringrift.threads import Threads

_LATER_MAX = 1_000  # events that may wait until the store takes them
_LATER_SECONDS_MAX = 5.0  # how long closing waits for them
log = logging.getLogger(__name__)


class Router:
    """The event bus of one node."""

    def __init__(self, store: Store, clock: Clock, envelopes: EnvelopeFactory, settings: BusSettings) -> None:
        self._store, self._clock, self._envelopes, self._settings = store, clock, envelopes, settings
        self._loop = asyncio.get_running_loop()
        self._threads = Threads(settings.threads_max, "ringrift-handler")
        self._fanout = Fanout(store, settings)
        self._handlers: dict[str, HandlerLoop] = {}  # also those that ended by themselves
        self._later: deque[tuple[Event, str]] = deque(maxlen=_LATER_MAX)
        self._publisher: asyncio.Task[None] | None = None
        self._readers: list[Reader] = []
        self.published: Counter[str] = Counter()  # events that were published through this router, by name
        self.deliverer = Deliverer(store, clock, envelopes, settings.redelivery, settings.batch)

    async def publish(self, event: Event, *, id: str | None = None, source: str = "") -> Envelope:
        """Publish *event*.  Returns when it is durable; never waits for subscribers.

        The same *id* and body again return the first envelope.  Raises InputError or IdConflict; then nothing changes.
        """
        if event.SCOPE == "memory":
            return self.publish_memory(event, id=id, source=source)
        envelope = self._envelopes.make(event, id=id, source=source)
        async with self._store.begin() as tx:
            [appended] = await tx.append((envelope,))
        if (appended.time, appended.trace) == (envelope.time, envelope.trace):  # not a repeated id
            self.published[appended.name] += 1
        return appended

    def publish_memory(self, event: Event, *, id: str | None = None, source: str = "") -> Envelope:
        """Publish an event of scope *memory* to the subscribers of this process, without the log."""
        assert event.SCOPE == "memory", f"{event.name()} belongs into the log"
        envelope = self._envelopes.make(event, body=b"", id=id, source=source)
        self.publish_local(event, envelope)
        return envelope

    def publish_local(self, event: Event, envelope: Envelope) -> None:
        """Offer an event that another router of this process published without the log to the subscribers here."""
        self.published[envelope.name] += 1
        self._fanout.offer(event, envelope)

    async def publish_many(self, events: Sequence[Event], *, source: str = "") -> Sequence[Envelope]:
        """Publish *events* in this order; those for the log all or none."""
        envelopes = [self._envelopes.make(event, source=source) for event in events if event.SCOPE == "log"]
        async with self._store.begin() as tx:
            appended = iter(await tx.append(envelopes))
        self.published.update(envelope.name for envelope in envelopes)
        return [
            next(appended) if event.SCOPE == "log" else self.publish_memory(event, source=source) for event in events
        ]

    def publish_later(self, event: Event, *, source: str = "") -> None:
        """Publish *event* as soon as the store takes it, in order; of more than _LATER_MAX the oldest are dropped."""
        self._later.append((event, source))
        if self._publisher is None or self._publisher.done():
            self._publisher = self._loop.create_task(self._publish_later(), name="bus-publish-later")

    async def _publish_later(self) -> None:
        RESERVED.set(True)
        try:
            while self._later:
                event, source = self._later.popleft()
                await wait_out(partial(self.publish, event, source=source))
        except Unreachable as error:
            log.error("%s could not be published: %s", event.name(), error)

    async def flush(self) -> None:
        """Wait until what is to be published later is in the log, for a while."""
        if self._publisher is not None:
            await asyncio.wait((self._publisher,), timeout=_LATER_SECONDS_MAX)

    def post(self, event: Event, *, source: str = "") -> Future[Envelope]:
        """Publish from a thread other than the loop's: accepted at once, done when durable."""
        return asyncio.run_coroutine_threadsafe(self.publish(event, source=source), self._loop)

    def subscribe(
        self,
        spec: FilterSpec,
        function: SubscriberFunction,
        *,
        name: str = "",
        concurrency: int = 1,
        queue_max: int | None = None,
        timeout_seconds: float | None = None,
        on_gap: OnGap | None = None,
    ) -> Subscription:
        """Call *function* for events from now on, in this process only.  A plain function runs in a thread.

        A subscriber that falls behind gets the events of the log late and in order; of memory events it misses some,
        and *on_gap* is called.  :func:`make_filter` describes *spec*.
        """
        name = name or getattr(function, "__qualname__", type(function).__name__)
        common = self._options(name, spec, function, concurrency, timeout_seconds)
        options = SubscriptionOptions(queue_max=queue_max or self._settings.queue_max, on_gap=on_gap, **common)
        subscription = Subscription(options, self._clock, self._store.position, self._fanout.catch_up)
        self._fanout.add(subscription)
        return subscription

    def handle(
        self,
        spec: FilterSpec,
        function: Callable[[Event, Envelope, str], Any],
        *,
        name: str,
        from_start: bool = False,
        concurrency: int = 1,
        timeout_seconds: float | None = None,
        retry: Backoff | None = None,
        ordered: bool = False,
    ) -> None:
        """Call *function* with event, envelope and delivery key for every selected event, at least once.

        *name* identifies the handler across restarts: it continues where it stopped.  A new one starts with the next
        event, or *from_start* with the whole log.  Failed calls are retried and become dead letters.
        """
        check_name("handler", name)
        if name in (*(loop.handler.name for loop in self._serving()), *(reader.name for reader in self._readers)):
            raise InputError(f"a reader named {name!r} exists already")
        if ordered and concurrency > 1:
            raise InputError(f"handler {name!r} cannot be ordered with {concurrency} calls at once")
        settings = self._settings
        common = self._options(name, spec, function, concurrency, timeout_seconds)
        handler = DurableHandler(backoff=retry or settings.redelivery, ordered=ordered, **common)
        report = partial(self.publish_later, source="bus")
        loop = HandlerLoop(handler, self._store, self._clock, self._envelopes, settings.batch, report)
        at = 0 if from_start else self._store.position
        running = loop.run(at, settings.poll_seconds, settings.redeliver_seconds)
        loop.task = self._loop.create_task(running, name=f"handler:{name}")
        self._handlers[name] = loop

    def _serving(self) -> list[HandlerLoop]:
        return [loop for loop in self._handlers.values() if not loop.ended]

    def _options(
        self, name: str, spec: FilterSpec, function: Callable[..., Any], concurrency: int, seconds: float | None
    ) -> dict[str, Any]:
        """The options that subscribers and handlers have in common."""
        common = {"name": name, "filter": make_filter(spec), "function": make_async(function, self._threads)}
        return common | {"concurrency": concurrency, "timeout_seconds": seconds or self._settings.handler_seconds_max}

    def health(self) -> list[Health]:
        """The handlers that wait, hang or have stopped."""
        return [health for loop in self._handlers.values() if (health := loop.health()) is not None]

    async def unsubscribe(self, subscriber: Subscription | str) -> None:
        """End a live subscription, or a handler by its name; a handler keeps its position."""
        if isinstance(subscriber, Subscription):
            self._fanout.remove(subscriber)
            tasks = subscriber.end()
        elif subscriber in self._handlers:
            tasks = [self._handlers.pop(subscriber).task]
            tasks[0].cancel()
        else:
            raise UnknownName("handler", subscriber, self._handlers)
        await asyncio.wait(tasks)

    def has_subscribers(self, spec: FilterSpec) -> bool:
        """Whether this process subscribes to, handles or reads any event that *spec* selects."""
        filters = [subscription.filter for subscription in self._fanout.subscriptions]
        filters += [loop.handler.filter for loop in self._serving()]
        filters += [EventFilter(names=reader.event_names or None) for reader in self._readers]
        return any(make_filter(spec).overlaps(other) for other in filters)

    @property
    def subscriptions(self) -> Sequence[Subscription]:
        return tuple(self._fanout.subscriptions)

    async def close(self) -> None:
        tasks = [loop.task for loop in self._handlers.values()]
        self._handlers = {}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self.flush()
        if self._publisher is not None:
            self._publisher.cancel()
        await self._fanout.close()
        self._threads.close()

    async def serve(self, reader: Reader, progress: Callable[[], None], is_active: Callable[[], bool]) -> None:
        """Deliver to *reader* for ever while *is_active*; calls *progress* after each batch and whenever idle."""
        self._readers.append(reader)
        try:
            position: int | None = None
            while True:
                try:
                    while is_active() and (position is None or self._store.position > position):
                        if position is None:
                            position = await self.deliverer.register(reader)
                        else:
                            position = await self.deliverer.deliver_batch(reader, position)
                        progress()
                except Overtaken:
                    if position is None:
                        raise  # it has lapsed
                    position = None
                    continue
                progress()
                after = self._store.position if position is None or not is_active() else position
                await self._store.wait(after, self._settings.poll_seconds)
        finally:
            self._readers.remove(reader)
