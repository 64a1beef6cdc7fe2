"""Starting: the time until a coordinator with a long log is ready, and its memory then."""

import asyncio
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random

from bench import parts
from bench.child import IDLE_SECONDS
from bench.measure import Contest, Line, Metrics, Side
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.settings import Settings
from ringrift.node import Node

EVENTS = 100_000
CHILD_SECONDS_MAX = 60


def child(*words: str) -> Metrics:
    """Run ``python -m bench.child`` with *words*; its output, with the seconds since its start."""
    start = time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-m", "bench.child", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=CHILD_SECONDS_MAX,
    )
    if ran.returncode:
        raise RuntimeError(f"bench.child {' '.join(words)} exited with {ran.returncode}:\n{ran.stderr}")
    printed: dict[str, float] = json.loads(ran.stdout)
    if "imported" in printed:
        printed["imported"] = (printed["imported"] - start) * 1000
    # CLOCK_MONOTONIC is the same clock in every process of a machine.
    return {**printed, "seconds": printed.pop("ready") - start} if "ready" in printed else printed


async def _prepare(home: Path) -> None:
    """A coordinator with a history: it ran once, then the log grew, and its readers have consumed it."""
    settings = Settings.local(home)
    async with Node.open(settings, SystemClock(), Random(7)):
        pass
    with parts.raw(Path(settings.store.path)) as db:
        with db:
            db.executemany(parts.INSERT, parts.log_rows(EVENTS))
            db.execute("UPDATE readers SET position = (SELECT max(position) FROM log)")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


@contextmanager
def _start(shared: Path) -> Iterator[Mapping[str, Side]]:
    home = shared / "home"
    asyncio.run(_prepare(home))

    def run(mode: str, folder: Path) -> Metrics:
        shutil.copytree(home, folder / "home")
        return child(mode, str(folder / "home"))

    yield {"ours": lambda folder: run("node", folder), "raw": lambda folder: run("raw", folder)}


@contextmanager
def _imports(_: Path) -> Iterator[Mapping[str, Side]]:
    yield {"ours": lambda _: child("import", "ringrift"), "node": lambda _: child("import", "ringrift.node")}


@contextmanager
def _programs(_: Path) -> Iterator[Mapping[str, Side]]:
    yield {
        "ours": lambda folder: child("publish", str(folder / "home")),
        "full": lambda folder: child("full", str(folder / "home")),
        "bare": lambda folder: child("bare", str(folder)),
    }


STARTING = Contest(
    name="start",
    open=_start,
    lines=(
        Line("start", f"from exec to a ready coordinator, {EVENTS:,} events in its log", "s", "seconds", ours_max=2.0),
        Line("start, CPU", "the same in CPU time", "s", "cpu", recorded=True),
        Line("memory", "its resident memory when it is ready", "MB", "rss", ours_max=120.0, recorded=True),
        Line("memory, peak", "the most it had until then", "MB", "peak"),
    ),
)
IMPORTS = Contest(
    name="import",
    open=_imports,
    lines=(
        Line("import", "`import ringrift`", "ms", "import", raw=None),
        Line("import, heavy", "heavy packages that it imports", "packages", "heavy", raw=None, ours_max=0),
        Line("import node", "`import ringrift.node`, all that a coordinator needs", "ms", "import", "node", None),
        Line("import node, heavy", "heavy packages that it imports", "packages", "heavy", "node", None, ours_max=0),
    ),
)
PROGRAMS = Contest(
    name="program",
    open=_programs,
    lines=(
        Line(
            "old import",
            "from exec to `import app.coordination`; a bare interpreter",
            "ms",
            "imported",
            raw="bare",
            ours_max=150.0,
        ),
        Line("old import, memory", "its memory then; a bare interpreter", "MB", "rss", raw="bare", ours_max=50.0),
        Line(
            "old publish",
            "from exec to the first durable publish with the documented API",
            "s",
            "seconds",
            raw="bare",
            ours_max=0.3,
        ),
        Line("profile full", '`start_all(profile="full")`', "s", "full", "full", None, ours_max=2.0),
        Line(
            "profile full, idle",
            f"all its daemons when nothing happens for {IDLE_SECONDS:g} s",
            "% of a core",
            "share",
            "full",
            None,
            ours_max=2.0,
        ),
        Line("profile full, memory", "its resident memory then", "MB", "rss", "full", None, ours_max=150.0),
    ),
)
