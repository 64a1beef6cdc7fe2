"""Client: use a store from your own program: publish, subscribe, handle, jobs, models, status.

It is no node: it takes no role, claims no job and is in no roster.  So any number of programs may use one home, beside
a running node or without one; what was published while no node ran is handled by the next one.  With the URL of a
coordinator it does the same over the wire, as far as the scopes of its key allow (:mod:`ringrift.remote_client`).
"""

import os
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.bus.fanout import decode_event
from ringrift.bus.filters import EventFilter, FilterSpec, make_filter
from ringrift.bus.router import Router
from ringrift.cluster.alerts import Alert, open_alerts
from ringrift.cluster.leadership import Leader, find_leader
from ringrift.cluster.roster import NodeRecord, Roster
from ringrift.coordinator.questions import READERS
from ringrift.environment import read_settings
from ringrift.events import catalog
from ringrift.events.base import Envelope, Event
from ringrift.jobs import Job, JobQuery
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import InputError, Unreachable, WorkError
from ringrift.kernel.ids import Ids, check_name, seed_of
from ringrift.kernel.settings import Settings
from ringrift.kernel.value import Value
from ringrift.pipeline.line import LINES, Line, require_line
from ringrift.pipeline.models import MODELS, Model, model_file, resolve
from ringrift.store.follow import follow, wait_for
from ringrift.store.open import open_store, store_exists
from ringrift.store.ports import LIVE_STATES, STATES, JobRow, Reads, Store
from ringrift.work import desk
from ringrift.work.job_facts import JobFacts, find_job, job_facts

_POLL_SECONDS = 0.2

_Retry = Backoff | None  #: By default as ``bus.redelivery`` says.
HandlerFunction = Callable[[Any, Envelope, str], Any]  #: Gets event, envelope and delivery key; plain or async.


class ClientStatus(Value):
    """What is going on: nodes, lines, open alerts, and the number of jobs by (kind, state)."""

    nodes: tuple[NodeRecord, ...]  #: Those that have not left and are not known to be silent.
    lines: tuple[Line, ...]
    alerts: tuple[Alert, ...]
    jobs: Mapping[tuple[str, str], int]


class JobsClient:
    """The jobs of a store."""

    def __init__(self, store: Store, clock: Clock, envelopes: EnvelopeFactory) -> None:
        self._store, self._clock, self._envelopes = store, clock, envelopes

    async def list(
        self, *, variant: str | None = None, states: Collection[str] = STATES, limit: int = 100
    ) -> Sequence[JobRow]:
        """The *limit* newest jobs in these *states*, newest first; :func:`ringrift.jobs.decode` reads their body."""
        async with self._store.read() as view:
            return await view.list_jobs(JobQuery(variant=variant, states=tuple(states)), limit)

    async def show(self, id: str) -> JobFacts:
        """All about the job whose id begins or ends with *id*.  Raises UnknownName, InputError."""
        async with self._store.read() as view:
            return await job_facts(view, id)

    async def enqueue(self, job: Job) -> str:
        """Enqueue *job*; its id, or that of the live job with the same key.  Raises InvalidWork."""
        async with self._store.begin() as tx:
            [id] = await desk.enqueue(tx, [job], self._envelopes, self._clock.now())
        return id

    async def wait(self, id: str, seconds_max: float = 900.0) -> JobFacts:
        """Wait until the job is done, dead or cancelled.  Raises UnknownName, or WorkError if it is not in time."""
        id = (await self.show(id)).id

        async def has_ended(view: Reads) -> bool | None:
            return None if await view.list_jobs(JobQuery(begins=id, states=LIVE_STATES), 1) else True

        if not await wait_for(self._store, has_ended, self._clock, seconds_max, poll_seconds=_POLL_SECONDS):
            raise WorkError(f"job {id} has not ended after {seconds_max:g} s (ringrift jobs show {id})")
        return await self.show(id)

    async def cancel(self, id: str, *, reason: str = "cancelled by a program") -> bool:
        """Cancel the job; False if it had ended.  Its line goes on without it, and its worker ends within seconds."""
        async with self._store.begin() as tx:
            row = await find_job(tx, id)
            if row.state in LIVE_STATES:
                await desk.cancel_job(tx, row, self._envelopes, reason)
            return row.state in LIVE_STATES


