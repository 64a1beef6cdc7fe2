"""Actor: another process on the same store, which runs one action and reports on its standard output."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable

import apsw

from ringrift.events.base import Envelope
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import RingriftError
from ringrift.kernel.failpoint import arm
from ringrift.kernel.settings import StoreSettings
from ringrift.store.open import only_coordinator, open_store
from ringrift.store.ports import Failure, Renewal, Store


def report(*words: object) -> None:
    """Write one line to the standard output."""
    sys.stdout.write(" ".join(str(word) for word in words) + "\n")
    sys.stdout.flush()


def wait_for_line() -> None:
    """Wait for a line on the standard input."""
    sys.stdin.readline()


async def claim(store: Store, node: str) -> None:
    """Claim until no job is left, and report the claimed jobs."""
    report("ready")
    wait_for_line()
    while True:
        async with store.begin() as tx:
            leases = await tx.claim(("play",), node, 30.0, 3)
        if not leases:
            return report("end")
        for lease in leases:
            report(lease.job)


async def append(store: Store, name: str, count: str) -> None:
    """Append events one by one, and report each position once it is acknowledged."""
    report("ready")
    wait_for_line()
    for number in range(int(count)):
        async with store.begin() as tx:
            [published] = await tx.append([Envelope(id=f"{name}-{number}", name="custom.published", body=b"{}")])
        report(published.position)
    report("end")


async def look(store: Store) -> None:
    """Report only that the store is open."""
    report("opened at", store.position)


async def die(store: Store, failpoint: str) -> None:
    """Append one event and die at a failpoint on the way."""
    arm(failpoint)
    async with store.begin() as tx:
        await tx.append([Envelope(id="last-words", name="custom.published", body=b"{}")])
    report("alive")


async def doze(store: Store, node: str) -> None:
    """Claim a job, wait for a line, and then try everything that a holder may do."""
    async with store.begin() as tx:
        [lease] = await tx.claim(("play",), node, 30.0, 1)
    report(lease.job, lease.fence)
    wait_for_line()
    renewal = Renewal(job=lease.job, fence=lease.fence)
    for verb in ("renew", "finish"):
        try:
            async with store.begin() as tx:
                await tx.append([Envelope(id=f"appended-at-{verb}", name="custom.published", body=b"{}")])
                await getattr(tx, verb)([renewal])
            report("accepted")
        except RingriftError as refused:
            report(type(refused).__name__)
    async with store.begin() as tx:
        ended = await tx.fail([Failure(job=renewal.job, fence=renewal.fence, error="late", pause=None)])
    report("ended", *ended)


async def nap(store: Store) -> None:
    """Stop inside a transaction, as Ctrl-Z would, and report how it ended after all."""
    try:
        async with store.begin() as tx:
            await tx.append([Envelope(id="before-the-nap", name="custom.published", body=b"{}")])
            report("inside")
            os.kill(os.getpid(), signal.SIGSTOP)
        report("committed")
    except RingriftError as refused:
        report(type(refused).__name__)
    async with store.begin() as tx:
        await tx.append([Envelope(id="after-the-nap", name="custom.published", body=b"{}")])
    report("awake")


PARTS: dict[str, Callable[..., Awaitable[None]]] = {
    "claim": claim,
    "append": append,
    "look": look,
    "die": die,
    "doze": doze,
    "nap": nap,
}


async def play(part: str, path: str, *words: str) -> None:
    """Open the store and play *part* on it."""
    busy = os.environ.get("BUSY_SECONDS_MAX")
    limits = {"tx_seconds_max": float(busy), "busy_seconds_max": float(busy)} if busy else {}
    settings = StoreSettings(path=path, **limits)
    async with open_store(settings, SystemClock()) as store:
        await PARTS[part](store, *words)


def make(path: str) -> None:
    """Open a store at the same moment as others do."""
    report("ready")
    wait_for_line()
    asyncio.run(play("append", path, "made", "0"))


def visit(path: str) -> None:
    """Open a store, and report the result."""
    try:
        asyncio.run(play("look", path))
    except RingriftError as refused:
        report(type(refused).__name__, refused)


def lead(path: str, holder: str) -> None:
    """Be the coordinator until a line arrives."""
    try:
        with only_coordinator(StoreSettings(path=path), holder):
            report("held")
            wait_for_line()
    except RingriftError as refused:
        report(type(refused).__name__, refused)


def hold(path: str) -> None:
    """Hold the lock of all writers until a line arrives."""
    db = apsw.Connection(path)
    db.execute("BEGIN IMMEDIATE")
    report("held")
    wait_for_line()
    db.execute("COMMIT")
    db.close()
    report("freed")


def age(path: str, version: str, mode: str) -> None:
    """Make the file look as if a newer version had written it."""
    db = apsw.Connection(path)
    db.pragma("journal_mode", mode)
    db.pragma("user_version", int(version))
    db.close()
    report("aged")


ALONE: dict[str, Callable[..., None]] = {"make": make, "visit": visit, "lead": lead, "hold": hold, "age": age}

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    if name in ALONE:
        ALONE[name](*arguments)
    else:
        asyncio.run(play(name, *arguments))
