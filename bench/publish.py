"""Durable publishing: concurrent publishers that each wait for the disk, and share its COMMITs."""

import asyncio
import statistics
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import apsw

from bench import parts
from bench.measure import Contest, Line, Metrics, Side, Stopwatch

PUBLISHERS, EACH = 64, 150
LATENCY = {1: 200, 8: 60, 64: 40}
"""Publishers, and how often each of them publishes."""

# The same columns without STRICT and without the index on ids: the difference is the cost of the index.
BARE = """CREATE TABLE log (position INTEGER PRIMARY KEY, id, name, version, time, node, source, labels, correlation,
cause, trace, depth, body)"""

Publish = Callable[[int], Awaitable[Any]]


class Writer:
    """One writer thread: takes all waiting rows, a bare INSERT each, one COMMIT, and wakes all publishers at once."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self._loop = asyncio.get_running_loop()
        self._waiting: SimpleQueue[tuple[Any, asyncio.Future[None]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    async def insert(self, row: tuple[Any, ...]) -> None:
        """Returns when *row* is durable."""
        done = self._loop.create_future()
        self._waiting.put((row, done))
        await done

    def stop(self) -> None:
        """End the thread, once no publisher waits."""
        self._waiting.put(None)
        self._thread.join()

    def _write(self) -> None:
        while (first := self._waiting.get()) is not None:
            group = [first]
            while self._waiting.qsize() and (another := self._waiting.get()) is not None:
                group.append(another)
            self._db.execute("BEGIN IMMEDIATE")
            for row, _ in group:
                self._db.execute(parts.INSERT, row)
            self._db.execute("COMMIT")
            self._loop.call_soon_threadsafe(_wake, [done for _, done in group])


def _wake(group: list[asyncio.Future[None]]) -> None:
    for done in group:
        done.set_result(None)


async def _all(publish: Publish, publishers: int, each: int) -> list[float]:
    """Run all publishers; the duration of each publish."""
    took: list[float] = []

    async def publish_all(first: int) -> None:
        for number in range(first, first + each):
            start = time.perf_counter()
            await publish(number)
            took.append(time.perf_counter() - start)

    await asyncio.gather(*(publish_all(publisher * each) for publisher in range(publishers)))
    return took


async def _metrics(publish: Publish, publishers: int, each: int) -> Metrics:
    watch = Stopwatch()
    took = await _all(publish, publishers, each)
    reached = watch.per(publishers * each)
    percentiles = statistics.quantiles(took, n=100)
    return {**reached, "p50": percentiles[49] * 1000, "p99": percentiles[98] * 1000}


async def _ours(path: Path, publishers: int, each: int) -> Metrics:
    async with parts.ours(path) as ours:
        return await _metrics(lambda number: ours.router.publish(parts.event(number)), publishers, each)


async def _raw(path: Path, publishers: int, each: int, *, index: bool) -> Metrics:
    rows = parts.log_rows(publishers * each)
    with parts.raw(path) as db:
        if not index:
            db.execute("DROP TABLE log")
            db.execute(BARE)
        writer = Writer(db)
        try:
            return await _metrics(lambda number: writer.insert(rows[number]), publishers, each)
        finally:
            writer.stop()


@contextmanager
def _throughput(_: Path) -> Iterator[Mapping[str, Side]]:
    yield {
        "ours": lambda folder: asyncio.run(_ours(folder / "log.db", PUBLISHERS, EACH)),
        "raw": lambda folder: asyncio.run(_raw(folder / "log.db", PUBLISHERS, EACH, index=True)),
        "bare": lambda folder: asyncio.run(_raw(folder / "log.db", PUBLISHERS, EACH, index=False)),
    }


@contextmanager
def _latency(_: Path) -> Iterator[Mapping[str, Side]]:
    def ours(folder: Path) -> Metrics:
        metrics = {count: asyncio.run(_ours(folder / f"{count}.db", count, each)) for count, each in LATENCY.items()}
        return _by_count(metrics)

    def raw(folder: Path) -> Metrics:
        metrics = {
            count: asyncio.run(_raw(folder / f"{count}.db", count, each, index=True)) for count, each in LATENCY.items()
        }
        return _by_count(metrics)

    yield {"ours": ours, "raw": raw}


def _by_count(rounds: Mapping[int, Metrics]) -> Metrics:
    return {f"{name} {count}": metrics[name] for count, metrics in rounds.items() for name in ("p50", "p99")}


THROUGHPUT = Contest(
    name="publish",
    open=_throughput,
    lines=(
        Line("publish", f"durable publish, {PUBLISHERS} publishers", "events/s", "rate", ratio_min=0.5),
        Line("publish, CPU", "the same in CPU time for each event", "µs", "cpu", recorded=True),
        Line("publish, bare table", "the same against a table without its index", "events/s", "rate", raw="bare"),
    ),
)
LATENCIES = Contest(
    name="latency",
    open=_latency,
    lines=tuple(
        Line(f"latency {name}, {count}", f"{name} of a durable publish with {count} at once", "ms", f"{name} {count}")
        for count in LATENCY
        for name in ("p50", "p99")
    ),
)
