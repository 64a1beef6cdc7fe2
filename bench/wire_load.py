"""Many workers in one process, as a coordinator sees them: sockets, keys, heartbeats, streams, jobs and uploads."""

import asyncio
import hashlib
import json
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any

from ringrift.cluster.facts import NodeFacts
from ringrift.cluster.remote_roster import Beat, BeatAnswer
from ringrift.cluster.roster import NodeRecord
from ringrift.jobs import Play
from ringrift.kernel.errors import RingriftError
from ringrift.kernel.settings import WireSettings
from ringrift.kernel.value import Value
from ringrift.store.ports import Lease, Renewal
from ringrift.sync.blob_messages import BlobReceipt, WriteBlob
from ringrift.wire.connection import Connection
from ringrift.wire.keys import SigningKey
from ringrift.wire.open import open_wire
from ringrift.work.remote_desk import (
    Claim,
    Claimed,
    Finish,
    FinishAnswer,
    FinishedJob,
    Renew,
    Renewed,
    WatchWork,
    WorkNote,
)
from ringrift.workload.api import Artifact, JobResult

BEAT_SECONDS, JOB_SECONDS, RENEW_SECONDS, IDLE_SECONDS = 10.0, 30.0, 10.0, 10.0
BATCH_BYTES = 8192  # of a file of games
STARTS_PER_SECOND = 80.0
CALL_SECONDS_MAX = 60.0
PLAY = (Play.kind(),)
FACTS = NodeFacts(cores=8, memory_bytes=32 << 30, workloads=("fake",), python="3.11", versions={"ringrift": "0.1.0"})


def key_of(node: str) -> SigningKey:
    """The key of *node*: the same in every process of a benchmark."""
    return SigningKey(node, hashlib.sha256(node.encode()).digest())


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """p50 and p99 of *seconds*, in ms."""
    cuts = statistics.quantiles([1000 * value for value in seconds], n=100) if len(seconds) > 1 else [0.0] * 99
    return {"p50": cuts[49], "p99": cuts[98]}


def finished(lease: Lease, blob: str) -> FinishedJob:
    """The result of the job of *lease*, whose games are in *blob*."""
    result = JobResult(outputs=(Artifact(kind="games", blob=blob, size=BATCH_BYTES, meta={"games": 10}),))
    return FinishedJob(lease=Renewal(job=lease.job, fence=lease.fence), result=result, context=lease.context)


class Load:
    """The workers, and how long their requests have taken."""

    def __init__(self, address: str, ca: str) -> None:
        self.address, self.ca = address, ca
        self.took: dict[str, list[float]] = {}
        self.errors = 0
        self.ready = 0

    async def call(self, connection: Connection, verb: str, body: Value, answer: type[Any]) -> Any:
        """Call *verb* and record how long it took."""
        begun = time.perf_counter()
        value = await connection.call(verb, body, answer, seconds_max=CALL_SECONDS_MAX)
        self.took.setdefault(verb, []).append(time.perf_counter() - begun)
        return value

    async def work(self, number: int, *, idle: bool) -> None:
        """Be worker *number*, for ever."""
        rng, node = Random(number), f"w{number}"
        await asyncio.sleep(number / STARTS_PER_SECOND)
        wire = open_wire(WireSettings(ca=self.ca))
        connection = Connection(wire, [self.address], key_of(node), rng, boot=f"boot-{number}", machine="bench")
        record = NodeRecord(id=node, profile="selfplay", address="", beat=1, facts=FACTS, boot=f"boot-{number}")
        await self._try(self.call(connection, "beat", Beat(record=record), BeatAnswer))
        self.ready += 1
        async with asyncio.TaskGroup() as group:
            group.create_task(self._beat(connection, record, rng))
            group.create_task(self._listen(connection))
            group.create_task(self._ask(connection, rng) if idle else self._play(connection, rng))

    async def _try(self, call: Any) -> Any:
        try:
            return await call
        except RingriftError as error:
            self.errors += 1
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            return None

    async def _beat(self, connection: Connection, record: NodeRecord, rng: Random) -> None:
        await asyncio.sleep(BEAT_SECONDS * rng.random())
        while True:
            begun = time.monotonic()
            beat = Beat(record=NodeRecord(**{**_fields(record), "beat": int(begun * 1000)}))
            await self._try(self.call(connection, "beat", beat, BeatAnswer))
            await asyncio.sleep(max(0.0, begun + BEAT_SECONDS - time.monotonic()))

    async def _listen(self, connection: Connection) -> None:
        async for _ in connection.notes("work", WatchWork(kinds=PLAY), WorkNote):
            pass

    async def _ask(self, connection: Connection, rng: Random) -> None:
        """There is nothing to do: ask now and then, as a worker does."""
        while True:
            await self._try(self.call(connection, "claim", Claim(kinds=PLAY, limit=1), Claimed))
            await asyncio.sleep(IDLE_SECONDS * (0.9 + rng.random() / 5))

    async def _play(self, connection: Connection, rng: Random) -> None:
        left = JOB_SECONDS * rng.random()  # the first job is shorter: they do not all end together
        while True:
            claimed = await self._try(self.call(connection, "claim", Claim(kinds=PLAY, limit=1), Claimed))
            if claimed is None or not claimed.leases:
                await asyncio.sleep(1.0)
                continue
            lease = claimed.leases[0]
            while left > RENEW_SECONDS:
                await asyncio.sleep(RENEW_SECONDS)
                left -= RENEW_SECONDS
                renewal = Renewal(job=lease.job, fence=lease.fence, progress=0.5)
                await self._try(self.call(connection, "renew", Renew(renewals=(renewal,)), Renewed))
            await asyncio.sleep(left)
            left = JOB_SECONDS
            data = rng.randbytes(BATCH_BYTES)
            blob = hashlib.sha256(data).hexdigest()
            write = WriteBlob(blob=blob, total=len(data), offset=0, data=data)
            await self._try(self.call(connection, "blob.write", write, BlobReceipt))
            finish = Finish(jobs=(finished(lease, blob),))
            answer = await self._try(self.call(connection, "finish", finish, FinishAnswer))
            if answer is not None and (answer.lost or answer.refused):
                self.errors += 1
                print(f"not done: {answer}", file=sys.stderr)


