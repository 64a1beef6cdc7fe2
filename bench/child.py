"""What benchmarks run in a process of its own; prints one JSON object."""

import sys
import time

CLOCK = time.perf_counter
"""On Linux the same clock in every process of a machine."""
IDLE_SECONDS = 3.0

HEAVY = frozenset({
    "numpy", "torch", "numba", "scipy", "pandas", "aiohttp", "starlette", "uvicorn", "fastapi", "flask", "tornado",
    "http.server", "httpx", "httpx2", "requests", "nats", "asyncpg", "obstore", "opentelemetry", "pydantic", "sqlite3",
})  # fmt: skip
"""Packages that a control process has no business with; asking for one counts, whether or not it is installed."""


class Asked:
    """An import hook that finds nothing and remembers who was asked for."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        self.names.add(name)


def memory() -> dict[str, float]:
    """Resident memory of this process now and at its peak, in MB, as the kernel counts it."""
    with open("/proc/self/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    return {name: int(fields[key].split()[0]) * 1024 / 1e6 for name, key in (("rss", "VmRSS"), ("peak", "VmHWM"))}


def say(**found: object) -> None:
    """Print what was found, and end at once: how this process ends is not what is measured."""
    import json
    import os

    print(json.dumps(found), flush=True)
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
            say(ready=time.monotonic(), cpu=time.process_time(), **memory())

    asyncio.run(run())


def raw(home: str) -> None:
    """The least that a process over the same file does: import, open, look for the newest event."""
    import asyncio

    import apsw
    import msgspec

    async def run() -> None:
        db = apsw.Connection(f"{home}/coordination/coordinator.db")
        db.execute("PRAGMA synchronous = FULL")
        assert db.execute("SELECT max(position) FROM log").get
        assert msgspec.json.encode(home)
        say(ready=time.monotonic(), cpu=time.process_time(), **memory())

    asyncio.run(run())


def imported(name: str) -> None:
    """Import one module."""
    from importlib import import_module

    asked = Asked()
    sys.meta_path.insert(0, asked)
    start = time.perf_counter()
    import_module(name)
    took = (time.perf_counter() - start) * 1000
    sys.meta_path.remove(asked)
    found = sorted(asked.names & HEAVY)
    if found:
        print(f"{name} asks for {', '.join(found)}", file=sys.stderr)
    say(**{"import": took, "heavy": len(found)})


def listen(path: str, count: str) -> None:
    """Be a second process on a store: hear *count* events, and say when."""
    import asyncio
    from pathlib import Path

    from bench import parts
    from ringrift.events.selfplay import BatchFinished

    async def run() -> None:
        seen: list[float] = []
        done = asyncio.Event()

        async def hear(*_: object) -> None:
            seen.append(CLOCK())
            if len(seen) == int(count):
                done.set()

        async with parts.ours(Path(path)) as ours:
            ours.router.subscribe(BatchFinished, hear)
            print("ready", flush=True)
            await done.wait()
            say(seen=seen)

    asyncio.run(run())


def datagram(path: str, count: str) -> None:
    """Receive *count* datagrams and do nothing else, and say when."""
    import socket

    seen: list[float] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(path)
        print("ready", flush=True)
        while len(seen) < int(count):
            ear.recv(1)
            seen.append(CLOCK())
    say(seen=seen)


def idle(path: str) -> None:
    """Listen to a store in which nothing happens: live, and as a durable handler."""
    import asyncio
    from pathlib import Path

    from bench import parts
    from ringrift.events.selfplay import BatchFinished

    async def hear(*_: object) -> None:
        raise AssertionError("nobody says anything")

    async def run() -> None:
        async with parts.ours(Path(path)) as ours:
            ours.router.subscribe(BatchFinished, hear)
            ours.router.handle(BatchFinished, hear, name="bench")
            await asyncio.sleep(0.5)  # until both have found their place
            start, cpu = CLOCK(), time.process_time()
            await asyncio.sleep(IDLE_SECONDS)
            say(share=(time.process_time() - cpu) / (CLOCK() - start) * 100)

    asyncio.run(run())


def publish(home: str) -> None:
    """A program of old style: import, and publish one event that is durable when it is done."""
    import os

    os.environ["RINGRIFT_HOME"] = home
    from app.coordination import get_router

    imported_at, weight = time.monotonic(), memory()["rss"]
    get_router().publish_sync("EVENT_A", {})
    say(ready=time.monotonic(), imported=imported_at, rss=weight)


def full(home: str) -> None:
    """A program of old style that starts every daemon and then does nothing."""
    import asyncio
    import os

    os.environ["RINGRIFT_HOME"] = home
    from app.coordination.daemon_manager import get_daemon_manager

    start = CLOCK()
    started = asyncio.run(get_daemon_manager().start_all(profile="full"))
    took = CLOCK() - start
    assert all(started.values())
    time.sleep(0.5)  # until what a start sets off is over
    start, cpu = CLOCK(), time.process_time()
    time.sleep(IDLE_SECONDS)
    say(full=took, share=(time.process_time() - cpu) / (CLOCK() - start) * 100, rss=memory()["rss"])


def bare(_: str) -> None:
    """An interpreter and nothing else."""
    say(ready=time.monotonic(), imported=time.monotonic(), rss=memory()["rss"])


MODES = {
    "node": node, "raw": raw, "import": imported, "listen": listen, "datagram": datagram, "idle": idle,
    "publish": publish, "full": full, "bare": bare,
}  # fmt: skip

if __name__ == "__main__":
    MODES[sys.argv[1]](*sys.argv[2:])
