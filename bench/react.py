"""Reactions: a durable reader takes in a log, one record written for each event, its place moved with each batch."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench import parts
from bench.measure import Contest, Line, Metrics, Side, Stopwatch
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
        watch = Stopwatch()
        while place < EVENTS:
            place = await courier.take(reader, place)
        reached = watch.per(EVENTS)
    _check(path)
    return reached


def _raw(path: Path) -> Metrics:
    _load(path)
    read, put, advance = QUERIES["read"], QUERIES["put"], QUERIES["advance"]
    with parts.raw(path) as db:
        db.execute(QUERIES["enrol"], (READER, 0))
        place = 0
        watch = Stopwatch()
        while place < EVENTS:
            db.execute("BEGIN IMMEDIATE")
            rows = list(db.execute(read, (place, BATCH)))
            for row in rows:
                db.execute(put, ("bench.seen", row[0], row[2]))
            db.execute(advance, (READER, place, rows[-1][4]))
            db.execute("COMMIT")
            place = rows[-1][4]
        reached = watch.per(EVENTS)
    _check(path)
    return reached


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
        Line("react, CPU", "the same in CPU time for each event", "µs", "cpu", recorded=True),
    ),
)  # fmt: skip
