"""The wire: thousands of workers on one coordinator, what each of them costs, batches, and the delay of an event."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import parts
from bench.measure import Contest, Line, Metrics, Side
from bench.wake import PAUSE_SECONDS, Stamps, delays
from bench.wire_load import IDLE_SECONDS, PLAY
from bench.wire_world import TOKEN, Usage, coordinator, prepare, ringrift, serving
from bench.work import results
from ringrift.store.open import _THREADS
from ringrift.work.desk import StoreDesk

FLEETS = (100, 500, 1000, 2000)
RECORD = 9423  # workers at once on fishtest
FLEET_TLS, FLEET_IDLE = 500, 500
LOAD_SECONDS, SETTLE_SECONDS = 30.0, 5.0
JOBS_PER_WORKER = 6  # more than it can do meanwhile
BATCH, BATCHES = 32, 100
EVENTS = 300
CHILD_SECONDS_MAX = 120.0


def _load(*words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "bench.wire_load", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _read(process: "subprocess.Popen[str]") -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def fleet(home: Path, count: int, *, tls: bool = False, idle: bool = False) -> Metrics:
    """What *count* workers see of a coordinator, and cost it."""
    jobs = 0 if idle else count * JOBS_PER_WORKER
    with coordinator(home, nodes=count, jobs=jobs, tls=tls) as (address, ca, pid):
        time.sleep(SETTLE_SECONDS)
        alone = Usage.of(pid)
        time.sleep(SETTLE_SECONDS)
        before = Usage.of(pid)
        own = (before.seconds - alone.seconds) / SETTLE_SECONDS
        with _load("idle" if idle else "work", address, ca, str(count), str(LOAD_SECONDS)) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n", "the workers did not begin"
                begun, full = time.monotonic(), Usage.of(pid)
                seen = _read(process)
                seconds, after = time.monotonic() - begun, Usage.of(pid)
            finally:
                process.kill()
    if seen["errors"]:
        raise RuntimeError(f"{seen['errors']} requests of {count} workers failed: see stderr")
    used, rate = (after.seconds - full.seconds) / seconds, seen["requests"] / seconds
    took = {f"{verb} {part}": value for verb, cuts in seen["took"].items() for part, value in cuts.items()}
    return {
        **took,
        "rate": rate,
        "share": 100 * used,
        "cpu": 1000 * (used - own) / rate,
        "memory": (after.bytes - before.bytes) / count / 1000,
        "each": 100 * (used - own) / count,
    }


def idle_worker(folder: Path) -> Metrics:
    """CPU of ``ringrift join`` on its own machine while there is no work."""
    (folder / "token").write_text(TOKEN)
    with coordinator(folder / "c", nodes=0, jobs=0, tls=False) as (address, _, __):
        words = ["join", address, "--token-file", str(folder / "token"), "--set", "node.id=w", "--profile", "selfplay"]
        with ringrift(folder / "w", *words) as process:
            time.sleep(3 * SETTLE_SECONDS)
            begun, before = time.monotonic(), Usage.of(process.pid)
            time.sleep(2 * IDLE_SECONDS)
            seconds, after = time.monotonic() - begun, Usage.of(process.pid)
    return {"share": 100 * (after.seconds - before.seconds) / seconds}


async def _over_http(folder: Path) -> Metrics:
    async with serving(folder, jobs=BATCH * BATCHES) as (_, address, blobs):
        names = await blobs.put([b"%d" % number for number in range(BATCH)])  # as after an upload
        command = _load("batches", address, ",".join(names), str(CHILD_SECONDS_MAX), str(BATCH))
        out, _ = await asyncio.to_thread(command.communicate, timeout=CHILD_SECONDS_MAX)
    reached = json.loads(out)
    assert reached["done"] == BATCH * BATCHES
    return {"rate": reached["rate"]}


async def _embedded(folder: Path) -> Metrics:
    async with parts.ours(folder / "store.db") as ours:
        await prepare(ours, 1, BATCH * BATCHES)
        begun = time.perf_counter()
        done = 0
        while finished := await _cycle(ours.desk):
            done += finished
        seconds = time.perf_counter() - begun
    assert done == BATCH * BATCHES
    return {"rate": done / seconds}


async def _cycle(desk: StoreDesk) -> int:
    leases = await desk.claim(frozenset(PLAY), BATCH)
    if leases:
        await desk.finish(results(leases, events=True))
    return len(leases)


async def _events(folder: Path) -> Metrics:
    sent = []
    with ThreadPoolExecutor(max_workers=_THREADS) as threads:
        stamps = Stamps(threads)
        async with serving(folder, jobs=0, offload=stamps.run) as (ours, address, _):
            with _load("events", address, str(EVENTS)) as process:
                try:
                    assert process.stdout is not None
                    assert await asyncio.to_thread(process.stdout.readline) == "ready\n"
                    for number in range(EVENTS):
                        await asyncio.sleep(PAUSE_SECONDS)
                        await ours.router.publish(parts.event(number))
                        sent.append(stamps.committed)
                    return await asyncio.to_thread(delays, sent, process)
                finally:
                    process.kill()


def _once(measure: Any, *words: Any, **options: Any) -> Side:
    """A side that is measured once: its rounds would take minutes each."""
    found: list[Metrics] = []

    def side(folder: Path) -> Metrics:
        if not found:
            found.append(measure(folder, *words, **options))
        return found[0]

    return side


def _extrapolate(fleets: Mapping[int, Side], folder: Path) -> Metrics:
    """The CPU that RECORD workers would take, by the line through the two largest fleets."""
    (small, less), (large, more) = ((count, fleets[count](folder / str(count))["share"]) for count in FLEETS[-2:])
    return {"share": more + (more - less) / (large - small) * (RECORD - large)}


@contextmanager
def _wire(_: Path) -> Iterator[Mapping[str, Side]]:
    fleets = {count: _once(fleet, count) for count in FLEETS}
    yield {
        **{f"{count} workers": side for count, side in fleets.items()},
        "record": lambda folder: _extrapolate(fleets, folder),
        "tls": _once(fleet, FLEET_TLS, tls=True),
        "idle": _once(fleet, FLEET_IDLE, idle=True),
        "worker": _once(idle_worker),
        "http": lambda folder: asyncio.run(_over_http(folder)),
        "embedded": lambda folder: asyncio.run(_embedded(folder)),
        "events": lambda folder: asyncio.run(_events(folder)),
    }


def _curve(count: int) -> Iterator[Line]:
    side, is_most = f"{count} workers", count == FLEETS[-1]
    what = f"{count:,} workers with 30-second jobs"

    def line(name: str, text: str, unit: str, metric: str, most: float | None = None) -> Line:
        bound = most if is_most else None
        return Line(f"wire {count}, {name}", f"{what}: {text}", unit, metric, side, None, ours_max=bound)

    yield line("beat p50", "p50 of a heartbeat", "ms", "beat p50")
    yield line("beat p99", "p99 of a heartbeat", "ms", "beat p99", 100)
    yield line("claim p50", "p50 of a claim", "ms", "claim p50", 5)
    yield line("CPU", "CPU of the coordinator", "% of a core", "share")
    yield line("request", "CPU of the coordinator for each request", "ms", "cpu")
    yield line("memory", "memory of the coordinator for each worker", "kB", "memory", 60)


def _single(name: str, what: str, unit: str, metric: str, side: str, most: float) -> Line:
    return Line(name, what, unit, metric, side, None, ours_max=most)


WIRE = Contest(
    name="wire",
    open=_wire,
    lines=(
        *(line for count in FLEETS for line in _curve(count)),
        Line("wire 9423, CPU", f"{RECORD:,} workers, extrapolated", "% of a core", "share", "record", None),
        _single("wire TLS, memory", f"memory for each of {FLEET_TLS} workers with TLS", "kB", "memory", "tls", 400),
        _single("wire idle", "CPU of the coordinator for each idle worker", "% of a core", "each", "idle", 0.02),
        _single("worker idle", "CPU of an idle worker on its own machine", "% of a core", "share", "worker", 0.3),
        Line(
            "wire batches",
            f"claim + finish over HTTP in batches of {BATCH}; the desk of the same store",
            "jobs/s",
            "rate",
            "http",
            "embedded",
            ratio_min=0.4,
        ),
        _single("wire event p50", "p50 from COMMIT to a remote subscriber", "ms", "p50", "events", 3),
        _single("wire event p99", "p99 of the same", "ms", "p99", "events", 15),
    ),
)
