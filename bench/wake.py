"""Waking: the delay from a COMMIT to a subscriber in a second process on the same store, and the cost of waiting."""

import asyncio
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import parts
from bench.child import CLOCK, IDLE_SECONDS
from bench.measure import Contest, Line, Metrics, Side
from bench.start import CHILD_SECONDS_MAX, child
from ringrift.store.open import _THREADS
from ringrift.threads import to_its_end

EVENTS = 500
PAUSE_SECONDS = 0.002
"""Between two events, so that the other process is asleep for each."""


class Stamps:
    """The threads of a store, which record when its last COMMIT returned."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads
        self.committed = 0.0

    async def run(self, call: Any, *args: Any) -> Any:
        """What *call* returns from a thread."""
        return await to_its_end(self._threads, self._timed, call, *args)

    def _timed(self, call: Any, *args: Any) -> Any:
        result = call(*args)
        if args == ("COMMIT",):
            self.committed = CLOCK()
        return result


@contextmanager
def _listening(mode: str, path: Path) -> "Iterator[subprocess.Popen[str]]":
    """Another process that listens at *path*, from when it is ready."""
    words = [sys.executable, "-m", "bench.child", mode, str(path), str(EVENTS)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", f"bench.child {mode} did not get ready"
            yield process
        finally:
            process.kill()


def delays(sent: Sequence[float], process: "subprocess.Popen[str]") -> Metrics:
    """The delays from the times *sent* to the times at which *process* received."""
    out, _ = process.communicate(timeout=CHILD_SECONDS_MAX)
    received: list[float] = json.loads(out)["received"]
    took = [(end - start) * 1000 for start, end in zip(sent, received, strict=True)]
    percentiles = statistics.quantiles(took, n=100)
    return {"p50": percentiles[49], "p99": percentiles[98]}


async def _ours(path: Path) -> Metrics:
    sent = []
    with ThreadPoolExecutor(max_workers=_THREADS) as threads:
        stamps = Stamps(threads)
        async with parts.ours(path, offload=stamps.run) as ours:
            with _listening("listen", path) as process:
                for number in range(EVENTS):
                    await asyncio.sleep(PAUSE_SECONDS)
                    await ours.router.publish(parts.event(number))
                    sent.append(stamps.committed)
                return await asyncio.to_thread(delays, sent, process)


def _raw(path: Path) -> Metrics:
    sent = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, _listening("datagram", path) as process:
        for _ in range(EVENTS):
            time.sleep(PAUSE_SECONDS)
            sent.append(CLOCK())
            sender.sendto(b"!", str(path))
        return delays(sent, process)


@contextmanager
def _wakes(_: Path) -> Iterator[Mapping[str, Side]]:
    yield {
        "ours": lambda folder: asyncio.run(_ours(folder / "log.db")),
        "raw": lambda folder: _raw(folder / "socket"),
        "idle": lambda folder: child("idle", str(folder / "log.db")),
    }


WAKES = Contest(
    name="wake",
    open=_wakes,
    lines=(
        Line("wake p50", "p50 from COMMIT to another process's subscriber; a datagram alone", "ms", "p50", ours_max=1),
        Line("wake p99", "p99 of the same", "ms", "p99", ours_max=5),
        Line(
            "wake, idle",
            f"CPU of a process that listens while nothing happens for {IDLE_SECONDS:g} s",
            "% of a core",
            "share",
            "idle",
            None,
            ours_max=0.5,
        ),
    ),
)