def _fields(record: NodeRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


async def run(address: str, ca: str, count: int, seconds: float, *, idle: bool) -> None:
    """Run *count* workers; say when all have begun, and *seconds* later what they have seen."""
    load = Load(address, ca)
    workers = asyncio.gather(*(load.work(number, idle=idle) for number in range(count)))
    while load.ready < count and not workers.done():
        await asyncio.wait((workers,), timeout=0.1)
    await asyncio.wait((workers,), timeout=3.0)  # what the last ones have begun
    load.took.clear()
    print("ready", flush=True)
    cpu = time.process_time()
    await asyncio.wait((workers,), timeout=seconds)
    if workers.done():
        workers.result()
    results = {verb: percentiles(took) for verb, took in load.took.items()}
    requests = sum(map(len, load.took.values()))
    share = 100 * (time.process_time() - cpu) / seconds
    print(json.dumps({"took": results, "requests": requests, "errors": load.errors, "share": share}), flush=True)
    workers.cancel()
    with suppress(asyncio.CancelledError):
        await workers


async def batches(address: str, blobs: str, seconds: float, size: int) -> None:
    """Claim and finish jobs *size* at a time for *seconds*, or until there are none; print how many."""
    wire = open_wire(WireSettings())
    connection = Connection(wire, [address], key_of("w0"), Random(0), boot="boot", machine="bench")
    record = NodeRecord(id="w0", profile="selfplay", address="", beat=1, facts=FACTS, boot="boot")
    await connection.call("beat", Beat(record=record), BeatAnswer)
    names, done = blobs.split(","), 0
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        leases = (await connection.call("claim", Claim(kinds=PLAY, limit=size), Claimed)).leases
        if not leases:
            break
        jobs = tuple(finished(lease, names[number % len(names)]) for number, lease in enumerate(leases))
        answer = await connection.call("finish", Finish(jobs=jobs), FinishAnswer)
        assert answer == FinishAnswer(), answer
        done += len(leases)
    print(json.dumps({"rate": done / (time.perf_counter() - begun), "done": done}), flush=True)


async def events(address: str, count: int) -> None:
    """Follow the log over the wire until *count* events have come; print when each did."""
    from bench.child import CLOCK
    from ringrift.bus.remote_log import EventsNote, FollowEvents

    connection = Connection(open_wire(WireSettings()), [address], key_of("reader"), Random(0), boot="boot")
    received: list[float] = []
    async for note in connection.notes("events", FollowEvents(position=-1, bodies=True), EventsNote):
        if not note.envelopes and not received:
            print("ready", flush=True)
        received += [CLOCK()] * len(note.envelopes)
        if len(received) >= count:
            break
    print(json.dumps({"received": received}), flush=True)


def main(mode: str, address: str, *words: str) -> None:
    """Run *mode* against *address*."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if mode in ("work", "idle"):
        ca, count, seconds = words
        asyncio.run(run(address, ca, int(count), float(seconds), idle=mode == "idle"))
    elif mode == "batches":
        blobs, seconds, size = words
        asyncio.run(batches(address, blobs, float(seconds), int(size)))
    else:
        asyncio.run(events(address, int(words[0])))


if __name__ == "__main__":
    main(*sys.argv[1:])