class ModelsClient:
    """The models of a store.  A name is the beginning of a model's hash, or a variant for its champion."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def list(self, variant: str | None = None) -> Sequence[Model]:
        """Every model that was a candidate or champion, by generation."""
        async with self._store.read() as view:
            return await MODELS.all(view, "variant", variant) if variant else await MODELS.all(view)

    async def champion(self, variant: str) -> Model | None:
        """The champion of *variant*, if it has one.  Raises UnknownName for a variant without a line."""
        async with self._store.read() as view:
            champion = (await require_line(view, variant)).champion
            return None if champion is None else (await resolve(view, champion, variant)).record

    async def path(self, name: str) -> Path:
        """A verified file of the model on this machine.  Raises UnknownName, InputError, NoRoute."""
        async with self._store.read() as view:
            return await model_file(view, (await resolve(view, name)).model)

    async def weights(self, name: str) -> bytes:
        """The content of that file."""
        return (await self.path(name)).read_bytes()


class Client:
    """A connection to a store that this process has open."""

    def __init__(self, store: Store, clock: Clock, settings: Settings) -> None:
        rng = Random(seed_of(settings.node.id, os.getpid(), clock.now(), clock.tick(), id(self)))
        self._store, envelopes = store, EnvelopeFactory(settings.node.id, clock, Ids(clock, rng))
        self._router = Router(store, clock, envelopes, settings.bus)
        self._roster = Roster(store, clock, settings.cluster.beat_seconds)
        self.jobs, self.models = JobsClient(store, clock, envelopes), ModelsClient(store)

    @property
    def position(self) -> int:
        """The newest position of the log that is known here."""
        return self._store.position

    async def read(self, after: int, *, names: Collection[str] = (), limit: int = 1000) -> Sequence[Envelope]:
        """Up to *limit* events after position *after*, in order; with *names*, only those."""
        async with self._store.read() as view:
            return await view.read(after, limit, names)

    async def place(self, name: str) -> int:
        """The place of the reader *name* in the log; a new one is behind the newest event."""
        async with self._store.begin() as tx:
            return await tx.register_reader(READERS + check_name("reader", name), self.position)

    async def move(self, name: str, old: int, new: int) -> None:
        """Move the reader *name* on.  Raises Overtaken if it is not at *old*."""
        async with self._store.begin() as tx:
            await tx.advance(READERS + check_name("reader", name), old, new)

    async def leader(self) -> Leader:
        """The node that leads and where it serves; its name is empty if none does."""
        async with self._store.read() as view:
            return await find_leader(view)

    async def publish(self, event: Event, *, id: str | None = None) -> Envelope:
        """Publish *event*; it is durable when this returns.  The same *id* again publishes it once.

        Raises InputError for an event that is not in the catalog or only for the inside of a node.
        """
        catalog.require_listed(type(event))
        if event.SCOPE == "memory":
            raise InputError(f"{event.name()} is only for subscribers inside a node, and not stored")
        return await self._router.publish(event, id=id, source="program")

    def subscribe(self, spec: FilterSpec = None, *, after: int | None = None) -> AsyncIterator[tuple[Event, Envelope]]:
        """The events that *spec* selects, as they become durable: from now on, or *after* a position of the log.

        *spec* is an event class, a name, a set of both, a predicate, or None for every event.
        """
        # Here, not at the first step: what is published between the two is not missed.
        return self._follow(make_filter(spec), self._store.position if after is None else after)

    async def _follow(self, event_filter: EventFilter, after: int) -> AsyncIterator[tuple[Event, Envelope]]:
        async for envelope in follow(self._store, after, names=event_filter.names or ()):
            event = decode_event(envelope)
            if event is not None and event_filter.matches(event, envelope):
                yield event, envelope

    async def handle(
        self, spec: FilterSpec, function: HandlerFunction, *, name: str, from_start: bool = False, retry: _Retry = None
    ) -> None:
        """Call *function* with event, envelope and delivery key for each selected event, at least once.

        It goes on until the client closes; a program that uses *name* again continues where this one stopped.  A new
        handler begins with the next event, or *from_start* with the whole log.  Failed calls are repeated, with the
        same key, and become dead letters after the last one.
        """
        name = READERS + check_name("handler", name)
        self._router.handle(spec, function, name=name, from_start=from_start, retry=retry)

    async def status(self) -> ClientStatus:
        """What is going on now."""
        async with self._store.read() as view:
            nodes, lines = await self._roster.present(view), await LINES.all(view)
            alerts, jobs = await open_alerts(view), await view.count_jobs()
        return ClientStatus(nodes=tuple(nodes), lines=tuple(lines), alerts=tuple(alerts), jobs=jobs)

    async def close(self) -> None:
        """End its handlers; :func:`connect` does it."""
        await self._router.close()


@asynccontextmanager
async def connect(
    home: str | Path | None = None, *, settings: Settings | None = None, create: bool = False
) -> AsyncIterator[Client]:
    """Connect to the store of *home* (default: RINGRIFT_HOME, else ``data``) for as long as the body runs.

    *home* may be the URL of a coordinator, or several with commas between; without a home RINGRIFT_COORDINATOR_URL may
    name them.  Then the key in RINGRIFT_HOME says what the program may do (``ringrift join URL --program``).
    *settings* replace those of the home's ``ringrift.toml`` and the environment; *create* makes a store where there is
    none.  Raises Unreachable where there is no store, SettingsError without a key, NodeAway if no coordinator answers.
    """
    urls = [url.strip() for url in str(home).split(",")] if "://" in str(home) else []
    effective = settings or read_settings(home=None if home is None or urls else str(home)).settings
    if home is None:
        urls = list(effective.node.coordinators)
    if urls:
        from ringrift.remote_client import connect_url  # only here: its engine needs packages that a home does not

        async with connect_url(urls, effective) as remote:
            yield remote
        return
    if not create and not store_exists(effective.store):
        raise Unreachable(f'no store at {effective.store.path}: start one with "ringrift run", or pass create=True')
    clock = SystemClock()
    async with open_store(effective.store, clock, existing=not create) as store:
        client = Client(store, clock, effective)
        try:
            yield client
        finally:
            await client.close()
