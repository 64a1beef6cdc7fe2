"""Worker: a node without a store, which does jobs of a coordinator over the wire, built in one function like a Node."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, fields
from functools import partial
from operator import attrgetter
from pathlib import Path
from platform import node as node_name
from random import Random
from typing import Any

import msgspec

from ringrift.blobs.folder import FolderBlobs
from ringrift.blobs.ports import Blobs
from ringrift.bus import trace
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.bus.recorder import open_recorder
from ringrift.bus.remote_router import RemoteRouter
from ringrift.cluster.activity import ActivityTracker
from ringrift.cluster.facts import FactsMeter
from ringrift.cluster.remote_roster import BeatAnswer, RemoteRoster
from ringrift.cluster.roster import NodeRecord
from ringrift.cluster.swim_udp import gossip_daemons
from ringrift.daemons import DAEMONS
from ringrift.daemons.run_commands import NAME as RUN_COMMANDS
from ringrift.daemons.run_commands import run_remote_commands
from ringrift.jobs import NODE_KINDS, Job
from ringrift.kernel.backoff import wait_out
from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import TRANSIENT, SettingsError, TransferError
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import Settings
from ringrift.kernel.wire_errors import KeyRefused
from ringrift.pipeline.file_jobs import conclude
from ringrift.supervision import plugin
from ringrift.supervision.hang_detector import STALL_SECONDS_MAX, CheckIntervals
from ringrift.supervision.spec import Daemon
from ringrift.supervision.supervisor import Supervisor
from ringrift.sync.file_share import FileShare
from ringrift.sync.peer_port import open_peer_port
from ringrift.sync.remote_blobs import BlobCache
from ringrift.sync.shaper import Shaper
from ringrift.sync.transports.http import PeerReader
from ringrift.threads import beside
from ringrift.wire.connection import Leave, Nothing
from ringrift.wire.keys import SigningKey, load_key
from ringrift.wire.open import open_wire
from ringrift.wire.ports import Wire
from ringrift.work.checkpoints import Checkpoint
from ringrift.work.desk import JobOutcome
from ringrift.work.island import Island
from ringrift.work.launch.ports import Launch
from ringrift.work.launch.process import ProcessLaunch
from ringrift.work.limits import KINDS, LineWork
from ringrift.work.remote_desk import WatchWork, WorkNote
from ringrift.work.result_sender import ResultSender
from ringrift.work.run_states import RunStates
from ringrift.work.runner import OnProgress, Runner
from ringrift.work.spool import Spool
from ringrift.work.worker_connection import WorkerConnection
from ringrift.work.worker_desk import RemoteDesk, RemoteOutcome
from ringrift.work.worker_pool import WorkerPool
from ringrift.workload.api import JobResult
from ringrift.workload.registry import Registry

_LEAVE_SECONDS_MAX = 3.0  #: How long a worker that stops waits for the answer to its goodbye.
_ALIVE_SECONDS = 5.0
_FETCH_SECONDS, _TRIM_SECONDS = 10.0, 300.0
_DERIVED_PARTS = {"bus_settings": "settings.bus", "work_settings": "settings.work"}


@dataclass(frozen=True, slots=True)
class Worker:
    """Parts are built once, in :meth:`open`, and passed to daemons by the names of these fields, as those of a Node."""

    node_id: str
    settings: Settings
    clock: Clock
    rng: Random
    ids: Ids
    envelopes: EnvelopeFactory
    connection: WorkerConnection
    blobs: Blobs
    cache: BlobCache
    file_share: FileShare
    router: RemoteRouter
    desk: RemoteDesk
    roster: RemoteRoster
    record: NodeRecord
    facts: FactsMeter
    activity: ActivityTracker
    spool: Spool
    sender: ResultSender
    runner: Runner
    supervisor: Supervisor
    island: Island | None

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: Settings,
        clock: Clock,
        rng: Random,
        *,
        wire: Wire | None = None,
        blobs: Blobs | None = None,
        launch: Launch | None = None,
        key: SigningKey | None = None,
        key_path: Path | None = None,
        extra: tuple[Daemon, ...] = (),
    ) -> AsyncIterator["Worker"]:
        """Open a running worker with *key*, else that of *key_path*.  It needs no coordinator to be there yet.

        *wire*, *blobs* and *launch* replace engines.  Raises SettingsError.
        """
        me, simulated = settings.node, not isinstance(clock, SystemClock)  # then there are no threads or foreign code
        key = _load_key(settings, key, key_path)
        async with AsyncExitStack() as stack:
            if wire is None:
                wire = open_wire(settings.wire)
                stack.callback(wire.close)
            worker = await cls._build(stack, settings, clock, rng, wire, key, key_path, blobs, launch)
            stack.push_async_callback(worker._leave)
            daemons, parts = worker._daemons() + extra, worker.parts()
            daemons += () if simulated else gossip_daemons(settings, me.id, worker.roster, clock, rng)
            plugins, broken = ((), ()) if simulated else plugin.installed(daemons, parts, me.profile, has_store=False)
            elsewhere = {daemon.name for daemon in DAEMONS if daemon.store}  # a name of the coordinator's is no mistake
            disabled = [name for name in me.disabled_daemons if name not in elsewhere]
            running = worker.supervisor.run(daemons, parts, me.profile, broken, plugins=plugins, disabled=disabled)
            await stack.enter_async_context(running)
            try:
                yield worker
            finally:
                worker.connection.is_stopping = True

    @classmethod
    async def _build(
        cls,
        stack: AsyncExitStack,
        settings: Settings,
        clock: Clock,
        rng: Random,
        wire: Wire,
        key: SigningKey,
        key_path: Path | None,
        blobs: Blobs | None,
        launch: Launch | None,
    ) -> "Worker":
        """The parts, from the wire at the bottom to the supervisor on top."""
        me, work, simulated = settings.node, settings.work, not isinstance(clock, SystemClock)
        ids, address = Ids(clock, rng), settings.blobs.address()
        record = _make_record(settings, clock, ids.next(), simulated=simulated)
        options: dict[str, Any] = {
            "boot": record.boot,
            "machine": node_name(),
            "key_path": key_path,
            "trace": trace.traceparent,
        }
        options |= {"key_rng": rng} if simulated else {}
        connection = WorkerConnection(clock, wire, me.coordinators, key, rng, **options)
        stack.push_async_callback(connection.close)
        recorder = await stack.enter_async_context(open_recorder(settings.trace, me.id, clock, ids, None))
        envelopes = EnvelopeFactory(me.id, clock, ids, recorder)
        router = RemoteRouter(connection, clock, envelopes, settings.bus)
        stack.push_async_callback(router.close)
        blobs = blobs or await _open_blobs(address, me.id)
        peers = None if simulated else PeerReader(me.id, connection.sign, partial(_open_peer_wire, settings))
        shaper = Shaper(settings.bandwidth, clock)
        cache = BlobCache(connection, blobs, clock, peers, shaper)
        stack.callback(lambda: peers.close() if peers is not None else None)
        file_share = FileShare(connection, blobs, cache, clock, shaper)
        spool = Spool(Path(address) / "spool", settings.cluster.spool_bytes_max)
        await wait_out(spool.open)
        sender = ResultSender(connection, spool, cache.upload, rng)
        island = Island(me.id, record.boot, rng, work.lease_seconds) if me.island else None
        desk = RemoteDesk(connection, spool, sender, cache.upload, record.boot, work, rng, island)
        stack.push_async_callback(desk.close)
        roster = RemoteRoster(connection, router, partial(_take_answer, connection, desk, island), island=me.island)
        registry = None if simulated or launch else Registry.load(work.executables)
        facts = FactsMeter(address, me.labels, registry.runnable if registry else None)
        launch = launch or ProcessLaunch(address, work.executables, me.id, settings.logs)
        pool, kinds, publish = WorkerPool(launch, work), KINDS[me.profile] - NODE_KINDS, router.publish_memory
        calls: dict[str, Any] = {"fetch_inputs": _fetch_by(cache), "run_on_node": _refuse, "wait": desk.wait}
        hand_in = partial(_hand_in, record)
        runner = Runner(me.id, desk, pool, clock, work, kinds, **calls, make_outcome=hand_in, publish=publish)
        activity = ActivityTracker(me.id)
        activity.subscribe(router)
        intervals = CheckIntervals(stall_seconds_max=None if simulated else STALL_SECONDS_MAX)
        roles: dict[str, Any] = {"holds": _holds_no_role, "check": _check_no_role}
        supervisor = Supervisor(me.id, router, clock, **roles, rng=rng, intervals=intervals)
        return cls(
            me.id, settings, clock, rng, ids, envelopes, connection, blobs, cache, file_share, router, desk, roster,
            record, facts, activity, spool, sender, runner, supervisor, island,
        )  # fmt: skip

    @property
    def ended(self) -> "asyncio.Future[None]":
        """Fails when the coordinator refuses its key, as of a node that was removed."""
        return self.connection.ended

    def parts(self) -> dict[str, Any]:
        """The parts that daemons may ask for, by name."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return own | {name: attrgetter(path)(self) for name, path in _DERIVED_PARTS.items()}

    def _daemons(self) -> tuple[Daemon, ...]:
        """Those of its own, which stop last, and those of a node that need no store."""

        async def deliver(*, alive: Callable[[], None]) -> None:
            await self.sender.run(alive)

        async def listen(*, alive: Callable[[], None]) -> None:
            async with beside(self._follow()) as task:
                while not task.done():
                    alive()
                    await asyncio.wait((task,), timeout=_ALIVE_SECONDS)
                task.result()

        async def trim_cache() -> None:
            pinned = {blob for row in self.spool.results for blob in row.blobs}
            pinned |= self.island.blobs if self.island is not None else set()
            before = self.clock.now() - self.settings.work.deadline_seconds  # a running job may need what is newer
            await self.cache.trim(pinned, self.settings.cluster.cache_bytes_max, before)

        async def share(*, alive: Callable[[], None]) -> None:
            await self.file_share.run(alive)

        async def prefetch(*, alive: Callable[[], None]) -> None:
            await self.file_share.prefetch(alive)

        async def serve_peers(*, alive: Callable[[], None]) -> None:
            with open_peer_port(self.settings, self.clock) as (wire, address, authority):
                await self.file_share.serve(wire, address, authority, alive)

        async def fetch_champions() -> None:
            if self.island is not None:
                await self.island.fetch(self.cache.fetch)

        own: tuple[Daemon, ...] = (
            Daemon(name="deliver", run=deliver, serve=True, store=False, critical=True, category="core"),
            Daemon(name="listen", run=listen, serve=True, store=False, category="core"),
            Daemon(
                name=RUN_COMMANDS, run=run_remote_commands, serve=True, store=False, after=("beat",), category="core"
            ),
            Daemon(name="trim_cache", run=trim_cache, every=_TRIM_SECONDS, store=False, category="resources"),
            Daemon(name="share", run=share, serve=True, store=False, after=("beat",), category="sync"),
            Daemon(name="prefetch", run=prefetch, serve=True, store=False, after=("beat",), category="sync"),
            Daemon(name="fetch_champions", run=fetch_champions, every=_FETCH_SECONDS, store=False, category="sync"),
        )
        if self.settings.node.serve:
            own += (Daemon(name="serve_peers", run=serve_peers, serve=True, store=False, category="sync"),)
        others = [msgspec.structs.replace(d, after=(*d.after, "deliver")) for d in DAEMONS if not d.store]
        return (*own, *others)

    async def _follow(self) -> None:
        """Take up wake-ups and run states as they come."""
        async for note in self.connection.notes("work", WatchWork(kinds=tuple(sorted(self.runner.kinds))), WorkNote):
            self.desk.update(note)

    async def _leave(self) -> None:
        """Deliver what is done and say goodbye.  A crash instead is as safe: the spool stays."""
        errors = (TimeoutError, KeyRefused, *TRANSIENT)
        with suppress(*errors):
            await self.sender.drain(self.settings.work.grace_seconds if self.connection.ready else 0.0)
        with suppress(*errors):
            leave = Leave(reason="stopped")
            await self.connection.call("leave", leave, Nothing, seconds_max=_LEAVE_SECONDS_MAX)
            self.connection.has_left = True


