"""Programs that benchmarks run in a process of their own; each prints one JSON object."""

import sys
import time

CLOCK = time.perf_counter
"""On Linux the same clock in every process of a machine."""
IDLE_SECONDS = 3.0

HEAVY = frozenset(
    {
        "numpy",
        "torch",
        "numba",
        "scipy",
        "pandas",
        "aiohttp",
        "starlette",
        "uvicorn",
        "fastapi",
        "flask",
        "tornado",
        "http.server",
        "httpx",
        "httpx2",
        "requests",
        "nats",
        "asyncpg",
        "obstore",
        "opentelemetry",
        "pydantic",
        "sqlite3",
    }
)
"""Packages that a control process must not import; an attempt counts, whether or not it is installed."""


class ImportRecorder:
    """An import hook that finds nothing and records the requested names."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        self.names.add(name)


def memory() -> dict[str, float]:
    """Resident memory of this process now and at its peak, in MB, as the kernel counts it."""
    with open("/proc/self/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    return {name: int(fields[key].split()[0]) * 1024 / 1e6 for name, key in (("rss", "VmRSS"), ("peak", "VmHWM"))}


def print_and_exit(**results: object) -> None:
    """Print the results and exit at once: the end of the process is not measured."""
    import json
    import os

    print(json.dumps(results), flush=True)
    os._exit(0)


def node(home: str) -> None:
    """Open a coordinator."""
    import asyncio
    from random import Random

    from ringrift.kernel.clock import SystemClock
    from ringrift.kernel.settings import Settings
    from ringrift.node import Node

    async def run() -> None:
        async with Node.open(Settings.local(home), SystemClock(), Random(7)):
            print_and_exit(ready=time.monotonic(), cpu=time.process_time(), **memory())

    asyncio.run(run())


def raw(home: str) -> None:
    """The minimum for a process on the same file: import, open, read the newest position."""
    import asyncio

    import apsw
    import msgspec

    async def run() -> None:
        db = apsw.Connection(f"{home}/coordination/coordinator.db")
        db.execute("PRAGMA synchronous = FULL")
        assert db.execute("SELECT max(position) FROM log").get
        assert msgspec.json.encode(home)
        print_and_exit(ready=time.monotonic(), cpu=time.process_time(), **memory())

    asyncio.run(run())


def imported(name: str) -> None:
    """Import one module."""
    from importlib import import_module

    recorder = ImportRecorder()
    sys.meta_path.insert(0, recorder)
    start = time.perf_counter()
    import_module(name)
    took = (time.perf_counter() - start) * 1000
    sys.meta_path.remove(recorder)
    results = sorted(recorder.names & HEAVY)
    if results:
        print(f"{name} imports {', '.join(results)}", file=sys.stderr)
    print_and_exit(**{"import": took, "heavy": len(results)})


def listen(path: str, count: str) -> None:
    """Be a second process on a store: receive *count* events, and print when."""
    import asyncio
    from pathlib import Path

    from bench import parts
    from ringrift.events.selfplay import BatchFinished

    async def run() -> None:
        received: list[float] = []
        done = asyncio.Event()

        async def receive(*_: object) -> None:
            received.append(CLOCK())
            if len(received) == int(count):
                done.set()

        async with parts.ours(Path(path)) as ours:
            ours.router.subscribe(BatchFinished, receive)
            print("ready", flush=True)
            await done.wait()
            print_and_exit(received=received)

    asyncio.run(run())


def datagram(path: str, count: str) -> None:
    """Receive *count* datagrams and do nothing else, and print when."""
    import socket

    received: list[float] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(path)
        print("ready", flush=True)
        while len(received) < int(count):
            receiver.recv(1)
            received.append(CLOCK())
    print_and_exit(received=received)


def idle(path: str) -> None:
    """Listen to a store in which nothing happens: live, and as a durable handler."""
    import asyncio
    from pathlib import Path

    from bench import parts
    from ringrift.events.selfplay import BatchFinished

    async def receive(*_: object) -> None:
        raise AssertionError("no event is published")

    async def run() -> None:
        async with parts.ours(Path(path)) as ours:
            ours.router.subscribe(BatchFinished, receive)
            ours.router.handle(BatchFinished, receive, name="bench")
            await asyncio.sleep(0.5)  # until both have read their positions
            start, cpu = CLOCK(), time.process_time()
            await asyncio.sleep(IDLE_SECONDS)
            print_and_exit(share=(time.process_time() - cpu) / (CLOCK() - start) * 100)

    asyncio.run(run())


def publish(home: str) -> None:
    """A program that uses the documented API: import, and publish one durable event."""
    import os

    os.environ["RINGRIFT_HOME"] = home
    from app.coordination import get_router

    imported_at, weight = time.monotonic(), memory()["rss"]
    get_router().publish_sync("EVENT_A", {})
    print_and_exit(ready=time.monotonic(), imported=imported_at, rss=weight)


def full(home: str) -> None:
    """A program that uses the documented API, starts every daemon and then does nothing."""
    import asyncio
    import os

    os.environ["RINGRIFT_HOME"] = home
    from app.coordination.daemon_manager import get_daemon_manager

    start = CLOCK()
    started = asyncio.run(get_daemon_manager().start_all(profile="full"))
    took = CLOCK() - start
    assert all(started.values())
    time.sleep(0.5)  # until the work of starting is done
    start, cpu = CLOCK(), time.process_time()
    time.sleep(IDLE_SECONDS)
    print_and_exit(full=took, share=(time.process_time() - cpu) / (CLOCK() - start) * 100, rss=memory()["rss"])


def bare(_: str) -> None:
    """An interpreter and nothing else."""
    print_and_exit(ready=time.monotonic(), imported=time.monotonic(), rss=memory()["rss"])


MODES = {
    "node": node,
    "raw": raw,
    "import": imported,
    "listen": listen,
    "datagram": datagram,
    "idle": idle,
    "publish": publish,
    "full": full,
    "bare": bare,
}

if __name__ == "__main__":
    MODES[sys.argv[1]](*sys.argv[2:])
