"""Dead letters: failed deliveries, parked with an event, and retried until they succeed."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import apsw

from bench import parts
from bench.measure import Contest, Line, Metrics, Side, Stopwatch
from bench.react import READER, load
from ringrift.bus.delivery import _RETRIED_TOGETHER_MAX, Deliverer, Reader
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.events.base import Envelope, Event
from ringrift.events.delivery import Changed
from ringrift.events.selfplay import BatchFinished
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import BusSettings
from ringrift.kernel.stall_detector import StallDetector
from ringrift.store.ports import Tx
from ringrift.store.sqlite.reads import QUERIES

DELIVERIES = 5_000
BATCH = _RETRIED_TOGETHER_MAX
ERROR = "RuntimeError: no"
COLUMNS = ("id", "name", "body", "version", "time", "node", "source", "labels")
COLUMNS += ("correlation", "cause", "trace", "depth")
REDELIVERY = BusSettings().redelivery


async def _fail(event: Event, envelope: Envelope, tx: Tx) -> None:
    raise RuntimeError("no")


async def _succeed(event: Event, envelope: Envelope, tx: Tx) -> None:
    return None


def _reader(react: Any) -> Reader:
    return Reader(name=READER, event_names=frozenset({BatchFinished.name()}), react=react)


async def _capture(deliverer: Deliverer) -> None:
    reader = _reader(_fail)
    place = await deliverer.register(reader)
    while place < DELIVERIES:
        place = await deliverer.deliver_batch(reader, place)


async def _replay(ours: parts.Ours) -> None:
    """As the daemon does it; its clock is advanced, because a dead letter waits before its first retry."""
    readers, watch, tick, done = {READER: _reader(_succeed)}, StallDetector(), 0.0, 0
    while done < DELIVERIES:
        done += (await ours.router.deliverer.retry_due(readers, watch, tick))["done"]
        tick += REDELIVERY.first_seconds


async def _ours(path: Path) -> Metrics:
    load(path, DELIVERIES)
    async with parts.ours(path, settings=BusSettings(batch=BATCH)) as ours:
        watch = Stopwatch()
        await _capture(ours.router.deliverer)
        captured = watch.per(DELIVERIES)
        _check(path, "parked")
        watch = Stopwatch()
        await _replay(ours)
        replayed = watch.per(DELIVERIES)
    _check(path, "done")
    return _both(captured, replayed)


# -- the same rows, and nothing else -----------------------------------------------------------------------------------


def _raw(path: Path) -> Metrics:
    load(path, DELIVERIES)
    event_rows = _event_rows()
    with parts.raw(path) as db:
        watch = Stopwatch()
        _raw_capture(db, iter(event_rows))
        captured = watch.per(DELIVERIES)
        watch = Stopwatch()
        _raw_replay(db, iter(event_rows[DELIVERIES // BATCH :]))
        replayed = watch.per(DELIVERIES)
    _check(path, "done")
    return _both(captured, replayed)


def _event_rows() -> list[tuple[Any, ...]]:
    """The rows of the events about each batch, first of the captured and then of the replayed ones."""
    clock = SystemClock()
    envelopes = EnvelopeFactory(parts.NODE, clock, Ids(clock, Random(8)))
    rows = []
    for state, error in (("parked", ERROR), ("done", "")):
        for first in range(1, DELIVERIES + 1, BATCH):
            event = Changed(reader=READER, positions=tuple(range(first, first + BATCH)), state=state, error=error)
            envelope = envelopes.make(event, source="bus")
            rows.append(tuple(getattr(envelope, column) for column in COLUMNS))
    return rows


def _raw_capture(db: apsw.Connection, event_rows: Iterator[tuple[Any, ...]]) -> None:
    db.execute(QUERIES["register_reader"], (READER, 0))
    for place in range(0, DELIVERIES, BATCH):
        db.execute("BEGIN IMMEDIATE")
        unread = [row[4] for row in db.execute(QUERIES["read"], (place, BATCH))]
        rows = [(READER, position, "parked", 1, 60.0, ERROR, 1.7e9, 1.7e9) for position in unread]
        db.executemany(QUERIES["put_delivery"], rows)
        db.execute(QUERIES["append"], next(event_rows))
        db.execute(QUERIES["advance"], (READER, place, unread[-1]))
        db.execute("COMMIT")


def _raw_replay(db: apsw.Connection, event_rows: Iterator[tuple[Any, ...]]) -> None:
    for _ in range(0, DELIVERIES, BATCH):
        db.execute("BEGIN IMMEDIATE")
        parked = list(db.execute(QUERIES["deliveries"], ('["parked"]', READER, BATCH)))
        # They have consecutive positions here, so that one query reads their events.
        assert len(list(db.execute(QUERIES["read"], (parked[0][1] - 1, BATCH)))) == BATCH
        rows = [
            (reader, position, "done", attempts + 1, 0.0, "", first, 1.7e9)
            for reader, position, _state, attempts, _pause, _error, first, _last in parked
        ]
        db.executemany(QUERIES["put_delivery"], rows)
        db.execute(QUERIES["append"], next(event_rows))
        db.execute("COMMIT")


def _check(path: Path, state: str) -> None:
    with parts.raw(path) as db:
        assert db.execute("SELECT state, count(*) FROM deliveries GROUP BY state").get == (state, DELIVERIES)


def _both(captured: Metrics, replayed: Metrics) -> Metrics:
    results = {"captured": captured, "replayed": replayed}
    return {f"{what} {name}": value for what, metrics in results.items() for name, value in metrics.items()}


@contextmanager
def _sides(_: Path) -> Iterator[Mapping[str, Side]]:
    yield {
        "ours": lambda folder: asyncio.run(_ours(folder / "log.db")),
        "raw": lambda folder: _raw(folder / "log.db"),
    }


DEAD_LETTERS = Contest(
    name="dead-letters",
    open=_sides,
    lines=(
        Line("capture", f"dead letters captured, batches of {BATCH}", "letters/s", "captured rate", ours_min=20_000),
        Line("capture, CPU", "the same in CPU time for each letter", "µs", "captured cpu", recorded=True),
        Line("replay", f"dead letters replayed, batches of {BATCH}", "letters/s", "replayed rate", ours_min=20_000),
        Line("replay, CPU", "the same in CPU time for each letter", "µs", "replayed cpu", recorded=True),
    ),
)
