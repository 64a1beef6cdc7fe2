"""History: CPU time of the whole loop for each job in an old store, against the same loop in a young one.

``python -m bench.history grow HOME JOBS`` runs the loop of the stand-in workload in one process until so many jobs are
done; ``age HOME JOBS`` makes that store as old as if it had done so many, in seconds: every row that stays for good is
there many times, with other names; ``measure HOME JOBS`` runs the loop on and prints what each job took.  The loop is
the real one: three lines, one node, all daemons, files and store on disk.  Only workers are not processes of their own.
"""

import asyncio
import hashlib
import json
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import apsw

from bench.measure import Contest, Line, Metrics, Side
from ringrift.blobs.folder import Folder
from ringrift.bus import trace
from ringrift.events.pipeline import Opened
from ringrift.harness import Cluster, Member
from ringrift.jobs import Rate
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import JobFailed
from ringrift.kernel.settings import Settings
from ringrift.store.ports import Store
from ringrift.store.sqlite.connect import connect
from ringrift.work.launch.ports import ReportProgress
from ringrift.work.launch.process import ToChild
from ringrift.workers import rate
from ringrift.workers.context import WorkerContext
from ringrift.workload.api import JobResult, JobSpec, Refused
from ringrift.workload.fake import Fake

YOUNG, OLD = 5_000, 100_000
MEASURED, WARM_UP = 1_000, 200  # jobs; the clock runs for the former, after the latter have filled the caches
VARIANTS = ("square8_2p", "hex8_2p", "hex8_3p")
POLL_SECONDS, STILL_SECONDS_MAX = 0.05, 60.0
# Every kind of record that a job, a match or a decision leaves for good; all others are as many as lines and nodes.
LASTING = ("block", "count", "decision", "evidence", "holding", "match", "model")
BLOB, CHECKSUM = re.compile(rb"[0-9a-f]{64}"), re.compile(rb"#[0-9a-f]{16}$")


class InLoopWorker:
    """Runs jobs of the stand-in workload in the loop of its node."""

    memory = 0

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    async def run(self, spec: JobSpec, resume: str | None, report: ReportProgress) -> JobResult:
        """Run one job at once; nothing else happens meanwhile."""
        message = ToChild(resume=resume, traceparent=trace.traceparent())
        context = WorkerContext(self._folder, lambda beat: None, lambda: False, message)
        do = rate.run if spec.stage == Rate.kind() else Fake().run
        try:
            return replace(do(spec, context), version=Fake.version)
        except Refused as refused:
            raise JobFailed(refused.reason, retry=False, blob=refused.blob) from refused

    def ask_to_stop(self) -> None:
        """Jobs end by themselves at once."""

    async def end(self, grace_seconds: float) -> None:
        """There is no process."""


class InLoopLaunch:
    """Starts workers in the loop of the node of *settings*."""

    def __init__(self, settings: Settings) -> None:
        self._folder = Folder(settings.blobs.folder)

    async def start(self, workload: str) -> InLoopWorker:
        """A worker for the stand-in workload, whatever *workload* is."""
        return InLoopWorker(self._folder)


def settings(home: Path) -> Settings:
    """The settings of the loop in *home*."""
    places = {"store.path": str(home / "store.db"), "blobs.folder": str(home / "blobs")}
    small = {"policy.games_per_batch": 10, "policy.games_per_export": 40, "policy.rate_seconds": 1.0}
    often = {"sweep.every_seconds": 5.0, "work.slots": 2, "policy.ladder_seconds": 10.0, "policy.ladder_blocks": 16}
    return Settings().overlaid({**places, **small, **often, "policy.variants": VARIANTS})


async def _done(store: Store) -> int:
    async with store.read() as view:
        return sum(count for (_, state), count in (await view.count_jobs()).items() if state == "done")


