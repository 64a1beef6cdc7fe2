"""Parts that several benchmarks need: our store with what stands on it, a raw connection, rows to begin with."""

import hashlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import apsw

from ringrift import jobs
from ringrift.bus.router import Router
from ringrift.bus.scribe import Scribe
from ringrift.events import catalog
from ringrift.events.selfplay import BatchFinished
from ringrift.jobs import Play
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import BusSettings, Settings, StoreSettings
from ringrift.store.open import open_store
from ringrift.store.ports import Store
from ringrift.store.sqlite.connect import connect
from ringrift.store.sqlite.engine import Offload
from ringrift.work.desk import StoreDesk

VARIANT = "hex8_2p"
NODE = "bench"
LEASE_SECONDS = 30.0
# Real names of blobs, made before any clock runs: all zeros would take other paths than digits and letters in turn.
BLOBS = tuple(hashlib.sha256(str(number).encode()).hexdigest() for number in range(10_000))
INSERT = """INSERT INTO log (id, name, version, time, node, source, origin, correlation, cause, trace, depth, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""


@dataclass(frozen=True)
class Ours:
    """What a node builds on its store, without the daemons."""

    store: Store
    router: Router
    scribe: Scribe
    desk: StoreDesk


@asynccontextmanager
async def ours(
    path: Path, *, settings: BusSettings | None = None, offload: Offload | None = None
) -> AsyncIterator[Ours]:
    """Our store at *path*, opened the way a node opens it; *offload* is for who wants to look at its threads."""
    clock = SystemClock()
    ids = Ids(clock, Random(7))
    async with open_store(StoreSettings(path=str(path)), clock, offload=offload) as store:
        scribe = Scribe(NODE, clock, ids)
        desk = StoreDesk(
            store, clock, ids, scribe, NODE, lease_seconds=LEASE_SECONDS, retry=Settings.local().work.retry
        )
        router = Router(store, clock, scribe, settings or BusSettings())
        try:
            yield Ours(store, router, scribe, desk)
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
    """An event as the loop says it most often."""
    return BatchFinished(variant=VARIANT, batch=BLOBS[number % len(BLOBS)], games=100, node=NODE, model=BLOBS[0])


def log_rows(count: int) -> list[tuple[Any, ...]]:
    """Rows of the log, as our scribe would write them."""
    ids = Ids(SystemClock(), Random(7))
    rows = []
    for number in range(count):
        id, body = ids.next(), catalog.encode(event(number))
        rows.append((id, BatchFinished.name(), 1, 1.7e9, NODE, "", "log", id, "", ids.trace(), 0, body))
    return rows


def job(number: int) -> Play:
    """A job as the loop asks for it most often."""
    return Play(variant=VARIANT, seed=number, model=BLOBS[0], games=100)


def job_rows(count: int) -> Sequence[tuple[Any, ...]]:
    """Rows for the query ``enqueue``, as our desk would write them."""
    ids = Ids(SystemClock(), Random(7))
    wanted = [job(number) for number in range(count)]
    return [
        (ids.next(), one.kind(), VARIANT, one.key, jobs.encode(one), one.priority, None, 1.7e9, "") for one in wanted
    ]
