"""A coordinator on a real store and a real folder of files, and nodes that talk to it through its gate."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

from contract.engines import EVERY_STATE, run
from ringrift.blobs.folder import FolderBlobs
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.bus.router import Router
from ringrift.cluster.facts import NodeFacts
from ringrift.cluster.keys import StoredKey, store_keys
from ringrift.cluster.remote_roster import Beat, BeatAnswer
from ringrift.cluster.roster import NodeRecord, Roster
from ringrift.coordinator.gate import Gate
from ringrift.coordinator.serve import STREAMS, VERBS, make_parts
from ringrift.coordinator.verbs import Parts
from ringrift.jobs import Job
from ringrift.kernel.clock import Clock, SystemClock
from ringrift.kernel.errors import NodeAway
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import Settings
from ringrift.kernel.value import Value
from ringrift.pipeline.line import LINES, Line
from ringrift.store.open import open_store
from ringrift.store.ports import JobRow, Lease, Renewal
from ringrift.sync.blob_messages import BlobReceipt, WriteBlob
from ringrift.sync.transfer import Transfer
from ringrift.wire.connection import Connection
from ringrift.wire.keys import SigningKey
from ringrift.wire.ports import Reply, Request
from ringrift.work import desk
from ringrift.work.remote_desk import Claim, Claimed, Finish, FinishAnswer, FinishedJob
from ringrift.workload.api import Artifact, JobResult

ADDRESS = "http://coordinator:8770"
FACTS = NodeFacts(python="3", cores=2, memory_bytes=1 << 30, disk_free_bytes=1 << 30)
KINDS = ("play", "train", "export", "verify", "evaluate")
WORKER = ("play", "train", "evaluate", "publish")


class DirectWire:
    """A wire without a network: what is asked reaches the gate at once."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def request(self, address: str, request: Request, seconds_max: float) -> Reply:
        """Carry *request* to the gate."""
        return await self._gate.answer(request)

    def subscribe(self, address: str, request: Request) -> AsyncIterator[bytes]:
        """The notes of the gate."""
        return self._gate.notes(request)

    def serve(self, address: str, service: Any) -> Any:
        """Not needed: it stands before its gate."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing rests."""


class Coordinator:
    """The coordinator *c*, whose parts a test may use directly, and its nodes."""

    def __init__(self, parts: Parts) -> None:
        self.parts, self.store, self.blobs = parts, parts.store, parts.blobs
        self.gate = Gate(parts, VERBS, STREAMS)

    async def node(self, id: str = "w1", scopes: tuple[str, ...] = WORKER, *, beats: bool = True) -> "RemoteNode":
        """A node that has joined with these *scopes* and, unless told otherwise, sent a heartbeat."""
        key = SigningKey.make(id, Random(id))
        async with self.store.begin() as tx:
            await store_keys(tx, [StoredKey(node=id, public=key.public, scopes=scopes, profile="full")])
        self.parts.keys.forget()
        node = RemoteNode(id, Connection(DirectWire(self.gate), [ADDRESS], key, Random(id), boot=f"boot of {id}"))
        if beats:
            await node.beat()
        return node

    async def program(self, home: Path, scopes: tuple[str, ...] = ("publish", "read", "administer")) -> None:
        """Put the key of a program with these *scopes* into *home*."""
        key = SigningKey.make("lab", Random("lab"))
        key.save(home / "keys" / "node.json")
        async with self.store.begin() as tx:
            await store_keys(tx, [StoredKey(node="lab", public=key.public, scopes=scopes)])
        self.parts.keys.forget()

    async def enqueue(self, *jobs: Job) -> list[str]:
        """Enqueue *jobs*; their ids."""
        async with self.store.begin() as tx:
            return list(await desk.enqueue(tx, jobs, self.parts.envelopes, self.parts.clock.now()))

    async def open_line(self, variant: str, champion: str | None = None) -> None:
        """Open the line of *variant*."""
        async with self.store.begin() as tx:
            await LINES.put(tx, [Line(variant=variant, workload="fake", players=2, champion=champion)])

    async def job(self, id: str) -> JobRow:
        """The job as it is stored."""
        async with self.store.read() as view:
            [row] = [row for row in await view.jobs(EVERY_STATE, 100) if row.id == id]
        return row

    async def log(self, *names: str) -> list[Any]:
        """The envelopes of the log, with *names* only those."""
        async with self.store.read() as view:
            return list(await view.read(0, 1000, names))


