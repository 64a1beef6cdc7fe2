"""Client over the wire: what :class:`ringrift.client.Client` does, with the scopes of the program's key."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from platform import node as node_name
from random import Random
from typing import Any, cast

import msgspec

from ringrift import jobs
from ringrift.blobs.folder import FolderBlobs
from ringrift.bus import trace
from ringrift.bus.fanout import decode_event
from ringrift.bus.filters import EventFilter
from ringrift.bus.remote_log import NOW, EventsNote, FollowEvents, RemoteLog
from ringrift.client import Client, ClientStatus, JobsClient, ModelsClient
from ringrift.cluster.leadership import Leader
from ringrift.cluster.remote_roster import FindLeader
from ringrift.cluster.roster import NodeRecord
from ringrift.coordinator import questions
from ringrift.events.base import Envelope, Event
from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import SettingsError
from ringrift.kernel.ids import Ids, seed_of
from ringrift.kernel.settings import Settings
from ringrift.kernel.value import changed
from ringrift.pipeline.models import Model
from ringrift.store.ports import Store
from ringrift.sync.remote_blobs import BlobCache
from ringrift.wire.connection import Connection
from ringrift.wire.keys import load_key
from ringrift.wire.open import open_wire
from ringrift.wire.ports import Wire
from ringrift.work.job_facts import JobFacts

_KEYS, _CACHE = "keys", "cache"  # below the home of a program
_NODES_PAGE = 100
_HOW = "make one with  ringrift join URL --program --token-file FILE"


class _RemoteJobs(JobsClient):
    """The jobs of a coordinator."""

    def __init__(self, log: RemoteLog, clock: Clock, connection: Connection) -> None:
        self._store, self._clock, self._connection = cast("Store", log), clock, connection

    async def show(self, id: str) -> JobFacts:
        return (await self._connection.call("jobs.show", questions.ShowJob(id=id), questions.ShownJob)).facts

    async def enqueue(self, job: jobs.Job) -> str:
        body = questions.EnqueueJob(kind=job.kind(), body=jobs.encode(job))
        return (await self._connection.call("jobs.enqueue", body, questions.EnqueuedJob)).id

    async def cancel(self, id: str, *, reason: str = "cancelled by a program") -> bool:
        body = questions.CancelJob(id=id, reason=reason)
        return (await self._connection.call("jobs.cancel", body, questions.CancelledJob)).cancelled


class _RemoteModels(ModelsClient):
    """The models of a coordinator; their files are fetched into a cache of the home."""

    def __init__(self, connection: Connection, folder: Path, bytes_max: int, clock: Clock) -> None:
        self._connection, self._bytes_max, self._clock = connection, bytes_max, clock
        self._blobs = FolderBlobs(folder)
        self._cache = BlobCache(connection, self._blobs, clock)

    async def list(self, variant: str | None = None) -> Sequence[Model]:
        models = list[Model]()
        while True:
            ask = questions.ListModels(variant=variant, after=len(models))
            page = await self._connection.call("models.list", ask, questions.Models)
            models += page.models
            if not page.more:
                return models

    async def champion(self, variant: str) -> Model | None:
        return (await self._find(variant)).model

    async def _find(self, name: str, *, any: bool = False) -> questions.FoundModel:
        ask = questions.FindModel(name=name, any=any)
        return await self._connection.call("models.find", ask, questions.FoundModel)

    async def path(self, name: str) -> Path:
        """A verified copy of the model on this machine.  Raises UnknownName, InputError, NoRoute."""
        blob = (await self._find(name, any=True)).blob
        started = self._clock.now()
        await self._cache.fetch([blob])
        await self._cache.trim([blob], self._bytes_max, started)
        return self._blobs.folder.path(blob)


class _RemoteClient(Client):
    """A connection to the coordinators of a cluster."""

    def __init__(self, connection: Connection, clock: Clock, settings: Settings, cache: Path) -> None:
        log = RemoteLog(connection)
        super().__init__(cast("Store", log), clock, changed(settings, node=changed(settings.node, id=connection.node)))
        self._log, self._connection = log, connection
        self.jobs = _RemoteJobs(log, clock, connection)
        self.models = _RemoteModels(connection, cache, settings.cluster.cache_bytes_max, clock)

    async def open(self) -> None:
        """Reach a coordinator.  Raises NodeAway, KeyRefused."""
        await self.leader()
        await self._log.open()

    async def leader(self) -> Leader:
        return await self._connection.call("leader", FindLeader(), Leader)

    async def _follow(self, event_filter: EventFilter, after: int) -> AsyncIterator[tuple[Event, Envelope]]:
        body = FollowEvents(position=max(after, NOW), names=tuple(sorted(event_filter.names or ())))
        notes: Any = self._connection.notes("events", body, EventsNote)
        async with aclosing(notes):
            async for note in notes:
                for envelope in note.envelopes:
                    event = decode_event(envelope)
                    if event is not None and event_filter.matches(event, envelope):
                        yield event, envelope

    async def status(self) -> ClientStatus:
        answer = await self._connection.call("status", questions.AskStatus(), questions.StatusAnswer)
        nodes = list[NodeRecord]()
        for first in range(0, len(answer.nodes), _NODES_PAGE):
            ask = questions.AskFacts(nodes=answer.nodes[first : first + _NODES_PAGE])
            nodes += (await self._connection.call("facts", ask, questions.NodeRecords)).nodes
        counts = {(row.kind, row.state): row.count for row in answer.jobs}
        return ClientStatus(nodes=tuple(nodes), lines=answer.lines, alerts=answer.alerts, jobs=counts)

    async def close(self) -> None:
        await super().close()
        await self._log.close()
        await self._connection.close()


@asynccontextmanager
async def connect_url(
    urls: Sequence[str], settings: Settings, *, wire: Wire | None = None, clock: Clock | None = None
) -> AsyncIterator[Client]:
    """Connect to the coordinators at *urls* with the key below the home of *settings*; *wire* replaces the engine.

    Raises SettingsError without a key of a program, NodeAway if no coordinator answers, KeyRefused.
    """
    home, clock = Path(settings.blobs.folder).parent, clock or SystemClock()
    folder = home / _KEYS
    path = folder / "node.json"
    if not path.exists():
        raise SettingsError("key file", str(path), f"there is no key of a program: {_HOW}")
    _require_program(folder / "joined.json")
    async with AsyncExitStack() as stack:
        if wire is None:
            pinned = folder / "ca.pem"
            wire_settings = settings.wire
            if not wire_settings.ca and await asyncio.to_thread(pinned.exists):
                wire_settings = changed(wire_settings, ca=str(pinned))
            wire = open_wire(wire_settings)
            stack.callback(wire.close)
        rng = Random(seed_of(os.getpid(), clock.now(), clock.tick(), id(stack)))
        context: Any = {"boot": Ids(clock, rng).next(), "machine": node_name(), "key_path": path}
        connection = Connection(wire, urls, load_key(path)[0], rng, trace=trace.traceparent, **context)
        client = _RemoteClient(connection, clock, settings, home / _CACHE)
        stack.push_async_callback(client.close)
        await client.open()
        yield client


def _require_program(joined: Path) -> None:
    """Raise SettingsError if the key beside *joined* is that of a worker: two processes with one would be refused."""
    if joined.exists() and msgspec.json.decode(joined.read_bytes()).get("profile"):
        remedy = f"use another RINGRIFT_HOME: {_HOW}"
        raise SettingsError("RINGRIFT_HOME", str(joined.parent.parent), f"its key is that of a worker; {remedy}")
