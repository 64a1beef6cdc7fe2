"""RemoteWorld: a coordinator with its standby, and workers without a store, on a network that loses and parts them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

import msgspec

from ringrift.blobs.ports import Blobs
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster.keys import WORKER, StoredKey, scopes_for, store_keys
from ringrift.cluster.standby import HolderWatch, end_alerts, wait_for_lock
from ringrift.events.pipeline import Opened
from ringrift.harness import Member, settings_of
from ringrift.kernel.errors import NodeAway, NotLeader
from ringrift.kernel.ids import Ids
from ringrift.node import Node, release_node_roles
from ringrift.sim.launch import SimLaunch
from ringrift.sim.loop import SimLoop
from ringrift.sim.network import Network
from ringrift.sim.node_store import NodeStore
from ringrift.sim.recorder import RecordingStore, RecordingTx
from ringrift.sim.world import SETTINGS, World
from ringrift.store.ports import Store, Tx
from ringrift.threads import beside
from ringrift.wire.keys import SigningKey
from ringrift.wire.ports import Reply, Request, Wire
from ringrift.work.remote_desk import Claimed, Finish, FinishAnswer, Ingest, IngestAnswer
from ringrift.worker import Worker

COORDINATOR = Member(id="c", profile="coordinator")
PROCESSES = ("c1", "c2")
"""Two processes of the coordinator's machine and home: one leads, the other is its standby."""
WORKERS = (Member(id="w1"), Member(id="w2", profile="selfplay", ephemeral=True), Member(id="w3", profile="selfplay"))
_ISLAND = "w3"
_PORT, _PID = 8770, 10**9  # no process of the machine that simulates has such a number
_BEGIN = ["alert", "beat", "elect", "fill", "pipeline", "redeliver", "rescue", "watch", "wire", "work"]
_SETTINGS = SETTINGS.overlaid(
    {"store.log_events_max": 1000, "store.jobs_max": 400, "policy.play_jobs_open": 4, "work.slots": 1}
)
_SPOOLS = Path("/dev/shm") if Path("/dev/shm").is_dir() else None


class _HeldStore(NodeStore):
    """The store of one process of the coordinator: each of its effects is noted with the number of that process."""

    number = 0

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Tx]:
        async with super().begin() as tx:
            yield tx
            assert isinstance(tx, RecordingTx)
            tx.note("coordinated", "store", self.number)


class _Observer:
    """A wire that writes down what was acknowledged to its host, before the host learns it."""

    def __init__(self, world: "RemoteWorld", host: str, wire: Wire) -> None:
        self._world, self._host, self._wire = world, host, wire
        self.subscribe, self.serve, self.close = wire.subscribe, wire.serve, wire.close

    async def request(self, address: str, request: Request, seconds_max: float) -> Reply:
        reply = await self._wire.request(address, request, seconds_max)
        if not reply.error:
            self._note(request, reply)
        return reply

    def _note(self, request: Request, reply: Reply) -> None:
        world, decode = self._world, msgspec.msgpack.decode
        match request.verb:
            case "claim":
                for lease in decode(reply.body, type=Claimed).leases:
                    world.leased.setdefault((lease.job, lease.fence), set()).add(self._host)
            case "finish":
                answer = decode(reply.body, type=FinishAnswer)
                for job in decode(request.body, type=Finish).jobs:
                    if job.lease.job not in (*answer.lost, *answer.refused):
                        blobs = [output.blob for output in job.result.outputs]
                        world.acknowledge(self._host, (job.lease.job, job.lease.fence), blobs)
            case "ingest":
                refused = decode(reply.body, type=IngestAnswer).refused
                for batch in decode(request.body, type=Ingest).batches:
                    key = f"{batch.epoch}:{batch.number}"
                    if key not in refused:
                        blobs = [output.blob for output in batch.result.outputs]
                        world.acknowledge(self._host, (f"island:{self._host}:{key}", 0), blobs)


