"""World: a cluster in virtual time on a lossy disk, with functions to kill, stop and power-cycle it."""

import asyncio
import tomllib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib.resources import files
from random import Random
from typing import Any

import apsw

from ringrift.blobs.ports import Blobs
from ringrift.events.data import Lost
from ringrift.events.pipeline import Opened
from ringrift.harness import Member, settings_of
from ringrift.kernel.errors import NodeAway, RingriftError
from ringrift.kernel.settings import Settings
from ringrift.node import Node
from ringrift.sim.blobs import MemoryBlobs
from ringrift.sim.disk import Disk
from ringrift.sim.launch import SimLaunch, WorkerBehaviour
from ringrift.sim.loop import SimLoop
from ringrift.sim.node_store import NodeStore
from ringrift.sim.probe import HANDLER, Probes
from ringrift.sim.recorder import RecordingStore
from ringrift.store.open import open_store

_STORE = "store"
MEMBERS = (Member(id="n1"), Member(id="n2"), Member(id="n3", profile="selfplay", ephemeral=True))
SETTINGS = Settings().overlaid(tomllib.loads(files("ringrift.sim").joinpath("settings.toml").read_text("utf-8")))


async def _inline(call: Callable[..., Any], *args: Any) -> Any:
    """COMMIT takes a moment of virtual time, in which the power may be cut."""
    await asyncio.sleep(0.002)
    return call(*args)


class World:
    """One simulated cluster."""

    def __init__(
        self,
        loop: SimLoop,
        seed: int,
        engine: type[RecordingStore] = RecordingStore,
        settings: Settings = SETTINGS,
        members: tuple[Member, ...] = MEMBERS,
    ) -> None:
        self.loop, self.engine, self._settings, self.members = loop, engine, settings, members
        self.rng = Random(seed)
        self.disk = Disk(f"sim-{seed}-{id(self)}", Random(self.rng.getrandbits(64)))
        seconds, crash, hang = (self.rng.choice(values) for values in ((1.0, 2.0, 3.0), (0.0, 0.05), (0.0, 0.03)))
        self.behaviour = WorkerBehaviour(seconds_max=seconds, crash=crash, hang=hang)
        self.blobs = {member.id: MemoryBlobs(member.id, loop.clock(member.id).now) for member in members}
        self.probes = Probes(self.log)
        self.store: RecordingStore | None = None
        self.nodes: dict[str, Node] = {}
        self.stores: dict[str, NodeStore] = {}
        self.launches: dict[str, SimLaunch] = {}
        self.starts = dict.fromkeys((member.id for member in members), 0)
        self.stopping: dict[str, asyncio.Event] = {}
        self.story: list[str] = []

    def log(self, text: str) -> None:
        self.story.append(f"{self.loop.time():8.3f}  {text}")

    async def boot(self) -> None:
        await self.open_store()
        for member in self.members:
            self.start(member.id)
        await self.until(lambda: len(self.nodes) == len(self.members), 30.0, "starting every node")

    async def open_store(self) -> None:
        self.loop.spawn(_STORE, self._serve_store())
        await self.until(lambda: self.store is not None, 10.0, "opening the store")

    async def _serve_store(self) -> None:
        clock, vfs = self.loop.clock(_STORE), self.disk.name
        async with open_store(self._settings.store, clock, engine=self.engine, offload=_inline, vfs=vfs) as store:
            assert isinstance(store, RecordingStore)
            self.store = store
            await asyncio.get_running_loop().create_future()

    def start(self, name: str) -> None:
        """Start a node that is not running, as a new process of the same host."""
        assert name not in self.nodes
        self.starts[name] += 1
        self.stopping[name] = asyncio.Event()
        self.loop.spawn(name, self._keep_node(name, self.starts[name]))

    async def _keep_node(self, name: str, start: int) -> None:
        """Run a node, and start it again while it cannot start, as a service manager does."""
        while not self.stopping[name].is_set():
            try:
                return await self._run_node(name, start)
            except RingriftError as error:
                self.log(f"{name} could not start or stop: {error}")
            await asyncio.sleep(1.0)

    async def _run_node(self, name: str, start: int) -> None:
        member = next(member for member in self.members if member.id == name)
        assert self.store is not None
        rngs = [Random(self.rng.getrandbits(64)) for _ in range(3)]
        launch = self.launches[name] = SimLaunch(self.blobs[name], rngs[0], self.behaviour)
        store = self.stores[name] = NodeStore(self.store, rngs[1], lambda: self.pause(name, locks=True))
        settings, clock = settings_of(self._settings, member), self.loop.clock(name)
        engines: Any = {"store": store, "blobs": self.blobs[name], "reach": self._reach, "launch": launch}
        async with Node.open(settings, clock, rngs[2], extra=(self.probes.reader(),), **engines) as node:
            await node.router.publish(Opened(variant="hex8_2p", workload="fake"), id="opened-hex8")
            self.nodes[name] = node
            self.log(f"{name} is ready")
            if name == MEMBERS[0].id:
                node.router.handle(Lost, self.probes.handle, name=HANDLER, from_start=True)
            probing = asyncio.get_running_loop().create_task(self.probes.publish_forever(name, node.router, start))
            await self.stopping[name].wait()
            probing.cancel()
            await asyncio.wait((probing,))
        self.nodes.pop(name, None)
        self.log(f"{name} has stopped")

    async def _reach(self, node: str) -> Blobs:
        await asyncio.sleep(0.001)
        if node not in self.nodes:
            raise NodeAway(node)
        return self.blobs[node]

    def kill(self, name: str, *, wipe: bool = False) -> None:
        """SIGKILL a node; with *wipe* its blob folder goes too."""
        self.log(f"{name} is killed" + (" and loses its blobs" if wipe else ""))
        self.loop.kill(name)
        self.nodes.pop(name, None)
        if wipe:
            self.blobs[name].files.clear()

    def pause(self, name: str, *, locks: bool = False) -> None:
        """SIGSTOP a node; one that *locks* is in a transaction, so that the others cannot write."""
        self.log(f"{name} is paused" + (" in a transaction" if locks else ""))
        self.loop.pause(name)
        for other, store in self.stores.items():
            store.is_locked = locks and other != name

    def resume(self, name: str) -> None:
        self.log(f"{name} resumes")
        self.loop.resume(name)
        for store in self.stores.values():
            store.is_locked = store.pauses_in_body = False

    async def cut_power(self) -> None:
        """Cut the power: every process ends and unsynced writes are lost.  Then boot again."""
        self.log("power cut")
        for name in self.starts:
            self.loop.kill(name)
        self.nodes.clear()
        self.cut_store()
        await asyncio.sleep(self.rng.uniform(0.1, 2.0))
        await self.boot()

    def cut_store(self) -> None:
        """The store loses what was not synced, and is closed."""
        self.loop.kill(_STORE)
        old, self.store = self.store, None
        self.disk.cut()
        if old is not None:
            with suppress(apsw.Error):
                old._db.close(True)

    async def stop(self, name: str) -> float:
        """Stop a node and wait for its end; returns the seconds that took."""
        self.log(f"{name} is asked to stop (SIGTERM)")
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

    async def query(self, question: Callable[[Any], Awaitable[Any]]) -> Any:
        """The answer of the store to *question*; None while it is down."""
        if self.store is not None:
            with suppress(RingriftError):
                async with self.store.begin() as tx:
                    return await question(tx)
        return None
