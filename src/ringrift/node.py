"""Node: one process's share of the cluster, built in one function that reads as the architecture, top to bottom."""

import asyncio
import os
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, fields
from functools import cache, partial
from operator import attrgetter
from platform import node as node_name
from random import Random
from typing import Any

import msgspec

from ringrift.blobs.folder import FolderBlobs
from ringrift.blobs.ports import Blobs
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.bus.recorder import open_recorder
from ringrift.bus.router import Router
from ringrift.cluster.activity import ActivityTracker
from ringrift.cluster.facts import FactsMeter
from ringrift.cluster.leadership import Roles
from ringrift.cluster.roster import NODES, NodeRecord, Roster
from ringrift.cluster.standby import require_own_place
from ringrift.cluster.swim_udp import gossip_daemons
from ringrift.coordinator.serve import serving_daemon
from ringrift.daemons import DAEMONS, ROLES
from ringrift.daemons.adopt import adopt_left_over
from ringrift.events.node import Joined, Left
from ringrift.kernel.backoff import wait_out
from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import TRANSIENT, NodeAway, TransferError
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import Settings
from ringrift.pipeline.evacuation import Evacuation
from ringrift.pipeline.file_jobs import FileJobs
from ringrift.pipeline.line_settings import LineSettings, open_lines, own_settings
from ringrift.store.open import only_coordinator, open_store
from ringrift.store.ports import Store
from ringrift.store.roles import ROLE_PREFIX
from ringrift.supervision import plugin
from ringrift.supervision.hang_detector import STALL_SECONDS_MAX, CheckIntervals
from ringrift.supervision.spec import COORDINATES, Daemon
from ringrift.supervision.supervisor import Supervisor
from ringrift.sync import ledger
from ringrift.sync.reservations import Reservations
from ringrift.sync.shaper import Shaper
from ringrift.sync.transfer import Transfer
from ringrift.sync.transports.endpoints import folder_finder, open_endpoints
from ringrift.sync.transports.folder import Reach
from ringrift.sync.transports.ports import Endpoints
from ringrift.threads import to_its_end
from ringrift.wire.ports import Wire
from ringrift.work.breakers import BREAKERS, NODE
from ringrift.work.checkpoints import Checkpoint
from ringrift.work.desk import FindMissing, StoreDesk
from ringrift.work.launch.ports import Launch
from ringrift.work.launch.process import ProcessLaunch
from ringrift.work.limits import KINDS
from ringrift.work.link_breakers import LinkBreakers, link_subjects
from ringrift.work.runner import FetchInputs, OnProgress, Runner
from ringrift.work.worker_pool import WorkerPool
from ringrift.workload.registry import Registry

_SERVING_PAUSE_SECONDS = 0.1
_LEAVE_SECONDS_MAX = 3.0  #: How long a node that stops waits for a store that is busy or full.
_PARTS_OF_PARTS = """
    policy=settings.policy replicas=settings.replicas readers=supervisor.readers notify_settings=settings.notify
    bus_settings=settings.bus work_settings=settings.work
"""
_DERIVED_PARTS = dict(pair.split("=") for pair in _PARTS_OF_PARTS.split())  #: What daemons ask for by another name.