class RemoteWorld(World):
    """One simulated cluster over the wire."""

    def __init__(
        self,
        loop: SimLoop,
        seed: int,
        engine: type[RecordingStore] = RecordingStore,
        fleet: tuple[Member, ...] = WORKERS,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(loop, seed, engine, _SETTINGS.overlaid(settings or {}), (COORDINATOR, *fleet))
        self.fleet = fleet
        self.network = Network(Random(self.rng.getrandbits(64)))
        self.keys = {member.id: SigningKey.make(member.id, Random(self.rng.getrandbits(64))) for member in fleet}
        self.starts = dict.fromkeys((*PROCESSES, *self.keys), 0)
        self.kill_hung = self.rng.random() < 0.5
        self.workers: dict[str, Worker] = {}
        self.holder: tuple[str, int] | None = None  #: The process that has the lock of the store, and its number.
        self._terms = 0
        self.freed_at = 0.0  #: When the lock became free.
        self.waiting: set[str] = set()  #: Standbys.
        self.reports: list[str] = []  #: What standbys have told.
        self.late: list[str] = []  #: What standbys have done too late.
        self.acked: list[tuple[str, tuple[str, int], list[str]]] = []  #: By whom, what, and its files.
        self.results = Counter[str]()
        self.leased: dict[tuple[str, int], set[str]] = {}  #: To whom each lease was given.
        self.folder = Path(mkdtemp(prefix="ringrift-sim-", dir=_SPOOLS))

    def acknowledge(self, host: str, result: tuple[str, int], blobs: list[str]) -> None:
        self.acked.append((host, result, blobs))
        self.results[host] += 1

    async def boot(self) -> None:
        await self.boot_coordinator()
        for name in self.keys:
            self.start(name)
        await self.until(lambda: len(self.workers) == len(self.fleet), 30.0, "starting every worker")

    async def boot_coordinator(self) -> None:
        """Start the coordinator's machine: its store, and both processes."""
        await self.open_store()
        assert self.store is not None
        async with self.store.begin() as tx:
            rows = [(self.keys[member.id], member.profile) for member in self.fleet]
            keys = [
                StoredKey(node=key.node, public=key.public, scopes=scopes_for(WORKER, profile), profile=profile)
                for key, profile in rows
            ]
            await store_keys(tx, keys)
        for name in PROCESSES:
            self.start(name)
        await self.until(lambda: self.holder is not None and self.holder[0] in self.nodes, 30.0, "taking the lead")

    async def _run_node(self, name: str, start: int) -> None:
        rngs = [Random(self.rng.getrandbits(64)) for _ in range(3)]
        if name in PROCESSES:
            await self._run_coordinator(name, rngs)
        else:
            await self._run_worker(name, rngs)
        self.log(f"{name} has stopped")

    async def _run_worker(self, name: str, rngs: list[Random]) -> None:
        member = next(member for member in self.fleet if member.id == name)
        own = settings_of(self._settings, member)
        addresses = [f"http://{process}:{_PORT}" for process in PROCESSES]
        folder = str(self.folder / name)
        settings = own.overlaid(
            {"node.coordinators": addresses, "node.island": name == _ISLAND, "blobs.folder": folder}
        )
        launch = self.launches[name] = SimLaunch(self.blobs[name], rngs[0], self.behaviour)
        wire, clock = _Observer(self, name, self.network.wire(name)), self.loop.clock(name)
        opened = Worker.open(
            settings, clock, rngs[1], wire=wire, blobs=self.blobs[name], launch=launch, key=self.keys[name]
        )
        async with opened as worker:
            self.workers[name] = worker
            self.log(f"{name} is ready")
            await self.stopping[name].wait()
        self.workers.pop(name, None)

    async def _run_coordinator(self, name: str, rngs: list[Random]) -> None:
        assert self.store is not None
        wire = {"serve": True, "bind": name, "port": _PORT}
        settings = settings_of(self._settings, COORDINATOR).overlaid({"wire": wire})
        clock, id = self.loop.clock("c"), COORDINATOR.id
        envelopes = EnvelopeFactory(id, clock, Ids(clock, rngs[0]))
        store = self.stores[name] = _HeldStore(self.store, rngs[1], lambda: self.pause(name, locks=True))
        ways: Any = {"report": partial(self._report, name), "find": lambda: self.holder, "kill": self._kill_holder}
        parts = (settings.store, settings.cluster)
        watch = HolderWatch(self.store, parts, clock, envelopes, kill_hung=self.kill_hung, **ways)
        async with AsyncExitStack() as stack:
            async with beside(watch.run()), beside(wait_for_lock(lambda: self._take(name, store, stack))) as taking:
                self.waiting.add(name)
                stopping = asyncio.get_running_loop().create_task(self.stopping[name].wait())
                await asyncio.wait((taking, stopping), return_when=asyncio.FIRST_COMPLETED)
                self.waiting.discard(name)
            if self.stopping[name].is_set():
                return
            taking.result()
            self.log(f"{name} leads")
            await end_alerts(store, watch.killed, envelopes)
            await release_node_roles(store)
            launch = self.launches[name] = SimLaunch(self.blobs[id], rngs[0], self.behaviour)
            engines: Any = {"store": store, "blobs": self.blobs[id], "reach": self._reach, "launch": launch}
            engines["wire"] = self.network.wire(name)
            async with Node.open(settings, clock, rngs[2], begin=_BEGIN, **engines) as node:
                await node.router.publish(Opened(variant="hex8_2p", workload="fake"), id="opened-hex8")
                self.nodes[name] = node
                self.log(f"{name} is ready")
                await self.stopping[name].wait()
            self.nodes.pop(name, None)

    def _report(self, name: str, text: str) -> None:
        self.reports.append(text)
        self.log(f"{name}: {text}")

    async def _take(self, name: str, store: _HeldStore, stack: AsyncExitStack) -> Store:
        """Take the lock of the store, as the kernel gives it.  Raises NotLeader."""
        if self.holder is not None:
            raise NotLeader("coordinator", self.holder[0])
        self._terms += 1
        store.number = self._terms
        holder = self.holder = (name, _PID + store.number)
        if (seconds := self.loop.time() - self.freed_at) > 3.0 and self.freed_at:
            self.late.append(f"{name} took over {seconds:.1f} s after the end of the coordinator before it")
        stack.callback(self._free, holder)
        return store

    def _free(self, holder: tuple[str, int] | None) -> None:
        if holder is not None and self.holder == holder:
            self.holder, self.freed_at = None, self.loop.time() if self.waiting else 0.0

    def _kill_holder(self, pid: int) -> None:
        if self.holder is not None and self.holder[1] == pid:
            name = self.holder[0]
            self.kill(name)
            self.loop.call_later(1.0, self._start_again, name)

    def _start_again(self, name: str) -> None:
        if not self.is_running(name):
            self.start(name)

    def is_running(self, name: str) -> bool:
        return name in self.nodes or name in self.workers or name in self.waiting

    def is_whole(self) -> bool:
        """Whether a coordinator serves, its standby waits and every worker runs."""
        is_led = self.holder is not None and self.holder[0] in self.nodes and len(self.waiting) == 1
        return is_led and len(self.workers) == len(self.fleet)

    async def cut_power(self) -> None:
        """The coordinator's machine loses its power, and starts again; the workers' machines run on."""
        self.log("power cut of the coordinator's machine")
        for name in PROCESSES:
            self.kill(name)
        self.cut_store()
        await asyncio.sleep(self.rng.uniform(0.1, 2.0))
        await self.boot_coordinator()

    async def stop(self, name: str) -> float:
        """Stop a process in good order and wait for its end."""
        self.log(f"{name} is asked to stop (SIGTERM)")
        start = self.loop.time()
        self.stopping[name].set()
        await self.until(lambda: not self.is_running(name), 30.0, f"stopping {name}")
        return self.loop.time() - start

    async def _reach(self, node: str) -> Blobs:
        await asyncio.sleep(0.001)
        if node != COORDINATOR.id:
            raise NodeAway(node)  # the files of a worker cannot be reached
        return self.blobs[node]

    def kill(self, name: str, *, wipe: bool = False) -> None:
        super().kill(name, wipe=wipe)
        self.network.end_process(name)
        self.workers.pop(name, None)
        self.waiting.discard(name)
        if self.holder is not None and self.holder[0] == name:
            self._free(self.holder)
        if wipe:
            for path in (self.folder / name).rglob("*"):
                with suppress(OSError):
                    path.unlink()
