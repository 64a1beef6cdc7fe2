"""Router: publishes events, serves durable readers, and shows the log live."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from concurrent.futures import Future

from ringrift.bus.delivery import Courier, Reader
from ringrift.bus.scribe import Scribe
from ringrift.events import catalog
from ringrift.events.base import Envelope, Event, Unknown
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import Overtaken, UnknownName
from ringrift.kernel.settings import BusSettings
from ringrift.store.ports import Store


class Router:
    """The way in and out of the log for one node."""

    def __init__(self, store: Store, clock: Clock, scribe: Scribe, settings: BusSettings) -> None:
        self._store, self._scribe, self._settings = store, scribe, settings
        self._loop = asyncio.get_running_loop()
        self.courier = Courier(store, clock, settings.redelivery, settings.batch)

    async def publish(self, event: Event, *, id: str | None = None, source: str = "") -> Envelope:
        """Say that *event* happened.  Returns when it is durable; never waits for anybody who listens.

        The same *id* and body again return the first envelope.  Raises InputError or IdConflict, and nothing changes.
        """
        return await self._append(self._scribe.wrap(event, id=id, source=source))

    async def admit(self, name: str, raw: bytes, *, id: str | None = None, source: str = "") -> Envelope:
        """Publish an event that comes from outside, as bytes, which are kept as they came.

        Raises InputError or UnknownName, and nothing changes.
        """
        event = catalog.admit(name, raw)
        if isinstance(event, Unknown):
            raise UnknownName("event", name, catalog.names())
        return await self._append(self._scribe.seal(event, raw, id=id, source=source))

    async def _append(self, envelope: Envelope) -> Envelope:
        async with self._store.begin() as tx:
            [told] = await tx.append((envelope,))
        return told

    async def publish_many(self, events: Sequence[Event], *, source: str = "") -> Sequence[Envelope]:
        """Say that *events* happened, in this order, all or none."""
        envelopes = [self._scribe.wrap(event, source=source) for event in events]
        async with self._store.begin() as tx:
            return await tx.append(envelopes)

    def post(self, event: Event, *, source: str = "") -> "Future[Envelope]":
        """The synchronous door, for threads other than the loop's: accepted at once, done when durable."""
        return asyncio.run_coroutine_threadsafe(self.publish(event, source=source), self._loop)

    async def serve(self, reader: Reader, progress: Callable[[], None], holds: Callable[[], bool]) -> None:
        """Deliver to *reader* for ever, while *holds* says so; *progress* is called whenever nothing is left behind."""
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
