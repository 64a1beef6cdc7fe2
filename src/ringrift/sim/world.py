"""World: a cluster in virtual time on a lossy disk, with hands to kill, pause, cut and heal it."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any

import apsw

from ringrift.blobs.ports import Blobs
from ringrift.events.data import Lost
from ringrift.events.pipeline import Opened
from ringrift.harness import Member, settings_of
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.errors import NodeAway, RingriftError
from ringrift.kernel.settings import (
    BlobSettings,
    BusSettings,
    ClusterSettings,
    Gate,
    Policy,
    Replicas,
    Settings,
    StoreSettings,
    SweepSettings,
    WorkSettings,
)  # fmt: skip
from ringrift.node import Node
from ringrift.sim.blobs import MemoryBlobs
from ringrift.sim.disk import Disk
from ringrift.sim.launch import SimLaunch, Temper
from ringrift.sim.loop import SimLoop
from ringrift.sim.probe import HANDLER, Ledger
from ringrift.sim.recording import RecordingStore
from ringrift.store.open import open_store

STORE = "store"
MEMBERS = (
    Member(id="n1", profile="full"),
    Member(id="n2", profile="full"),
    Member(id="n3", profile="selfplay", ephemeral=True),
)
SETTINGS = Settings(
    store=StoreSettings(path="sim.db", log_events_max=150),
    blobs=BlobSettings(folder="/blobs"),
    bus=BusSettings(
        batch=32, poll_seconds=1.0, redeliver_seconds=0.8,
        redelivery=Backoff(first_seconds=1.0, seconds_max=4.0, tries=3),
    ),
    cluster=ClusterSettings(beat_seconds=1.0, elect_seconds=1.0, role_seconds=3.0),
    work=WorkSettings(
        slots=2, lease_seconds=3.0, rescue_seconds=0.8, gauge_seconds=2.0, grace_seconds=2.0, deadline_seconds=30.0,
        retry=Backoff(first_seconds=0.5, seconds_max=4.0, tries=6),
    ),
    policy=Policy(
        variants=("hex8_2p",), games_per_batch=10, games_per_export=40, window_batches_max=12, play_jobs_open=2,
        blocks_per_job=16, match_jobs_open=2, gate=Gate(blocks_min=8, blocks_max=48),
    ),
    replicas=Replicas(copies_min=2, every_seconds=2.0),
    sweep=SweepSettings(every_seconds=5.0),
)  # fmt: skip


async def _inline(call: Callable[..., Any], *args: Any) -> Any:
    """COMMIT takes a moment of virtual time, in which the power may go."""
    await asyncio.sleep(0.002)
    return call(*args)


class World:
    """One simulated cluster."""

    def __init__(self, loop: SimLoop, seed: int, engine: type[RecordingStore] = RecordingStore) -> None:
        self.loop, self.engine = loop, engine
        self.rng = Random(seed)
        self.disk = Disk(f"sim-{seed}-{id(self)}", Random(self.rng.getrandbits(64)))
        self.temper = Temper(
            seconds_max=self.rng.choice((1.0, 2.0, 3.0)), crash=self.rng.choice((0.0, 0.05)),
            hang=self.rng.choice((0.0, 0.03)),
        )  # fmt: skip
        self.blobs = {member.id: MemoryBlobs(member.id) for member in MEMBERS}
        self.probes = Ledger()
        self.probes.log = self.say
        self.store: RecordingStore | None = None
        self.nodes: dict[str, Node] = {}
        self.lives = dict.fromkeys((member.id for member in MEMBERS), 0)
        self.stopping: dict[str, asyncio.Event] = {}
        self.story: list[str] = []
        self._mains: list[asyncio.Task[None]] = []

    def say(self, text: str) -> None:
        """Write a line of the story."""
        self.story.append(f"{self.loop.time():8.3f}  {text}")

    async def boot(self) -> None:
        """Power on: the store, then every node."""
        self._spawn(STORE, self._serve_store())
        await self.until(lambda: self.store is not None, 10.0, "opening the store")
        for member in MEMBERS:
            self.start(member.id)
        await self.until(lambda: len(self.nodes) == len(MEMBERS), 30.0, "starting every node")

    async def _serve_store(self) -> None:
        opened = open_store(
            SETTINGS.store, self.loop.clock(STORE), engine=self.engine, offload=_inline, vfs=self.disk.name
        )
        async with opened as store:
            assert isinstance(store, RecordingStore)
            self.store = store
            await asyncio.get_running_loop().create_future()

    def start(self, name: str) -> None:
        """Start a node that is not running; another life of the same host."""
        assert name not in self.nodes
        self.lives[name] += 1
        self.stopping[name] = asyncio.Event()
        self._spawn(name, self._live(name, self.lives[name]))

    def _spawn(self, host: str, main: Coroutine[Any, Any, None]) -> None:
        # A loop refers to its tasks only weakly: one that waits for nothing but itself would be collected.
        self._mains.append(self.loop.spawn(host, main))

    async def _live(self, name: str, life: int) -> None:
        member = next(member for member in MEMBERS if member.id == name)
        launch = SimLaunch(self.blobs[name], Random(self.rng.getrandbits(64)), self.temper)
        opened = Node.open(
            settings_of(SETTINGS, member), self.loop.clock(name), Random(self.rng.getrandbits(64)), store=self.store,
            blobs=self.blobs[name], reach=self._reach_from(name), launch=launch, extra=(self.probes.reader(),),
        )  # fmt: skip
        async with opened as node:
            self.nodes[name] = node
            self.say(f"{name} is ready")
            await node.router.publish(Opened(variant="hex8_2p", workload="fake"), id="opened-hex8")
            if name == MEMBERS[0].id:
                node.router.handle(Lost, self.probes.handle, name=HANDLER, from_start=True)
            probing = asyncio.get_running_loop().create_task(self.probes.publish_forever(name, node.router, life))
            await self.stopping[name].wait()
            probing.cancel()
            await asyncio.wait((probing,))
        self.nodes.pop(name, None)
        self.say(f"{name} has stopped")

    def _reach_from(self, here: str) -> Callable[[str], Awaitable[Blobs]]:
        async def reach(node: str) -> Blobs:
            await asyncio.sleep(0.001)
            if node not in self.nodes:
                raise NodeAway(node)
            return self.blobs[node]

        return reach

    # -- hands ---------------------------------------------------------------------------------------------------------

    def kill(self, name: str, *, wipe: bool = False) -> None:
        """SIGKILL a node; with *wipe* its blob folder goes too."""
        self.say(f"kill {name}" + (" and wipe its blobs" if wipe else ""))
        self.loop.kill(name)
        self.nodes.pop(name, None)
        if wipe:
            self.blobs[name].files.clear()

    async def cut(self) -> None:
        """The power goes: every process, and whatever was not synced.  Then it comes back."""
        self.say("power cut")
        for name in list(self.lives):
            self.loop.kill(name)
        self.loop.kill(STORE)
        self.nodes.clear()
        old, self.store = self.store, None
        self.disk.cut()
        if old is not None:
            with suppress(apsw.Error):
                old._db.close(True)
        await asyncio.sleep(self.rng.uniform(0.1, 2.0))
        await self.boot()

    async def stop(self, name: str) -> float:
        """SIGTERM a node and wait for its end; how long that took."""
        self.say(f"stop {name}")
        start = self.loop.time()
        self.stopping[name].set()
        await self.until(lambda: name not in self.nodes, 20.0, f"stopping {name}")
        return self.loop.time() - start

    async def until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait in virtual time until *condition* holds.  Raises AssertionError after *seconds*."""
        end = self.loop.time() + seconds
        while not condition():
            assert self.loop.time() < end, f"{what} did not happen within {seconds:g} s"
            await asyncio.sleep(0.02)

    async def ask(self, question: Callable[[Any], Awaitable[Any]]) -> Any:
        """What the store answers; None while it is down."""
        try:
            if self.store is None:
                return None
            async with self.store.begin() as tx:
                return await question(tx)
        except RingriftError:
            return None