class RemoteNode:
    """A node or program that has a key."""

    def __init__(self, id: str, connection: Connection) -> None:
        self.id, self.connection = id, connection

    async def call(self, verb: str, body: Value, answer: type[Any] = Value) -> Any:
        """Ask for *verb*."""
        return await self.connection.call(verb, body, answer)

    async def beat(self, beat: int = 1, **changes: Any) -> BeatAnswer:
        """Send a heartbeat."""
        facts = {"id": self.id, "profile": "full", "address": "", "beat": beat, "facts": FACTS, "boot": "b"}
        answer: BeatAnswer = await self.call("beat", Beat(record=NodeRecord(**facts | changes)), BeatAnswer)
        return answer

    async def claim(self, *kinds: str, limit: int = 8) -> list[Lease]:
        """The leases that it gets."""
        return list((await self.call("claim", Claim(kinds=kinds or KINDS, limit=limit), Claimed)).leases)

    async def upload(self, blob: str, data: bytes) -> BlobReceipt:
        """Bring *data* in one piece."""
        body = WriteBlob(blob=blob, total=len(data), offset=0, data=data)
        receipt: BlobReceipt = await self.call("blob.write", body, BlobReceipt)
        return receipt

    async def finish(self, *done: tuple[Lease, JobResult]) -> FinishAnswer:
        """Deliver results."""
        pairs = [(Renewal(job=lease.job, fence=lease.fence), result) for lease, result in done]
        jobs = tuple(FinishedJob(lease=lease, result=result) for lease, result in pairs)
        answer: FinishAnswer = await self.call("finish", Finish(jobs=jobs), FinishAnswer)
        return answer


def batch(blob: str, games: int = 2) -> JobResult:
    """The result of a batch of games."""
    return JobResult(outputs=(Artifact(blob=blob, kind="games", size=9, meta={"games": games}),))


async def reach(node: str) -> FolderBlobs:
    """No other node can be reached."""
    raise NodeAway(node)


@asynccontextmanager
async def opened(home: Path, clock: Clock | None = None) -> AsyncIterator[Coordinator]:
    """The coordinator with its store and files in *home*."""
    clock, settings = clock or SystemClock(), Settings.local(home, node="c")
    rng = Random(7)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(settings.store, clock))
        ids = Ids(clock, rng)
        envelopes = EnvelopeFactory("c", clock, ids)
        router = Router(store, clock, envelopes, settings.bus)
        stack.push_async_callback(router.close)
        blobs = FolderBlobs(settings.blobs.address(), "c")
        await blobs.open(is_new=True)
        parts = {"node_id": "c", "settings": settings, "clock": clock, "rng": rng, "ids": ids, "envelopes": envelopes}
        parts |= {"store": store, "blobs": blobs, "router": router, "roster": Roster(store, clock, 10.0)}
        parts["transfer"] = Transfer("c", store, blobs, reach, envelopes, clock=clock)
        coordinator = Coordinator(make_parts(parts))
        stack.push_async_callback(coordinator.parts.desks.uploads.close)
        yield coordinator


def tell(home: Path, story: Callable[[Coordinator], Awaitable[None]], clock: Clock | None = None) -> None:
    """Tell *story* to its end with a coordinator in *home*."""

    async def go() -> None:
        async with opened(home, clock) as coordinator:
            await story(coordinator)

    run(go())


async def take(notes: AsyncIterator[Any], seconds: float = 5.0) -> Any:
    """The next note, which must come in time."""
    async with asyncio.timeout(seconds):
        return await anext(notes)