def _load_key(settings: Settings, key: SigningKey | None, path: Path | None) -> SigningKey:
    """*key*, else that in *path*.  Raises SettingsError if it is not that of this node, or nobody is there to ask."""
    if not settings.node.coordinators:
        raise SettingsError("node.coordinators", "", "a worker needs the address of a coordinator")
    if key is None:
        assert path is not None
        key, _ = load_key(path)
    if key.node != settings.node.id:
        raise SettingsError("node.id", settings.node.id, f"the key of this home is that of node {key.node}")
    return key


def _machine() -> str:
    return f"{node_name()}, process {os.getpid()}"


def _holds_no_role(_: str) -> bool:
    return False


async def _check_no_role(*_: object) -> None:
    """No daemon of a worker has a role."""


def _take_answer(connection: WorkerConnection, desk: RemoteDesk, island: Island | None, answer: BeatAnswer) -> None:
    """Obey what came back with a heartbeat."""
    connection.learn(answer.addresses)
    if island is not None:
        island.offer(answer.champions)
    if answer.run_states:
        desk.update(WorkNote(run_states=msgspec.msgpack.decode(answer.run_states, type=RunStates)))


def _open_peer_wire(settings: Settings, authority: str) -> Wire:
    return open_wire(settings.wire, authority=authority)


