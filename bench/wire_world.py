"""Coordinators to measure: ``ringrift coordinator`` in a process of its own, and its serving part in this one."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bench import parts
from bench.wire_load import BEAT_SECONDS, key_of
from ringrift.blobs.folder import FolderBlobs
from ringrift.cluster.keys import JoinToken, StoredKey, store_keys, store_token
from ringrift.cluster.roster import Roster
from ringrift.coordinator.gate import Gate
from ringrift.coordinator.serve import STREAMS, VERBS, make_parts
from ringrift.jobs import Play
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import Settings, WireSettings
from ringrift.store.sqlite.reads import Offload
from ringrift.wire.open import open_wire
from ringrift.wire.tls import make_certificates

TOKEN = f"rr-00000000-{'0' * 40}"
VARIANT = "square8_2p"
_START_SECONDS_MAX = 60.0
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_JOBS_AT_ONCE = 1000


async def prepare(ours: parts.Ours, nodes: int, jobs: int) -> None:
    """Keys of so many workers and of one reader, the token of one more, and so many jobs that wait."""
    scopes, now = ("play", "evaluate"), time.time()
    rows = [StoredKey(node=f"w{n}", public=_public(f"w{n}"), scopes=scopes, profile="selfplay") for n in range(nodes)]
    rows.append(StoredKey(node="reader", public=_public("reader"), scopes=("read",)))
    async with ours.store.begin() as tx:
        await store_keys(tx, rows)
        await store_token(tx, TOKEN, JoinToken(id="", digest=b"", scopes=scopes, expires=now + 900), now)
    for first in range(0, jobs, _JOBS_AT_ONCE):
        await ours.desk.enqueue([_job(n) for n in range(first, min(first + _JOBS_AT_ONCE, jobs))])


def _public(node: str) -> bytes:
    return key_of(node).public


def _job(number: int) -> Play:
    return Play(variant=VARIANT, seed=number, model=parts.BLOBS[0], games=10)


@dataclass(frozen=True)
class Usage:
    """What a process has used: seconds of CPU, and bytes of memory now."""

    seconds: float
    bytes: int

    @classmethod
    def of(cls, pid: int) -> "Usage":
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return cls((int(fields[11]) + int(fields[12])) / _TICKS, pages * _PAGE_BYTES)


@contextmanager
def coordinator(home: Path, *, nodes: int, jobs: int, tls: bool) -> "Iterator[tuple[str, str, int]]":
    """``ringrift coordinator`` with *nodes* keys and *jobs* that wait: its address, authority and process."""
    settings = Settings.lan(str(home), node="c")
    Path(settings.store.path).parent.mkdir(parents=True, exist_ok=True)

    async def fill() -> None:
        async with parts.ours(Path(settings.store.path)) as ours:
            await prepare(ours, nodes, jobs)

    asyncio.run(fill())
    ca = ""
    if tls:
        make_certificates(home / "certs", ["127.0.0.1"], time.time(), 30)
        ca = str(home / "certs" / "ca.pem")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    sets = {"node.id": "c", "cluster.beat_seconds": BEAT_SECONDS, "work.workload": "fake"}
    if tls:
        sets |= {"wire.cert": f"{home}/certs/coordinator.pem", "wire.key": f"{home}/certs/coordinator.key"}
    words = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    with ringrift(home, "coordinator", "--port", str(port), *words) as process:
        _wait_for(port, process, home / "out")
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}", ca, process.pid


@contextmanager
def ringrift(home: Path, *words: str) -> "Iterator[subprocess.Popen[bytes]]":
    """``ringrift`` with *words* in *home*; it must run until the body has ended."""
    home.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "ringrift.cli.main", *words]
    with (home / "out").open("w") as out:
        process = subprocess.Popen(command, env=os.environ | {"RINGRIFT_HOME": str(home)}, stdout=out, stderr=out)
    try:
        yield process
        if process.poll() is not None:
            raise RuntimeError(f"ringrift {words[0]} has ended:\n{(home / 'out').read_text()[-2000:]}")
    finally:
        process.kill()
        process.wait()


def _wait_for(port: int, process: "subprocess.Popen[bytes]", out: Path) -> None:
    end = time.monotonic() + _START_SECONDS_MAX
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"the coordinator did not begin to serve:\n{out.read_text()[-2000:]}")


@asynccontextmanager
async def serving(
    folder: Path, *, jobs: int, offload: Offload | None = None
) -> "AsyncIterator[tuple[parts.Ours, str, FolderBlobs]]":
    """The serving part of a coordinator in this process, without daemons: its parts, its address and its files."""
    clock, settings = SystemClock(), Settings.lan(str(folder), node=parts.NODE)
    blobs = FolderBlobs(str(folder / "blobs"), parts.NODE)
    await blobs.open(is_new=True)
    async with parts.ours(folder / "store.db", offload=offload) as ours:
        await prepare(ours, 1, jobs)
        rest: Mapping[str, object] = {
            "node_id": parts.NODE, "settings": settings, "clock": clock, "rng": Random(7), "ids": Ids(clock, Random(8)),
            "envelopes": ours.envelopes, "store": ours.store, "blobs": blobs, "router": ours.router,
            "roster": Roster(ours.store, clock, BEAT_SECONDS),
        }  # fmt: skip
        async with open_wire(WireSettings()).serve("127.0.0.1:0", Gate(make_parts(rest), VERBS, STREAMS)) as address:
            yield ours, address, blobs
