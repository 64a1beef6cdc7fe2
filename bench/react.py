"""Reactions and handlers: durable readers consume a log, and their positions move with each batch.

A reaction writes a record for each event in the transaction that moves its position; a handler does nothing.
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
    """Make a store at *path* with *events* events in its log."""
    with parts.raw(path) as db, db:
        db.executemany(parts.INSERT, parts.log_rows(events))


async def _react(event: Event, envelope: Envelope, tx: Tx) -> None:
    await tx.put([Put(kind="bench.seen", id=envelope.id, body=envelope.body)])


async def _ours(path: Path) -> Metrics:
    load(path)
    reader = Reader(name=READER, event_names=frozenset({BatchFinished.name()}), react=_react)
    async with parts.ours(path) as ours:
        deliverer = ours.router.deliverer
        place = await deliverer.register(reader)
        watch = Stopwatch()
        while place < EVENTS:
            place = await deliverer.deliver_batch(reader, place)
        reached = watch.per(EVENTS)
    _check(path)
    return reached


def _raw(path: Path) -> Metrics:
    load(path)
    read, put, advance = QUERIES["read"], QUERIES["put"], QUERIES["advance"]
    with parts.raw(path) as db:
        db.execute(QUERIES["register_reader"], (READER, 0))
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
        assert db.execute(QUERIES["position"], (READER,)).get == (EVENTS, 0)


# -- handlers ----------------------------------------------------------------------------------------------------------


async def _handled(path: Path) -> Metrics:
    load(path)
    received, last = 0, asyncio.Event()

    async def receive(event: Event, envelope: Envelope, key: str) -> None:
        nonlocal received
        received += 1
        if received == EVENTS:
            last.set()

    async with parts.ours(path) as ours, asyncio.timeout(SECONDS_MAX):
        watch = Stopwatch()
        ours.router.handle(BatchFinished, receive, name=READER, from_start=True)
        await last.wait()
        while (await _place(ours.store)) < EVENTS:  # noqa: ASYNC110 - the last COMMIT is on its way
            await asyncio.sleep(0.0005)
        reached = watch.per(EVENTS)
    assert received == EVENTS
    return reached


async def _place(store: Store) -> int:
    async with store.read() as view:
        return (await view.positions())[READER]


async def _raw_handled(path: Path) -> Metrics:
    load(path)
    read, advance = QUERIES["read"], QUERIES["advance"]
    received = 0

    async def receive(row: tuple[Any, ...]) -> None:
        nonlocal received
        received += 1

    with parts.raw(path) as db:
        watch = Stopwatch()
        db.execute(QUERIES["register_reader"], (READER, 0))
        place = 0
        while rows := list(db.execute(read, (place, BATCH))):
            for row in rows:
                await receive(row)
            db.execute("BEGIN IMMEDIATE")
            db.execute(advance, (READER, place, rows[-1][4]))
            db.execute("COMMIT")
            place = rows[-1][4]
        reached = watch.per(EVENTS)
    assert received == EVENTS
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
)
HANDLERS = Contest(
    name="handle",
    open=_handlers,
    lines=(
        Line("handle", f"a durable handler that does nothing, batches of {BATCH}", "events/s", "rate"),
        Line("handle, CPU", "the same in CPU time for each event", "µs", "cpu", recorded=True),
    ),
)