async def _open_blobs(address: str, node: str) -> Blobs:
    blobs = FolderBlobs(address, node)
    await blobs.open(is_new=True)
    return blobs


def _make_record(settings: Settings, clock: Clock, boot: str, *, simulated: bool) -> NodeRecord:
    me = settings.node
    facts: dict[str, Any] = {"boot": boot, "joined": clock.now(), "labels": me.labels, "ephemeral": me.ephemeral}
    if not simulated:
        facts |= {"pid": os.getpid(), "machine": node_name(), "cores": len(os.sched_getaffinity(0))}
    return NodeRecord(id=me.id, profile=me.profile, address="", beat=0, **facts)


def _fetch_by(cache: BlobCache) -> Callable[[Sequence[str], Checkpoint | None, OnProgress], Any]:
    async def fetch(blobs: Sequence[str], checkpoint: Checkpoint | None, on_progress: OnProgress) -> None:
        await cache.fetch(blobs, on_progress)
        if checkpoint is not None:
            with suppress(TransferError):  # lost with its node: the job starts over
                await cache.fetch([checkpoint.blob], on_progress)

    return fetch


async def _refuse(job: Job, _: OnProgress) -> JobOutcome:
    raise AssertionError(f"{job.kind()} jobs need a store, and no worker claims them")


def _hand_in(record: NodeRecord, job: Job, result: JobResult, line: LineWork) -> JobOutcome:
    """*result* for the coordinator to conclude from.  Raises JobFailed here already if it is not what was asked for."""
    conclude(job, result, line, node=record.id, holder=record.id, ephemeral=record.ephemeral)
    return RemoteOutcome(job=job, result=result)
