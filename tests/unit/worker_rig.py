"""A coordinator and workers in one process: real gate, verbs, spool and runner over a wire that a test can cut."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from random import Random

from ringrift.cluster.keys import WORKER, StoredKey, store_keys
from ringrift.events import catalog
from ringrift.events.base import Event
from ringrift.events.pipeline import Opened
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import NodeAway
from ringrift.kernel.settings import Settings
from ringrift.node import Node
from ringrift.sim.blobs import MemoryBlobs
from ringrift.sim.launch import SimLaunch, WorkerBehaviour
from ringrift.store.ports import Store
from ringrift.wire.keys import SigningKey
from ringrift.wire.ports import Reply, Request, Service
from ringrift.worker import Worker

ADDRESS, VARIANT = "http://127.0.0.1:8770", "square8_2p"
COMMON = {"work.lease_seconds": 3.0, "work.rescue_seconds": 0.1, "work.grace_seconds": 0.3, "work.workload": "fake"}
COMMON |= {"cluster.beat_seconds": 0.1, "cluster.elect_seconds": 0.2, "cluster.role_seconds": 2.0}
OWN = {"node.profile": "coordinator", "wire.serve": True, "replicas.copies_min": 1, "policy.play_jobs_open": 2}
OWN |= {"policy.games_per_batch": 4, "policy.games_per_export": 16}
OWN |= {"policy.gate.blocks_min": 2, "policy.gate.blocks_max": 4}


class DirectWire:
    """Hands requests to the service of an address; a test cuts it, or has it lose replies."""

    def __init__(self) -> None:
        self.services: dict[str, Service] = {}
        self.is_cut = False
        self.loses: set[str] = set()  # verbs of which every second reply gets lost
        self.loses_all: set[str] = set()  # verbs of which every reply gets lost
        self.lost_replies: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.bodies: dict[str, list[bytes]] = {}
        self.refused = 0  # requests that the cut wire did not carry

    async def request(self, address: str, request: Request, seconds_max: float) -> Reply:
        """Have it answered, unless the wire is cut."""
        if self.is_cut or address not in self.services:
            self.refused += 1
            raise NodeAway(address)
        self.calls[request.verb] += 1
        self.bodies.setdefault(request.verb, []).append(request.body)
        reply = await self.services[address].answer(request)
        is_lost = request.verb in self.loses and self.calls[request.verb] % 2
        if self.is_cut or is_lost or request.verb in self.loses_all:
            self.lost_replies[request.verb] += 1
            raise NodeAway(address)
        return reply

    async def subscribe(self, address: str, request: Request) -> AsyncIterator[bytes]:
        """The notes, until the wire is cut."""
        if self.is_cut or address not in self.services:
            raise NodeAway(address)
        async for note in self.services[address].notes(request):
            if self.is_cut:
                raise NodeAway(address)
            yield note

    @asynccontextmanager
    async def serve(self, address: str, service: Service) -> AsyncIterator[str]:
        """Answer at *address* while the body runs."""
        self.services[ADDRESS] = service
        try:
            yield ADDRESS
        finally:
            del self.services[ADDRESS]

    def close(self) -> None:
        """Nothing rests."""


@asynccontextmanager
async def coordinator(home: Path, wire: DirectWire, *workers: str, **settings: object) -> AsyncIterator[Node]:
    """A coordinator that serves *wire*, knows the keys of *workers* and has a line."""
    own = Settings.local(home / "c1", node="c1").overlaid({**COMMON, **OWN, **settings})
    async with Node.open(own, SystemClock(), Random(1), wire=wire) as node:
        keys = [StoredKey(node=name, public=key_of(name).public, scopes=WORKER, profile="full") for name in workers]
        async with node.store.begin() as tx:
            await store_keys(tx, keys)
        await node.router.publish(Opened(variant=VARIANT, workload="fake"), id="opened")
        yield node


def key_of(node: str) -> SigningKey:
    """The key of *node* in these tests."""
    return SigningKey.make(node, Random(node))


def worker_settings(home: Path, name: str, **settings: object) -> Settings:
    """The settings of the worker *name*."""
    return Settings.local(home / name, node=name).overlaid({**COMMON, "node.coordinators": (ADDRESS,), **settings})


def worker(
    home: Path,
    wire: DirectWire,
    name: str = "w1",
    *,
    blobs: MemoryBlobs | None = None,
    seconds: float = 0.1,
    **settings: object,
) -> AbstractAsyncContextManager[Worker]:
    """A worker whose jobs take up to *seconds*."""
    blobs = blobs or MemoryBlobs(name)
    launch = SimLaunch(blobs, Random(name), WorkerBehaviour(seconds_max=seconds))
    own = worker_settings(home, name, **settings)
    return Worker.open(own, SystemClock(), Random(name), wire=wire, blobs=blobs, launch=launch, key=key_of(name))


async def log(store: Store, *kinds: type[Event]) -> list[Event]:
    """The events of these *kinds*, oldest first."""
    async with store.read() as view:
        rows = await view.read(0, 10_000, [kind.name() for kind in kinds])
    events = [catalog.decode(row.name, row.body) for row in rows]
    return [event for event in events if isinstance(event, kinds)]
