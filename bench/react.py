"""Reactions: a durable reader takes in a log, one record written for each event, its place moved with each batch."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench import parts
from bench.measure import Contest, Line, Metrics, Side
from ringrift.bus.delivery import Reader
from ringrift.events.base import Envelope, Event
from ringrift.events.selfplay import BatchFinished
from ringrift.kernel.settings import BusSettings
from ringrift.store.ports import Put, Tx
from ringrift.store.sqlite.reads import QUERIES

EVENTS = 256 * 32
BATCH = BusSettings().batch
READER = "bench"


def _load(path: Path) -> None:
    with parts.raw(path) as db, db:
        db.executemany(parts.INSERT, parts.log_rows(EVENTS))


async def _react(event: Event, envelope: Envelope, tx: Tx) -> None:
    await tx.put([Put(kind="bench.seen", id=envelope.id, body=envelope.body)])


async def _ours(path: Path) -> Metrics:
    _load(path)
    reader = Reader(name=READER, wants=frozenset({BatchFinished.name()}), react=_react)
    async with parts.ours(path) as ours:
        courier = ours.router.courier
        place = await courier.enrol(reader)
        start = time.perf_counter()
        while place < EVENTS:
            place = await courier.take(reader, place)
        took = time.perf_counter() - start
    _check(path)
    return {"rate": EVENTS / took}


def _raw(path: Path) -> Metrics:
    _load(path)
    read, put, advance = QUERIES["read"], QUERIES["put"], QUERIES["advance"]
    with parts.raw(path) as db:
        db.execute(QUERIES["enrol"], (READER, 0))
        place = 0
        start = time.perf_counter()
        while place < EVENTS:
            db.execute("BEGIN IMMEDIATE")
            rows = list(db.execute(read, (place, BATCH)))
            for row in rows:
                db.execute(put, ("bench.seen", row[0], row[2]))
            db.execute(advance, (READER, place, rows[-1][4]))
            db.execute("COMMIT")
            place = rows[-1][4]
        took = time.perf_counter() - start
    _check(path)
    return {"rate": EVENTS / took}


def _check(path: Path) -> None:
    with parts.raw(path) as db:
        assert db.execute("SELECT count(*) FROM records").get == EVENTS
        assert db.execute(QUERIES["place"], (READER,)).get == EVENTS


@contextmanager
def _reactions(_: Path) -> Iterator[Mapping[str, Side]]:
    yield {
        "ours": lambda folder: asyncio.run(_ours(folder / "log.db")),
        "raw": lambda folder: _raw(folder / "log.db"),
    }


REACTIONS = Contest(
    name="react",
    open=_reactions,
    lines=(
        Line("react", f"a reaction that writes a record, batches of {BATCH}", "events/s", "rate", ratio_min=0.3),
    ),
)  # fmt: skip