@dataclass(frozen=True, slots=True)
class Node:
    """Parts are built once, in :meth:`open`, and passed to daemons by the names of these fields."""

    node_id: str
    settings: Settings
    clock: Clock
    rng: Random
    ids: Ids
    envelopes: EnvelopeFactory
    store: Store
    blobs: Blobs
    router: Router
    desk: StoreDesk
    roster: Roster
    roles: Roles
    record: NodeRecord
    facts: FactsMeter
    activity: ActivityTracker
    transfer: Transfer
    runner: Runner
    supervisor: Supervisor

    @classmethod
    @asynccontextmanager
    async def open(
        cls, settings: Settings, clock: Clock, rng: Random, *,
        store: Store | None = None, blobs: Blobs | None = None, reach: Reach | None = None,
        launch: Launch | None = None, extra: tuple[Daemon, ...] = (), begin: Collection[str] | None = None,
        leads: bool = True, lines: Mapping[str, LineSettings] | None = None, wire: Wire | None = None,
    ) -> AsyncIterator["Node"]:  # fmt: skip
        """Open a running node.  *store* is shared with other nodes; *blobs*, *reach*, *launch*, *wire* replace engines.

        With *begin* only those daemons start and the others rest; a node that does not lead takes no role.
        With *lines* it works on these alone: one that leads puts their settings in force and lets all others rest.
        """
        me, work, cluster = settings.node, settings.work, settings.cluster
        leads = leads and me.profile in COORDINATES
        simulated = not isinstance(clock, SystemClock)  # then there are no threads, and no foreign code
        async with AsyncExitStack() as stack:
            store = store or await open_node_store(stack, settings, clock)
            ids, address = Ids(clock, rng), settings.blobs.address()
            blobs = blobs or await _open_blobs(store, address, me.id)
            recorder = await stack.enter_async_context(open_recorder(settings.trace, me.id, clock, ids, store))
            envelopes = EnvelopeFactory(me.id, clock, ids, recorder)
            router = Router(store, clock, envelopes, settings.bus)
            stack.push_async_callback(router.close)
            registry = None if simulated or launch else Registry.load(work.executables)
            desk = StoreDesk(store, clock, envelopes, work, _find_by(registry) if registry else None)
            roster = Roster(store, clock, cluster.beat_seconds, cluster.grace_seconds)
            roles = Roles(me.id, store, clock, ROLES if leads else (), cluster.role_seconds, envelopes=envelopes)
            record = NodeRecord(id=me.id, profile=me.profile, address=address, beat=0, ephemeral=me.ephemeral)
            record = record if simulated else _with_machine(record, settings, clock, ids)
            facts = FactsMeter(address, me.labels, registry.runnable if registry else None)
            endpoints = None if simulated or reach else _open_endpoints(settings, roster, store, envelopes, clock)
            transfer = Transfer(
                me.id, store, blobs, reach or _reach_by(roster), envelopes, clock=clock, endpoints=endpoints,
                limits=settings.links, shaper=Shaper(settings.bandwidth, clock, Reservations(store, clock).in_force),
            )  # fmt: skip
            file_jobs = FileJobs(record, transfer, roster, settings)
            launch = launch or ProcessLaunch(address, work.executables, me.id, settings.logs)
            runner = Runner(
                me.id, desk, WorkerPool(launch, work), clock, work,
                KINDS[me.profile], fetch_inputs=_fetch_by(transfer, me.id), run_on_node=file_jobs.move,
                make_outcome=file_jobs.conclude, wait=partial(_wait_for_jobs, store, settings.wire.serve),
                publish=router.publish_memory, protect=Evacuation(record, store, roster, transfer).protect,
            )  # fmt: skip
            activity = ActivityTracker(me.id)
            activity.subscribe(router)
            supervisor = Supervisor(
                me.id, router, clock, holds=roles.holds, check=roles.check, want=roles.stand_for if leads else None,
                rng=rng, intervals=CheckIntervals(stall_seconds_max=None if simulated else STALL_SECONDS_MAX),
            )  # fmt: skip
            node = cls(
                me.id, settings, clock, rng, ids, envelopes, store, blobs, router, desk, roster, roles, record,
                facts, activity, transfer, runner, supervisor,
            )  # fmt: skip
            await wait_out(partial(node._recover, lines, leads))
            stack.push_async_callback(node._leave)
            daemons, parts = DAEMONS + extra + node._wire_daemons(wire, simulated=simulated), node.parts()
            plugins, broken = ((), ()) if simulated else plugin.installed(daemons, parts, me.profile)
            options: dict[str, Any] = {"plugins": plugins, "begin": begin, "disabled": me.disabled_daemons}
            await stack.enter_async_context(supervisor.run(daemons, parts, me.profile, broken, **options))
            await wait_out(partial(router.publish, Joined(node=me.id, profile=me.profile), source="node"))
            yield node

    def parts(self) -> dict[str, Any]:
        """The parts that daemons may ask for, by name."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return own | {name: attrgetter(path)(self) for name, path in _DERIVED_PARTS.items()}

    def _wire_daemons(self, wire: Wire | None, *, simulated: bool) -> tuple[Daemon, ...]:
        """Those by which it serves and watches other machines, where its settings say so."""
        serving = (serving_daemon(self.parts(), wire),) if self.settings.wire.serve else ()
        gossip = () if simulated else gossip_daemons(self.settings, self.node_id, self.roster, self.clock, self.rng)
        return serving + gossip

    async def _recover(self, lines: Mapping[str, LineSettings] | None, leads: bool) -> None:
        """Correct what an earlier process of this node left behind, however it ended, and open *lines*."""
        await self.desk.revoke_own(f"node {self.node_id} started again", started=True)
        await adopt_left_over(self.store, self.blobs, self.envelopes, self.clock)
        await ledger.correct(self.store, self.blobs, self.node_id)
        if leads:
            own, alone = own_settings(self.settings), lines is not None
            await open_lines(self.store, self.envelopes, self.clock.now(), own, lines or {}, alone=alone)
        await self.roles.elect()

    async def _leave(self) -> None:
        """Release what other nodes would have to wait for.  A crash instead is as safe, only slower for them."""
        if self.record.ephemeral or self.runner.notice:
            with suppress(TimeoutError, *TRANSIENT):
                async with asyncio.timeout(self.settings.work.grace_seconds):
                    await Evacuation(self.record, self.store, self.roster, self.transfer).save()
        with suppress(*TRANSIENT):
            await wait_out(self._release, seconds_max=_LEAVE_SECONDS_MAX)

    async def _release(self) -> None:
        roles = await self.roles.resign()
        async with self.store.read() as view:
            last = await NODES.get(view, self.node_id) or self.record  # its heartbeat says until when it was there
        await self.roster.put(msgspec.structs.replace(self.record, gone=True, beat=last.beat, wall=last.wall))
        async with self.store.begin() as tx:
            left = Left(node=self.node_id, profile=self.record.profile, roles=roles)
            # It begins anew when it returns.
            await BREAKERS.delete(tx, [f"{NODE}:{self.node_id}", *link_subjects(self.node_id)])
            await tx.append([self.envelopes.make(left, source="node")])


async def open_node_store(stack: AsyncExitStack, settings: Settings, clock: Clock) -> Store:
    """The store of a node; a coordinator locks it first, and frees the roles of processes that are gone."""
    leads = settings.node.profile in COORDINATES
    if leads:
        stack.enter_context(only_coordinator(settings.store, settings.node.id))
    store = await stack.enter_async_context(open_store(settings.store, clock))
    if leads and settings.wire.serve:
        await require_own_place(store, settings.store)
    if leads:
        await release_node_roles(store)
    return store


async def release_node_roles(store: Store) -> None:
    """Free the roles of all nodes, not of programs: the only coordinator calls this, so their processes have ended."""

    async def release() -> None:
        async with store.begin() as tx:
            holders = {row.holder for row in await tx.roles() if not row.role.startswith(ROLE_PREFIX)}
            for holder in filter(None, holders):
                await tx.release_roles(holder)

    await wait_out(release)


async def _wait_for_jobs(store: Store, serves: bool, seconds: float) -> None:
    """Return when anything was committed here; a node that *serves* others looks for work of its own less often."""
    await store.wait(None, seconds)
    if serves:
        await asyncio.sleep(_SERVING_PAUSE_SECONDS)


async def _open_blobs(store: Store, address: str, node: str) -> Blobs:
    """The folder of *node*, marked when the store first records it.  Raises NodeAway for one that is not its own."""
    async with store.read() as view:
        record, listed = await NODES.get(view, node), await ledger.some_of(view, node)
    # Earlier versions wrote no markers; they recorded no process, and the path as it was set.
    is_known = record is not None and record.pid > 0 and os.path.isabs(record.address)
    blobs = FolderBlobs(address, node)
    await blobs.open(is_new=not is_known, listed=listed)
    return blobs


def _with_machine(record: NodeRecord, settings: Settings, clock: Clock, ids: Ids) -> NodeRecord:
    facts = {"pid": os.getpid(), "machine": node_name(), "cores": len(os.sched_getaffinity(0))}
    boot = {"boot": ids.next(), "joined": clock.now(), "labels": settings.node.labels}
    return msgspec.structs.replace(record, **facts, **boot)


async def _addresses_of(roster: Roster) -> dict[str, str]:
    return {record.id: record.address for record in await roster.all_nodes()}


def _open_endpoints(
    settings: Settings, roster: Roster, store: Store, envelopes: EnvelopeFactory, clock: Clock
) -> Endpoints:
    """The ways to other machines: folders that can be seen from here, and what the settings name."""
    health = LinkBreakers(store, envelopes, clock, settings.links)
    finders = (folder_finder(partial(_addresses_of, roster)),)
    return open_endpoints(settings.links, settings.bandwidth, finders, health)


def _reach_by(roster: Roster) -> Reach:
    open_folder = cache(FolderBlobs)  # one for each: the threads that hang in it are counted there

    async def reach(node: str) -> Blobs:
        addresses = await _addresses_of(roster)
        if node not in addresses:
            raise NodeAway(node)
        return open_folder(addresses[node], node)

    return reach


def _find_by(registry: Registry) -> FindMissing:
    async def find_missing(workload: str) -> str:
        return await to_its_end(None, registry.find_missing, workload)  # importing it may take seconds

    return find_missing


def _fetch_by(transfer: Transfer, node: str) -> FetchInputs:
    async def fetch(blobs: Sequence[str], checkpoint: Checkpoint | None, on_progress: OnProgress) -> None:
        await transfer.fetch(blobs, on_progress)
        if checkpoint is not None:
            with suppress(TransferError):  # lost with its node: the job starts over
                await transfer.copy(checkpoint.blob, node, on_progress, source=checkpoint.node)

    return fetch
