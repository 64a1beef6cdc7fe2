"""Shared parts of benchmarks: our store with bus and desk, a raw connection, initial rows."""

import hashlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import apsw

from ringrift import jobs
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.bus.router import Router
from ringrift.events import catalog
from ringrift.events.selfplay import BatchFinished
from ringrift.jobs import Play
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import BusSettings, StoreSettings, WorkSettings
from ringrift.store.open import open_store
from ringrift.store.ports import Store
from ringrift.store.sqlite.connect import connect
from ringrift.store.sqlite.reads import Offload
from ringrift.work.desk import StoreDesk

VARIANT = "hex8_2p"
NODE = "bench"
LEASE_SECONDS = 30.0
# Real names of blobs, made before any clock runs: all zeros would take other paths than digits and letters in turn.
BLOBS = tuple(hashlib.sha256(str(number).encode()).hexdigest() for number in range(10_000))
INSERT = """INSERT INTO log (id, name, body, version, time, node, source, labels, correlation, cause, trace, depth)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""


@dataclass(frozen=True)
class Ours:
    """The parts of a node, without the daemons."""

    store: Store
    router: Router
    envelopes: EnvelopeFactory
    desk: StoreDesk


@asynccontextmanager
async def ours(
    path: Path, *, settings: BusSettings | None = None, offload: Offload | None = None
) -> AsyncIterator[Ours]:
    """Our store at *path*, opened the way a node opens it; *offload* replaces its threads."""
    clock = SystemClock()
    ids = Ids(clock, Random(7))
    async with open_store(StoreSettings(path=str(path)), clock, offload=offload) as store:
        envelopes = EnvelopeFactory(NODE, clock, ids)
        desk = StoreDesk(store, clock, envelopes, WorkSettings(lease_seconds=LEASE_SECONDS))
        router = Router(store, clock, envelopes, settings or BusSettings())
        try:
            yield Ours(store, router, envelopes, desk)
        finally:
            await router.close()


@contextmanager
def raw(path: Path) -> Iterator[apsw.Connection]:
    """A bare connection with our schema and our PRAGMAs."""
    db = connect(path)
    try:
        yield db
    finally:
        db.close()


def event(number: int) -> BatchFinished:
    """The most frequent event of the loop."""
    return BatchFinished(variant=VARIANT, batch=BLOBS[number % len(BLOBS)], games=100, node=NODE, model=BLOBS[0])


def log_rows(count: int) -> list[tuple[Any, ...]]:
    """Rows of the log, as our envelopes would write them."""
    ids = Ids(SystemClock(), Random(7))
    rows = []
    for number in range(count):
        id, body = ids.next(), catalog.encode(event(number))
        rows.append((id, BatchFinished.name(), body, 1, 1.7e9, NODE, "", "log", id, "", ids.trace(), 0))
    return rows


def job(number: int) -> Play:
    """The most frequent job of the loop."""
    return Play(variant=VARIANT, seed=number, model=BLOBS[0], games=100)


def job_rows(count: int) -> Sequence[tuple[Any, ...]]:
    """Rows for the query ``enqueue``, as our desk would write them."""
    ids = Ids(SystemClock(), Random(7))
    requested = [job(number) for number in range(count)]
    return [
        (ids.next(), play.kind(), VARIANT, play.key, jobs.encode(play), play.priority, None, 1.7e9, "")
        for play in requested
    ]
