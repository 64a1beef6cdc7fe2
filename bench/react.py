"""Reactions and handlers: durable readers take in a log, their places moved with each batch.

A reaction writes a record for each event in the transaction that moves it; a handler runs outside and does nothing.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import parts
from bench.measure import Contest, Line, Metrics, Side, Stopwatch
from ringrift.bus.delivery import Reader
from ringrift.events.base import Envelope, Event
from ringrift.events.selfplay import BatchFinished
from ringrift.kernel.settings import BusSettings
from ringrift.store.ports import Put, Store, Tx
from ringrift.store.sqlite.reads import QUERIES

EVENTS = 256 * 32
BATCH = BusSettings().batch
READER = "bench"
SECONDS_MAX = 60.0


def load(path: Path, events: int = EVENTS) -> None:
    """A store at *path* with so many events in its log."""
    with parts.raw(path) as db, db:
        db.executemany(parts.INSERT, parts.log_rows(events))


async def _react(event: Event, envelope: Envelope, tx: Tx) -> None:
    await tx.put([Put(kind="bench.seen", id=envelope.id, body=envelope.body)])


async def _ours(path: Path) -> Metrics:
    load(path)
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
    load(path)
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
        assert db.execute(QUERIES["place"], (READER,)).get == (EVENTS, 0)


# -- handlers ----------------------------------------------------------------------------------------------------------


async def _handled(path: Path) -> Metrics:
    load(path)
    heard, last = 0, asyncio.Event()

    async def hear(event: Event, envelope: Envelope, key: str) -> None:
        nonlocal heard
        heard += 1
        if heard == EVENTS:
            last.set()

    async with parts.ours(path) as ours, asyncio.timeout(SECONDS_MAX):
        watch = Stopwatch()
        ours.router.handle(BatchFinished, hear, name=READER, from_start=True)
        await last.wait()
        while (await _place(ours.store)) < EVENTS:  # noqa: ASYNC110 - the last COMMIT is on its way
            await asyncio.sleep(0.0005)
        reached = watch.per(EVENTS)
    assert heard == EVENTS
    return reached


async def _place(store: Store) -> int:
    async with store.read() as view:
        return (await view.places())[READER]


async def _raw_handled(path: Path) -> Metrics:
    load(path)
    read, advance = QUERIES["read"], QUERIES["advance"]
    heard = 0

    async def hear(row: tuple[Any, ...]) -> None:
        nonlocal heard
        heard += 1

    with parts.raw(path) as db:
        watch = Stopwatch()
        db.execute(QUERIES["enrol"], (READER, 0))
        place = 0
        while rows := list(db.execute(read, (place, BATCH))):
            for row in rows:
                await hear(row)
            db.execute("BEGIN IMMEDIATE")
            db.execute(advance, (READER, place, rows[-1][4]))
            db.execute("COMMIT")
            place = rows[-1][4]
        reached = watch.per(EVENTS)
    assert heard == EVENTS
    return reached


@contextmanager
def _handlers(_: Path) -> Iterator[Mapping[str, Side]]:
    yield {
        "ours": lambda folder: asyncio.run(_handled(folder / "log.db")),
        "raw": lambda folder: asyncio.run(_raw_handled(folder / "log.db")),
    }


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
HANDLERS = Contest(
    name="handle",
    open=_handlers,
    lines=(
        Line("handle", f"a durable handler that does nothing, batches of {BATCH}", "events/s", "rate"),
        Line("handle, CPU", "the same in CPU time for each event", "µs", "cpu", recorded=True),
    ),
)  # fmt: skip
