"""World: a real store on a disk, a manual clock, and the parts that tests call directly."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import msgspec

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.bus.router import Router
from ringrift.cluster.leadership import Roles
from ringrift.cluster.roster import NodeRecord, Roster
from ringrift.daemons import ROLES
from ringrift.events import catalog
from ringrift.events.base import Envelope, Event, Unknown
from ringrift.jobs import Job
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import BusSettings, StoreSettings, WorkSettings
from ringrift.kernel.value import changed
from ringrift.pipeline.line import LINES, Line
from ringrift.pipeline.records import save_line
from ringrift.sim.disk import Disk
from ringrift.sim.loop import run as simulate
from ringrift.store.open import open_store
from ringrift.store.ports import TASK_PREFIX, JobRow, Lease, Store, TaskRequest
from ringrift.sync import ledger
from ringrift.work.desk import StoreDesk
from ringrift.work.tasks import Task
from unit.kernel.manual_clock import ManualClock

T = TypeVar("T")
STORY_SECONDS_MAX = 10.0
LEASE_SECONDS = 30.0
RETRY = Backoff(first_seconds=1.0, seconds_max=60.0, tries=3)
STATES = ("ready", "claimed", "done", "dead", "cancelled")


class World:
    """One store and what stands on it."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store, self.clock = store, clock
        self.ids = Ids(clock, Random(7))
        self.envelopes = EnvelopeFactory("here", clock, self.ids)
        self.roster = Roster(store, clock, 5.0)
        self.router = Router(store, clock, self.envelopes, BusSettings(poll_seconds=0.05))

    def desk(self, node: str = "here", retry: Backoff = RETRY) -> StoreDesk:
        """The desk of *node*."""
        envelopes = EnvelopeFactory(node, self.clock, self.ids)
        return StoreDesk(self.store, self.clock, envelopes, WorkSettings(lease_seconds=LEASE_SECONDS, retry=retry))

    async def roles(self, node: str = "here", candidates: Sequence[str] = ROLES) -> Roles:
        """The roles of *node*, after it has taken what was free."""
        roles = Roles(node, self.store, self.clock, candidates, 15.0, envelopes=self.envelopes)
        await roles.elect()
        return roles

    async def claim(self, *jobs: Job, node: str = "here") -> Sequence[Lease]:
        """Leases on *jobs*, freshly enqueued."""
        await self.desk(node).enqueue(jobs)
        return await self.desk(node).claim({job.kind() for job in jobs}, len(jobs))

    async def start_task(self, task: Task) -> Task:
        """Write down that a program has got a place for *task*."""
        facts = {"kind": TASK_PREFIX + task.type, "variant": task.variant, "key": TASK_PREFIX + task.id}
        request = TaskRequest(body=msgspec.json.encode(task), holder=task.node, seconds=300.0, **facts)
        async with self.store.begin() as tx:
            [fence] = await tx.register_tasks([request])
        return changed(task, fence=fence)

    async def jobs(self, *states: str) -> Sequence[JobRow]:
        """Every job in *states*, or every job."""
        async with self.store.read() as view:
            return await view.jobs(states or STATES, 10_000)

    async def events(self, *kinds: type[Event]) -> list[Event | Unknown]:
        """Every event of these *kinds* in the log, or every event."""
        async with self.store.read() as view:
            envelopes = await view.read(0, 10_000, [kind.name() for kind in kinds])
        return [catalog.decode(envelope.name, envelope.body) for envelope in envelopes]

    async def keep(self, line: Line) -> None:
        """Write *line* down."""
        async with self.store.begin() as tx:
            await save_line(tx, line)

    async def line(self, variant: str) -> Line:
        """Return the stored line of *variant*."""
        async with self.store.read() as view:
            line = await LINES.get(view, variant)
        assert line is not None
        return line

    async def beat(self, node: str, *, profile: str = "full", ephemeral: bool = False) -> None:
        """Let *node* send a heartbeat."""
        beat = int(self.clock.tick() * 1000)
        await self.roster.put(NodeRecord(id=node, profile=profile, address=node, beat=beat, ephemeral=ephemeral))

    async def hold(self, blob: str, *nodes: str) -> None:
        """Write down that *nodes* hold *blob*."""
        async with self.store.begin() as tx:
            await tx.put([ledger.holding(blob, node) for node in nodes])

    async def holders(self, blob: str) -> list[str]:
        """Return the nodes that hold *blob* according to the ledger."""
        async with self.store.read() as view:
            return await ledger.holders(view, blob)

    def envelope(self, event: Event) -> Envelope:
        """*event* as the log has it."""
        return self.envelopes.make(event, source="test")


async def inline(call: Callable[..., Any], *args: Any) -> Any:
    """Run a blocking call here and now: the disk in memory never blocks."""
    return call(*args)


def play(
    folder: Path,
    story: Callable[[World], Awaitable[T]],
    *,
    simulated: bool = False,
    seconds_max: float = STORY_SECONDS_MAX,
) -> T:
    """Run *story* in a new world; it must end in time.

    The store is the real one on the simulator's disk, in memory: real files and threads are the contract suite's.
    Simulated, the loop's time jumps from timer to timer: a long wait can be seen without being waited for.
    """
    disk = Disk(f"unit-{folder.name}", Random(7))

    async def main(_: object = None) -> T:
        clock = ManualClock()
        settings = StoreSettings(path="store.db", tx_seconds_max=5.0)
        opened = open_store(settings, clock, offload=inline, vfs=disk.name)
        async with asyncio.timeout(None if simulated else seconds_max), opened as store:
            return await story(World(store, clock))

    try:
        return simulate(1, main) if simulated else asyncio.run(main())
    finally:
        disk.unregister()
