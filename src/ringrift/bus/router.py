"""Router: publishes events, and serves whoever listens: durable readers, durable handlers, live subscriptions."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from ringrift.bus import history, window
from ringrift.bus.delivery import Courier, Reader
from ringrift.bus.errands import Attendant, Errand
from ringrift.bus.fanout import Fanout
from ringrift.bus.scribe import Scribe
from ringrift.bus.subscription import Counts, Gap, Subscription, awaited
from ringrift.bus.wants import Asked, Wants, wants
from ringrift.events import catalog, old_names
from ringrift.events.base import Envelope, Event, Unknown
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import InputError, Overtaken, UnknownName
from ringrift.kernel.ids import check_name
from ringrift.kernel.settings import BusSettings
from ringrift.store.ports import Store
from ringrift.threads import Threads

log = logging.getLogger(__name__)


class Router:
    """The way in and out of the log for one node."""

    def __init__(self, store: Store, clock: Clock, scribe: Scribe, settings: BusSettings) -> None:
        self._store, self._clock, self._scribe, self._settings = store, clock, scribe, settings
        self._loop = asyncio.get_running_loop()
        self._threads = Threads(settings.threads_max, "ringrift-handler")
        self._fanout = Fanout(store, settings)
        self._window = window.Window(settings.window_seconds, settings.window_events_max)
        self._handling: dict[str, tuple[Errand, asyncio.Task[None]]] = {}
        self._readers: list[Reader] = []
        self.published: Counter[str] = Counter()
        """Events that were published through this router, by name."""
        self.suppressed = 0
        """Sayings that repeated one within the window."""
        self.repeated = 0
        """Events for the log whose id was there already, with the same body."""
        self.courier = Courier(store, clock, scribe, settings.redelivery, settings.batch)

    # -- publishing ----------------------------------------------------------------------------------------------------

    async def publish(self, event: Event, *, id: str | None = None, source: str = "") -> Envelope:
        """Say that *event* happened.  Returns when it is durable; never waits for anybody who listens.

        The same *id* and body again return the first envelope.  Raises InputError or IdConflict, and nothing changes.
        """
        if event.SCOPE == "memory":
            return self.tell(event, id=id, source=source)
        return await self._append(self._scribe.wrap(event, id=id, source=source))

    def tell(self, event: Event, *, id: str | None = None, source: str = "") -> Envelope:
        """Say *event* to those who listen in this process, now, past the log.  Only for events of that scope."""
        assert event.SCOPE == "memory", f"{event.name()} belongs into the log"
        envelope = self._scribe.seal(event, b"", id=id, source=source)
        self.relay(event, envelope)
        return envelope

    def relay(self, event: Event, envelope: Envelope) -> None:
        """Say to those who listen to this router what was told past the log, here or by another of this process."""
        self.published[envelope.name] += 1
        self._fanout.tell(event, envelope)

    async def admit(self, name: str, raw: bytes, *, id: str | None = None, source: str = "") -> Envelope:
        """Publish an event that comes from outside, as bytes, which are kept as they came.

        Raises InputError or UnknownName, and nothing changes.
        """
        event = catalog.admit(name, raw)
        if isinstance(event, Unknown):
            raise UnknownName("event", name, catalog.names())
        if event.SCOPE == "memory":
            return self.tell(event, id=id, source=source)
        return await self._append(self._scribe.seal(event, raw, id=id, source=source))

    async def say(self, name: str, payload: Mapping[str, Any], *, id: str | None = None, source: str = "") -> Envelope:
        """Publish in the old style, by any name: ours, a documented one, or one that nobody knows.

        What the loop acts on is not made by saying so: under such a name it is carried as it was said.
        Without an *id* the same words from the same source and node within the window are one event: the first envelope
        is returned and the repetition counted.  Raises InputError, and UnknownName where settings are strict.
        """
        event = old_names.convert(name, payload, strict=self._settings.strict, evidence=False)
        if id is not None:
            return await self.publish(event, id=id, source=source)
        said = window.words(check_name("event", name), payload, source, self._scribe.node)
        first = self._window.first(said, self._clock.tick())
        if first is not None:
            self.suppressed += 1
            return await asyncio.shield(first)
        publishing = self._loop.create_task(self.publish(event, source=source))
        publishing.add_done_callback(lambda done: self._unsaid(said, done))
        self._window.remember(said, publishing, self._clock.tick())
        return await asyncio.shield(publishing)

    def _unsaid(self, said: bytes, publishing: "asyncio.Task[Envelope]") -> None:
        """What could not be published was not said."""
        if publishing.cancelled() or publishing.exception() is not None:
            self._window.forget(said)

    async def _append(self, envelope: Envelope) -> Envelope:
        async with self._store.begin() as tx:
            [told] = await tx.append((envelope,))
        if (told.time, told.trace) == (envelope.time, envelope.trace):
            self.published[told.name] += 1
        else:
            self.repeated += 1
        return told

    async def publish_many(self, events: Sequence[Event], *, source: str = "") -> Sequence[Envelope]:
        """Say that *events* happened, in this order; those for the log all or none."""
        envelopes = [self._scribe.wrap(event, source=source) for event in events if event.SCOPE == "log"]
        async with self._store.begin() as tx:
            kept = iter(await tx.append(envelopes))
        self.published.update(envelope.name for envelope in envelopes)
        return [next(kept) if event.SCOPE == "log" else self.tell(event, source=source) for event in events]

    def post(self, event: Event, *, source: str = "") -> "Future[Envelope]":
        """The synchronous door, for threads other than the loop's: accepted at once, done when durable."""
        return asyncio.run_coroutine_threadsafe(self.publish(event, source=source), self._loop)

    # -- listening -----------------------------------------------------------------------------------------------------

    def subscribe(
        self, asked: Asked, call: Callable[[Event, Envelope], Any], *, name: str = "", concurrency: int = 1,
        queue_max: int | None = None, seconds_max: float | None = None, gap: Gap | None = None,
    ) -> Subscription:  # fmt: skip
        """Hear of events from now on, in this process only: for views.  A plain function gets a thread.

        *asked* is an event class, a name, a set of them, a predicate, or None for everything.  One that falls behind
        gets the log's events late and in order; of those that are in no log it misses some, and *gap* is told.
        """
        settings = self._settings
        subscription = Subscription(
            name or getattr(call, "__qualname__", type(call).__name__), wants(asked), call, self._clock, self._threads,
            concurrency=concurrency, queue_max=queue_max or settings.queue_max,
            seconds_max=seconds_max or settings.handler_seconds_max, after=self._store.position, gap=gap,
            catch_up=self._fanout.catch_up,
        )  # fmt: skip
        self._fanout.add(subscription)
        return subscription

    def handle(
        self, asked: Asked, call: Callable[[Event, Envelope, str], Any], *, name: str, from_start: bool = False,
        concurrency: int = 1, seconds_max: float | None = None, retry: Backoff | None = None, ordered: bool = False,
    ) -> None:  # fmt: skip
        """Call *call* with event, envelope and delivery key for every event asked for: at least once, over restarts.

        *name* is who it is: a handler that comes back under its name goes on where it was.  A new one starts with what
        comes, or *from_start* with all there is.  What fails is tried again and becomes a letter.
        """
        check_name("handler", name)
        if name in self._handling or any(reader.name == name for reader in self._readers):
            raise InputError(f"a reader named {name!r} is there already")
        if ordered and concurrency > 1:
            raise InputError(f"handler {name!r} cannot keep the order with {concurrency} at once")
        errand = Errand(
            name=name, wants=wants(asked), call=awaited(call, self._threads),
            seconds_max=seconds_max or self._settings.handler_seconds_max,
            backoff=retry or self._settings.redelivery, concurrency=concurrency, ordered=ordered,
        )  # fmt: skip
        attendant = Attendant(errand, self._store, self._clock, self._scribe, self._settings.batch)
        at = 0 if from_start else self._store.position
        serving = attendant.serve(at, self._settings.poll_seconds, self._settings.redeliver_seconds)
        task = self._loop.create_task(serving, name=f"handler:{name}")
        task.add_done_callback(lambda ended: self._ended(name, ended))
        self._handling[name] = (errand, task)

    def _ended(self, name: str, task: "asyncio.Task[None]") -> None:
        """A handler that ends by itself has lost its store or its place: others must not think that it listens."""
        if not task.cancelled() and (wrong := task.exception()) is not None:
            self._handling.pop(name, None)
            log.error("handler %s hears nothing more: %s", name, wrong)

    async def unsubscribe(self, listener: Subscription | str) -> None:
        """End a live subscription, or a handler by its name: its place is kept for when it comes back."""
        if isinstance(listener, Subscription):
            self._fanout.remove(listener)
            ending = listener.end()
        elif listener in self._handling:
            ending = [self._handling.pop(listener)[1]]
            ending[0].cancel()
        else:
            raise UnknownName("handler", listener, self._handling)
        await asyncio.wait(ending)

    def has_subscribers(self, asked: Asked) -> bool:
        """Whether anybody in this process listens to any event of *asked*."""
        wanted = wants(asked)
        durable = [errand.wants for errand, _ in self._handling.values()]
        durable += [Wants(names=reader.wants or None) for reader in self._readers]
        return any(wanted.meets(one) for one in (*self._fanout.wants(), *durable))

    def counts(self) -> list[Counts]:
        """How every live subscription is."""
        return self._fanout.counts()

    async def close(self) -> None:
        """End every subscription and handler of this router."""
        tasks = [task for _, task in self._handling.values()]
        self._handling = {}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._fanout.close()
        self._threads.close()

    # -- reading the log -----------------------------------------------------------------------------------------------

    async def serve(self, reader: Reader, progress: Callable[[], None], holds: Callable[[], bool]) -> None:
        """Deliver to *reader* for ever, while *holds* says so; *progress* is called whenever nothing is left behind."""
        self._readers.append(reader)
        try:
            await self._serve(reader, progress, holds)
        finally:
            self._readers.remove(reader)

    async def _serve(self, reader: Reader, progress: Callable[[], None], holds: Callable[[], bool]) -> None:
        place = await self.courier.enrol(reader)
        while True:
            if holds():
                try:
                    while self._store.position > place:
                        place = await self.courier.take(reader, place)
                        progress()
                except Overtaken:
                    place = await self.courier.enrol(reader)
            progress()
            seen = place if holds() else self._store.position
            await self._store.wait(seen, self._settings.poll_seconds)

    async def live(self, names: Collection[str] = (), after: int | None = None) -> AsyncIterator[Envelope]:
        """Events as they become durable, from now on or behind *after*.  For views: a slow one only lags itself."""
        place = self._store.position if after is None else after
        while True:
            async with self._store.read() as view:
                envelopes = await view.read(place, self._settings.batch)
            for envelope in envelopes:
                place = envelope.position
                if not names or envelope.name in names:
                    yield envelope
            if not envelopes:
                await self._store.wait(place, self._settings.poll_seconds)

    async def recent(self, limit: int = 1000, names: Collection[str] = ()) -> list[Envelope]:
        """The last events, oldest first."""
        return await history.recent(self._store, limit, names)
