"""Node: one process's share of the cluster, built in one function that is the architecture, read top to bottom."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, fields
from random import Random
from typing import Any

import msgspec

from ringrift.blobs.open import open_blobs
from ringrift.blobs.ports import Blobs
from ringrift.bus.recording import open_recorder
from ringrift.bus.router import Router
from ringrift.bus.scribe import Scribe
from ringrift.cluster.activity import Activity
from ringrift.cluster.leadership import Roles
from ringrift.cluster.roster import NodeRecord, Roster
from ringrift.daemons import COORDINATES, DAEMONS, ROLES
from ringrift.events.node import Joined, Left
from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import NodeAway, TransferError
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import BusSettings, Policy, Replicas, Settings, StoreSettings
from ringrift.kernel.watch import Watch
from ringrift.pipeline.carry import Porter
from ringrift.store.open import only_coordinator, open_store
from ringrift.store.ports import Store
from ringrift.supervision import plugin
from ringrift.supervision.lookout import STALL_SECONDS_MAX, Pace
from ringrift.supervision.spec import Daemon
from ringrift.supervision.supervisor import Supervisor
from ringrift.sync import ledger
from ringrift.sync.transfer import Reach, Transfer
from ringrift.work.crew import Crew
from ringrift.work.desk import StoreDesk
from ringrift.work.exclusive import PREFIX
from ringrift.work.launch.ports import Launch
from ringrift.work.launch.process import ProcessLaunch
from ringrift.work.limits import KINDS
from ringrift.work.runner import Checkpoint, Moved, Runner, Stage, Wait


@dataclass(frozen=True, slots=True)
class Node:
    """Parts are built once, in :meth:`open`, and handed to daemons by the names of these fields."""

    node_id: str
    settings: Settings
    policy: Policy
    replicas: Replicas
    store_settings: StoreSettings
    bus_settings: BusSettings
    clock: Clock
    rng: Random
    ids: Ids
    scribe: Scribe
    store: Store
    blobs: Blobs
    router: Router
    desk: StoreDesk
    roster: Roster
    roles: Roles
    record: NodeRecord
    activity: Activity
    runner: Runner
    supervisor: Supervisor
    readers: dict[str, Any]
    lease_watch: Watch
    pause_watch: Watch
    letter_watch: Watch
    reader_watch: Watch

    @classmethod
    @asynccontextmanager
    async def open(
        cls, settings: Settings, clock: Clock, rng: Random, *,
        store: Store | None = None, blobs: Blobs | None = None, reach: Reach | None = None,
        launch: Launch | None = None, extra: tuple[Daemon, ...] = (), begin: Collection[str] | None = None,
        leads: bool = True,
    ) -> AsyncIterator["Node"]:  # fmt: skip
        """A running node.  Give *store* when several nodes share one; *blobs*, *reach* and *launch* replace engines.

        With *begin* only those daemons start and the others rest; one that does not lead takes no role.
        """
        me, work = settings.node, settings.work
        async with AsyncExitStack() as stack:
            if store is None:
                if me.profile in COORDINATES:
                    stack.enter_context(only_coordinator(settings.store, me.id))
                store = await stack.enter_async_context(open_store(settings.store, clock))
                if me.profile in COORDINATES:
                    await free_roles(store)
            blobs = blobs or open_blobs(settings.blobs.folder)
            ids = Ids(clock, rng)
            opened = open_recorder(settings.trace, me.id, clock, ids, store)
            scribe = Scribe(me.id, clock, ids, await stack.enter_async_context(opened))
            router = Router(store, clock, scribe, settings.bus)
            stack.push_async_callback(router.close)
            desk = StoreDesk(store, clock, ids, scribe, me.id, lease_seconds=work.lease_seconds, retry=work.retry)
            roster = Roster(store, clock, settings.cluster.beat_seconds)
            leads = leads and me.profile in COORDINATES
            roles = Roles(me.id, store, clock, ROLES if leads else (), settings.cluster.role_seconds, scribe=scribe)
            record = NodeRecord(
                id=me.id, profile=me.profile, address=settings.blobs.folder, beat=0, ephemeral=me.ephemeral
            )
            transfer = Transfer(me.id, store, blobs, reach or _reach_by(roster))
            porter = Porter(record, transfer, roster, settings.replicas, settings.work)
            crew = Crew(launch or ProcessLaunch(settings.blobs.folder, work.executables), work)
            runner = Runner(
                me.id, desk, crew, clock, work, KINDS[me.profile], stage=_stage_by(transfer, me.id), move=porter.move,
                conclude=porter.conclude, wait=_wait_by(store), tell=router.tell,
            )  # fmt: skip
            activity = Activity(me.id)
            activity.listen(router)
            simulated = not isinstance(clock, SystemClock)  # then there are no threads, and no foreign code
            supervisor = Supervisor(
                me.id, router, clock, holds=roles.holds, check=roles.check, want=roles.want if leads else None, rng=rng,
                pace=Pace(stall_seconds_max=None if simulated else STALL_SECONDS_MAX),
            )  # fmt: skip
            node = cls(
                node_id=me.id, settings=settings, policy=settings.policy, replicas=settings.replicas,
                store_settings=settings.store, bus_settings=settings.bus, clock=clock, rng=rng, ids=ids, scribe=scribe,
                store=store, blobs=blobs, router=router, desk=desk, roster=roster, roles=roles, record=record,
                activity=activity, runner=runner, supervisor=supervisor, readers=supervisor.readers,
                lease_watch=Watch(), pause_watch=Watch(), letter_watch=Watch(), reader_watch=Watch(),
            )  # fmt: skip
            await node._recover()
            stack.push_async_callback(node._leave)
            ours, parts = DAEMONS + extra, node.parts()
            found = plugin.Plugins() if simulated else plugin.installed(ours, parts, me.profile)
            running = supervisor.run(ours + found.daemons, parts, me.profile, found.broken, begin=begin)
            await stack.enter_async_context(running)
            await router.publish(Joined(node=me.id, profile=me.profile), source="node")
            yield node

    def parts(self) -> dict[str, Any]:
        """What daemons may ask for, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    async def _recover(self) -> None:
        """Start is recovery: whatever an earlier life of this node left behind is put right, however it ended."""
        await self.desk.take_back_own(f"node {self.node_id} started again", started=True)
        here = await self.blobs.names()
        async with self.store.begin() as tx:
            await ledger.correct(tx, self.node_id, here)
        await self.roles.elect()

    async def _leave(self) -> None:
        """Hand back what others would have to wait for.  A crash instead is as safe, only slower for them."""
        await self.roles.resign()
        await self.roster.say(msgspec.structs.replace(self.record, gone=True))
        async with self.store.begin() as tx:
            await tx.append([self.scribe.wrap(Left(node=self.node_id), source="node")])


async def free_roles(store: Store) -> None:
    """Free the roles of all nodes: whoever held them is a process that is gone, since we are the only coordinator now.

    Those of programs go on: their processes are their own.
    """
    async with store.begin() as tx:
        for holder in {row.holder for row in await tx.roles() if row.holder and not row.role.startswith(PREFIX)}:
            await tx.drop(holder)


def _reach_by(roster: Roster) -> Reach:
    async def reach(node: str) -> Blobs:
        known = {record.id: record for record in await roster.everyone()}
        if node not in known:
            raise NodeAway(node)
        return open_blobs(known[node].address)

    return reach


def _stage_by(transfer: Transfer, here: str) -> Stage:
    async def stage(blobs: Sequence[str], left: Checkpoint | None, moved: Moved) -> None:
        await transfer.fetch(blobs, moved)
        if left is not None:
            try:
                await transfer.copy(left.blob, here, moved, source=left.node)
            except TransferError:
                return  # gone with its node: the job starts over

    return stage


def _wait_by(store: Store) -> Wait:
    async def wait(seconds: float) -> None:
        await store.wait(None, seconds)

    return wait
