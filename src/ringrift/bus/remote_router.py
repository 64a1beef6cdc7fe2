"""The event bus of a worker without a store: log events go to the coordinator, memory events stay in the process."""

from collections import deque
from collections.abc import Sequence
from typing import Any, NoReturn, cast

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.bus.filters import FilterSpec, make_filter
from ringrift.bus.router import Router
from ringrift.bus.subscription import SubscriberFunction, Subscription
from ringrift.events import catalog
from ringrift.events.base import Envelope, Event, JobEvent
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import InputError
from ringrift.kernel.settings import BusSettings
from ringrift.kernel.value import Value, changed
from ringrift.store.ports import Store
from ringrift.wire.connection import Connection

_JOB_EVENTS_MAX = 200  # memory events that wait for the next heartbeat: of more the oldest are dropped


class Publish(Value):
    """`publish`: append events of the node that asks.  By id at most once; evidence is refused.

    The coordinator sets position and node, and checks name and body as for every event from outside.
    """

    envelopes: tuple[Envelope, ...]


class Published(Value):
    """The positions of the events, in the order in which they came."""

    positions: tuple[int, ...]


class _NoLog:
    """Stands where a router has its store: a worker has no log, and nothing of it is ever at any other position."""

    position = 0


class RemoteRouter(Router):
    """The router of a worker.  It publishes durably through *connection*, and subscribes to memory events alone."""

    def __init__(self, connection: Connection, clock: Clock, envelopes: EnvelopeFactory, settings: BusSettings) -> None:
        super().__init__(cast("Store", _NoLog()), clock, envelopes, settings)
        self._connection = connection
        self._job_events: deque[tuple[Event, Envelope]] = deque(maxlen=_JOB_EVENTS_MAX)

    async def publish(self, event: Event, *, id: str | None = None, source: str = "") -> Envelope:
        """Publish *event*; returns when the coordinator has stored it.  Raises NodeAway, InputError or Forbidden."""
        if event.SCOPE == "memory":
            return self.publish_memory(event, id=id, source=source)
        return (await self._send([self._envelopes.make(event, id=id, source=source)]))[0]

    async def publish_many(self, events: Sequence[Event], *, source: str = "") -> Sequence[Envelope]:
        """Publish *events* in this order; those for the log all or none."""
        stored = iter(await self._send([self._envelopes.make(e, source=source) for e in events if e.SCOPE == "log"]))
        return [next(stored) if e.SCOPE == "log" else self.publish_memory(e, source=source) for e in events]

    async def _send(self, envelopes: list[Envelope]) -> list[Envelope]:
        if not envelopes:
            return []
        answer = await self._connection.call("publish", Publish(envelopes=tuple(envelopes)), Published)
        self.published.update(envelope.name for envelope in envelopes)
        return [changed(envelope, position=at) for envelope, at in zip(envelopes, answer.positions, strict=True)]

    def publish_local(self, event: Event, envelope: Envelope) -> None:
        """Offer a memory event to the subscribers here; one about a job also goes with the next heartbeat."""
        super().publish_local(event, envelope)
        if isinstance(event, JobEvent):
            self._job_events.append((event, envelope))

    def take_job_events(self) -> tuple[Envelope, ...]:
        """The memory events about jobs since the last call, with their bodies; the newest _JOB_EVENTS_MAX."""
        rows = tuple(changed(envelope, body=catalog.encode(event)) for event, envelope in self._job_events)
        self._job_events.clear()
        return rows

    async def flush(self) -> None:
        """Wait until what is to be published later is stored, for a while; not for a coordinator that is away."""
        if self._connection.ready:
            await super().flush()

    def subscribe(self, spec: FilterSpec, function: SubscriberFunction, **options: Any) -> Subscription:
        """Call *function* for memory events from now on.  Raises InputError for events of the log."""
        names = make_filter(spec).names
        if names is None or names - catalog.MEMORY_NAMES:
            raise InputError("a worker has no log to subscribe to: name events of scope memory, or use connect(URL)")
        return super().subscribe(spec, function, **options)

    def handle(self, *_: Any, name: str, **__: Any) -> NoReturn:
        """Refuse: durable handlers read the log, which a worker does not have."""
        raise InputError(f"handler {name!r} needs the log, which a worker does not have: run it beside a store")
