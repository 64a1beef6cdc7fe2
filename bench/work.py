"""Work: jobs claimed and finished in batches, and the effect of a million finished jobs."""

import asyncio
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from bench import parts
from bench.measure import Contest, Line, Metrics, Side, Stopwatch
from ringrift.jobs import Play
from ringrift.store.ports import Lease, Renewal
from ringrift.store.sqlite.reads import QUERIES
from ringrift.work.desk import Done, JobOutcome, StoreDesk

BATCH, JOBS = 64, 64 * 50
GROWTH_JOBS = 64 * 20
FINISHED = 1_000_000
KINDS = frozenset({Play.kind()})

# One statement and no trigger: a million rows in seconds.  Ids sort before all that are made later, as old ones do.
FILL = """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
INSERT INTO jobs (id, kind, variant, key, body, state, priority, attempts, fence, progress, time)
SELECT format('%024d', i), ?2, ?3, format('old:%d', i), ?4, 'done', 40, 1, 1, 1, 1.7e9 FROM n"""


def results(leases: Sequence[Lease], events: bool) -> list[Done]:
    return [
        Done(
            lease=Renewal(job=lease.job, fence=lease.fence),
            outcome=JobOutcome(events=(parts.event(number),) if events else ()),
            context=lease.context,
        )
        for number, lease in enumerate(leases)
    ]


async def _cycle(desk: StoreDesk, *, events: bool = False) -> int:
    leases = await desk.claim(KINDS, BATCH)
    if leases:
        await desk.finish(results(leases, events))
    return len(leases)


async def _ours(path: Path, *, events: bool) -> Metrics:
    async with parts.ours(path) as ours:
        await ours.desk.enqueue([parts.job(number) for number in range(JOBS)])
        watch = Stopwatch()
        done = 0
        while finished := await _cycle(ours.desk, events=events):
            done += finished
        reached = watch.per(JOBS)
    assert done == JOBS
    return reached


def _raw(path: Path, *, events: bool) -> Metrics:
    event_rows = parts.log_rows(JOBS) if events else []
    with parts.raw(path) as db:
        with db:
            db.executemany(QUERIES["enqueue"], parts.job_rows(JOBS))
        watch = Stopwatch()
        done = 0
        while leases := _raw_claim(db):
            _raw_finish(db, leases, event_rows[done : done + BATCH])
            done += len(leases)
        reached = watch.per(JOBS)
    assert done == JOBS
    return reached


def _raw_claim(db: apsw.Connection) -> list[tuple[Any, ...]]:
    db.execute("BEGIN IMMEDIATE")
    ready: list[tuple[int, int]] = []
    for node in (None, parts.NODE):
        ready.extend(db.execute(QUERIES["ready"], (Play.kind(), node, BATCH)))
    claim = QUERIES["claim"]
    leases = [
        row for _, number in ready[:BATCH] for row in db.execute(claim, (number, parts.NODE, parts.LEASE_SECONDS))
    ]
    db.execute("COMMIT")
    return leases


def _raw_finish(db: apsw.Connection, leases: Sequence[tuple[Any, ...]], event_rows: Sequence[tuple[Any, ...]]) -> None:
    db.execute("BEGIN IMMEDIATE")
    finish, append = QUERIES["finish"], QUERIES["append"]
    for lease in leases:
        db.execute(finish, (lease[0], lease[6]))
    for row in event_rows:
        db.execute(append, row)
    db.execute("COMMIT")


@contextmanager
def _batches(_: Path) -> Iterator[Mapping[str, Side]]:
    yield {
        "ours": lambda folder: asyncio.run(_ours(folder / "jobs.db", events=False)),
        "raw": lambda folder: _raw(folder / "jobs.db", events=False),
        "ours, events": lambda folder: asyncio.run(_ours(folder / "jobs.db", events=True)),
        "raw, events": lambda folder: _raw(folder / "jobs.db", events=True),
    }


def fill(path: Path) -> None:
    """A store at *path* in which a million jobs have been done."""
    with parts.raw(path) as db:
        triggers = list(db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"))
        with db:
            for name, _ in triggers:
                db.execute(f"DROP TRIGGER {name}")
            db.execute(FILL, (FINISHED, Play.kind(), parts.VARIANT, parts.job_rows(1)[0][4]))
            db.execute("INSERT INTO job_counts VALUES (?, ?, 'done', '', ?)", (Play.kind(), parts.VARIANT, FINISHED))
            for _, script in triggers:
                db.execute(script)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


async def _cycle_seconds(path: Path) -> Metrics:
    async with parts.ours(path) as ours:
        await ours.desk.enqueue([parts.job(number) for number in range(GROWTH_JOBS)])
        took = []
        watch = Stopwatch()
        while True:
            start = time.perf_counter()
            if not await _cycle(ours.desk):
                break
            took.append(time.perf_counter() - start)
        reached = watch.per(GROWTH_JOBS)
    assert len(took) == GROWTH_JOBS // BATCH
    return {**reached, "cycle": statistics.median(took) * 1000}


@contextmanager
def _growth(shared: Path) -> Iterator[Mapping[str, Side]]:
    full = shared / "full.db"
    fill(full)
    yield {
        "full": lambda _: asyncio.run(_cycle_seconds(full)),
        "empty": lambda folder: asyncio.run(_cycle_seconds(folder / "empty.db")),
    }


BATCHES = Contest(
    name="claim",
    open=_batches,
    lines=(
        Line("claim", f"claim + finish, batches of {BATCH}", "jobs/s", "rate", ratio_min=0.4),
        Line("claim, CPU", "the same in CPU time for each job", "µs", "cpu", recorded=True),
        Line(
            "claim, with events",
            "the same with one event published for each job",
            "jobs/s",
            "rate",
            "ours, events",
            "raw, events",
        ),
    ),
)
GROWTH = Contest(
    name="growth",
    open=_growth,
    lines=(
        Line(
            "growth",
            f"claim + finish of {BATCH} with {FINISHED:,} finished jobs, against none",
            "ms",
            "cycle",
            "full",
            "empty",
            ratio_max=1.5,
        ),
        Line("growth, CPU", "the same in CPU time for each job", "µs", "cpu", "full", "empty", ratio_max=1.25),
    ),
)