async def _reach(store: Store, goal: int) -> int:
    """How many jobs are done as soon as it is *goal* or more.  Raises TimeoutError when the loop stands still."""
    done, still = await _done(store), 0
    while done < goal and still * POLL_SECONDS < STILL_SECONDS_MAX:
        await asyncio.sleep(POLL_SECONDS)
        before, done = done, await _done(store)
        still = still + 1 if done == before else 0
    if done < goal:
        raise TimeoutError(f"no job was done for {STILL_SECONDS_MAX:g} s: {done} of {goal}")
    return done


def _resident_bytes() -> int:
    """The memory of this process as it is now; the highest there was may be that of its parent."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def run(home: Path, warm_up: int, jobs: int, overlay: Mapping[str, Any] | None = None) -> Metrics:
    """Run the loop for *warm_up* jobs and then for *jobs* more; the measurements of the latter."""
    clock, own = SystemClock(), settings(home).overlaid(overlay or {})
    async with Cluster.open(own, (Member(id="n1"),), clock, Random(7), launch=InLoopLaunch) as cluster:
        for variant in VARIANTS:
            await cluster.nodes[0].router.publish(Opened(variant=variant, workload="fake"), id=f"opened-{variant}")
        first = await _reach(cluster.store, await _done(cluster.store) + warm_up)
        began = time.process_time()
        done = await _reach(cluster.store, first + jobs) - first
        cpu = time.process_time() - began
        wal = (home / "store.db-wal").stat().st_size
        memory = _resident_bytes()
    return {"cpu": cpu / done * 1e3, "wal": wal / 2**20, "memory": memory / 2**20}


def grow(home: Path, jobs: int) -> None:
    """Run the loop in *home* until *jobs* jobs are done."""
    home.mkdir(parents=True, exist_ok=True)
    asyncio.run(run(home, 0, jobs))


class _Aged:
    """The names of one earlier life of a store: every name is another one, and sorts before all that are real."""

    def __init__(self, life: int) -> None:
        self._life, self._seen = life, dict[bytes, bytes]()

    def body(self, data: bytes) -> bytes:
        """*data* with other blobs, and without the checksum of a record: it would not be right any more."""
        return BLOB.sub(self._blob, CHECKSUM.sub(b"", data))

    def text(self, text: str) -> str:
        """*text*, which is or contains a name, with other names."""
        aged = self.body(text.encode()).decode()
        return aged if aged != text else self._older(text)

    def _older(self, text: str) -> str:
        head, colon, id = text.rpartition(":")
        return f"{head}{colon}0{self._life:03}{id}"

    def _blob(self, match: re.Match[bytes]) -> bytes:
        blob = match.group()
        if blob not in self._seen:
            self._seen[blob] = hashlib.sha256(self._life.to_bytes(4, "big") + blob).hexdigest().encode()
        return self._seen[blob]


def age(home: Path, jobs: int) -> None:
    """Make the store in *home* as old as if *jobs* jobs were done: all that stays for good is there so many times."""
    db = connect(home / "store.db")
    [(done,)] = db.execute("SELECT sum(count) FROM job_counts WHERE state = 'done'")
    lives = max(round(jobs / done), 1)
    [(events,)] = db.execute("SELECT max(position) FROM log")
    rows = {table: list(db.execute(query)) for table, query in ROWS.items()}
    db.execute("PRAGMA synchronous = OFF")
    with db:
        # Old rows have the lowest numbers, so that what is newest stays so.
        for table in ("log", "readers", "deliveries"):
            db.execute(f"UPDATE {table} SET position = -position - ?", ((lives - 1) * events,))
            db.execute(f"UPDATE {table} SET position = -position")
    for life in range(1, lives):
        with db:
            _add_life(db, rows, life, (lives - 1 - life) * events)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    db.close()


JOB = ("id", "kind", "variant", "key", "body", "state", "priority", "attempts", "fence", "progress", "time")
EVENT = ("position", "id", "name", "version", "time", "node", "source", "labels", "correlation", "cause", "trace")
ROWS = {
    "jobs": f"SELECT {', '.join(JOB)} FROM every_job WHERE state = 'done'",
    "records": f"SELECT kind, id, body FROM records WHERE kind IN {LASTING}",
    "record_index": f"SELECT kind, field, value, id FROM record_index WHERE kind IN {LASTING}",
    "names": "SELECT number, name FROM names",
    "links": "SELECT child, parent FROM links",
    "origins": "SELECT * FROM origins",
    "log": f"SELECT {', '.join(EVENT)}, depth, body FROM log",
}


def _add_life(db: apsw.Connection, rows: Mapping[str, list[tuple[Any, ...]]], life: int, position: int) -> None:
    """Insert *rows* once more, with other names; the events from *position* on."""
    text, body, day = (aged := _Aged(life)).text, aged.body, life * 86_400.0
    [(job,)] = db.execute("SELECT min(number) - 1 FROM every_job")
    [(name,)] = db.execute("SELECT max(number) FROM names")
    # What a job counts for is what a trigger adds when it is inserted, so that the counters agree.
    fresh: dict[str, list[tuple[Any, ...]]] = {
        f"jobs (number, {', '.join(JOB)})": [
            (job - n, text(id), kind, variant, text(key), body(data), *rest)
            for n, (id, kind, variant, key, data, *rest) in enumerate(rows["jobs"])
        ],
        "records": [(kind, text(id), body(data)) for kind, id, data in rows["records"]],
        "record_index": [
            (kind, field, value if field in ("variant", "node") else text(value), text(id))
            for kind, field, value, id in rows["record_index"]
        ],
        "names": [(name + number, text(blob)) for number, blob in rows["names"]],
        "links": [(name + child, name + parent) for child, parent in rows["links"]],
        "origins": [(name + blob, *row[:3], row[3] - day, *row[4:]) for blob, *row in rows["origins"]],
        f"log ({', '.join(EVENT)}, depth, body)": [
            (position + at, text(id), *rest, body(data)) for at, id, *rest, data in rows["log"]
        ],
    }
    for table, values in fresh.items():
        marks = ", ".join("?" * len(values[0]))
        db.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", values)


def _measure(home: Path, folder: Path) -> Metrics:
    """What a job takes in *home*, measured in a process of its own on a copy in *folder*."""
    copy = shutil.copytree(home, folder / "home")
    command = [sys.executable, "-m", "bench.history", "measure", str(copy), str(MEASURED)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    reached: Metrics = json.loads(output.splitlines()[-1])
    return reached


@contextmanager
def _history(shared: Path) -> Iterator[Mapping[str, Side]]:
    young, old = shared / "young", shared / "old"
    grow(young, YOUNG)
    shutil.copytree(young, old)
    age(old, OLD)
    grow(old, WARM_UP)  # the first sweep archives and compacts what would have been long before
    yield {"young": lambda folder: _measure(young, folder), "old": lambda folder: _measure(old, folder)}


HISTORY = Contest(
    name="history",
    open=_history,
    lines=(
        Line(
            "history, CPU",
            f"the whole loop, CPU for each job of the stand-in workload after {OLD:,} jobs; after {YOUNG:,}",
            "ms",
            "cpu",
            "old",
            "young",
            ratio_max=1.2,
        ),
        Line("history, memory", "resident memory of the same", "MB", "memory", "old", "young", ratio_max=1.2),
        Line("history, WAL", "write-ahead log of the same", "MB", "wal", "old", "young", ours_max=32.0),
    ),
)


def main(verb: str, home: str, jobs: str) -> None:
    """Grow or age a store, or measure the loop on it."""
    if verb == "measure":
        print(json.dumps(asyncio.run(run(Path(home), WARM_UP, int(jobs)))))
    else:
        {"grow": grow, "age": age}[verb](Path(home), int(jobs))


if __name__ == "__main__":
    main(*sys.argv[1:])
