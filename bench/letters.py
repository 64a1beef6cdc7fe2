"""Dead letters: deliveries that fail, written down and told, and tried again until they succeed."""

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
from ringrift.bus import dead_letters
from ringrift.bus.dead_letters import TRIED_TOGETHER_MAX
from ringrift.bus.delivery import Courier, Reader
from ringrift.bus.scribe import Scribe
from ringrift.events import catalog
from ringrift.events.base import Envelope, Event
from ringrift.events.letter import Changed
from ringrift.events.selfplay import BatchFinished
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import BusSettings
from ringrift.kernel.watch import Watch
from ringrift.store.ports import Tx
from ringrift.store.sqlite.reads import QUERIES

LETTERS = 5_000
BATCH = TRIED_TOGETHER_MAX
ERROR = "RuntimeError: no"
REDELIVERY = BusSettings().redelivery


async def _fail(event: Event, envelope: Envelope, tx: Tx) -> None:
    raise RuntimeError("no")


async def _succeed(event: Event, envelope: Envelope, tx: Tx) -> None:
    return None


def _reader(react: Any) -> Reader:
    return Reader(name=READER, wants=frozenset({BatchFinished.name()}), react=react)


async def _capture(courier: Courier) -> None:
    reader = _reader(_fail)
    place = await courier.enrol(reader)
    while place < LETTERS:
        place = await courier.take(reader, place)


async def _replay(ours: parts.Ours) -> None:
    """As the daemon does it; its clock is moved on, because a letter first waits."""
    readers, watch, tick, done = {READER: _reader(_succeed)}, Watch(), 0.0, 0
    while done < LETTERS:
        done += (await dead_letters.retry(ours.store, ours.router.courier, readers, watch, tick))["done"]
        tick += REDELIVERY.first_seconds


async def _ours(path: Path) -> Metrics:
    load(path, LETTERS)
    async with parts.ours(path, settings=BusSettings(batch=BATCH)) as ours:
        watch = Stopwatch()
        await _capture(ours.router.courier)
        captured = watch.per(LETTERS)
        _check(path, "parked")
        watch = Stopwatch()
        await _replay(ours)
        replayed = watch.per(LETTERS)
    _check(path, "done")
    return _both(captured, replayed)


# -- the same rows, and nothing else -----------------------------------------------------------------------------------


def _raw(path: Path) -> Metrics:
    load(path, LETTERS)
    told = _told()
    with parts.raw(path) as db:
        watch = Stopwatch()
        _raw_capture(db, iter(told))
        captured = watch.per(LETTERS)
        watch = Stopwatch()
        _raw_replay(db, iter(told[LETTERS // BATCH :]))
        replayed = watch.per(LETTERS)
    _check(path, "done")
    return _both(captured, replayed)


def _told() -> list[tuple[Any, ...]]:
    """The rows of what is said of each batch, first of the captured and then of the replayed ones."""
    clock = SystemClock()
    scribe = Scribe(parts.NODE, clock, Ids(clock, Random(8)))
    rows = []
    for state, error in (("parked", ERROR), ("done", "")):
        for first in range(1, LETTERS + 1, BATCH):
            event = Changed(reader=READER, positions=tuple(range(first, first + BATCH)), state=state, error=error)
            e = scribe.seal(event, catalog.encode(event), source="bus")
            rows.append((
                e.id, e.name, e.version, e.time, e.node, e.source, e.origin, e.correlation, e.cause, e.trace, e.depth,
                e.body,
            ))  # fmt: skip
    return rows


def _raw_capture(db: apsw.Connection, told: Iterator[tuple[Any, ...]]) -> None:
    db.execute(QUERIES["enrol"], (READER, 0))
    for place in range(0, LETTERS, BATCH):
        db.execute("BEGIN IMMEDIATE")
        found = [row[4] for row in db.execute(QUERIES["read"], (place, BATCH))]
        rows = [(READER, position, "parked", 1, 60.0, ERROR, 1.7e9, 1.7e9) for position in found]
        db.executemany(QUERIES["park"], rows)
        db.execute(QUERIES["append"], next(told))
        db.execute(QUERIES["advance"], (READER, place, found[-1]))
        db.execute("COMMIT")


def _raw_replay(db: apsw.Connection, told: Iterator[tuple[Any, ...]]) -> None:
    for _ in range(0, LETTERS, BATCH):
        db.execute("BEGIN IMMEDIATE")
        parked = list(db.execute(QUERIES["deliveries"], ('["parked"]', READER, None, BATCH)))
        # They lie side by side here, so that one question finds their events.
        assert len(list(db.execute(QUERIES["read"], (parked[0][1] - 1, BATCH)))) == BATCH
        rows = [
            (reader, position, "done", attempts + 1, 0.0, "", first, 1.7e9)
            for reader, position, _state, attempts, _pause, _error, first, _last in parked
        ]
        db.executemany(QUERIES["park"], rows)
        db.execute(QUERIES["append"], next(told))
        db.execute("COMMIT")


def _check(path: Path, state: str) -> None:
    with parts.raw(path) as db:
        assert db.execute("SELECT state, count(*) FROM deliveries GROUP BY state").get == (state, LETTERS)


def _both(captured: Metrics, replayed: Metrics) -> Metrics:
    found = {"captured": captured, "replayed": replayed}
    return {f"{what} {name}": value for what, metrics in found.items() for name, value in metrics.items()}


@contextmanager
def _letters(_: Path) -> Iterator[Mapping[str, Side]]:
    yield {
        "ours": lambda folder: asyncio.run(_ours(folder / "log.db")),
        "raw": lambda folder: _raw(folder / "log.db"),
    }


DEAD_LETTERS = Contest(
    name="letters",
    open=_letters,
    lines=(
        Line("capture", f"dead letters captured, batches of {BATCH}", "letters/s", "captured rate", ours_min=20_000),
        Line("capture, CPU", "the same in CPU time for each letter", "µs", "captured cpu", recorded=True),
        Line("replay", f"dead letters replayed, batches of {BATCH}", "letters/s", "replayed rate", ours_min=20_000),
        Line("replay, CPU", "the same in CPU time for each letter", "µs", "replayed cpu", recorded=True),
    ),
)
