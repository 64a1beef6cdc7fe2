"""Actor: another process on the same store, which does one thing and says so on its standard output."""

import asyncio
import sys
from collections.abc import Awaitable, Callable

import apsw

from ringrift.events.base import Envelope
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import RingriftError
from ringrift.kernel.failpoint import arm
from ringrift.kernel.settings import StoreSettings
from ringrift.store.open import only_coordinator, open_store
from ringrift.store.ports import Failure, Held, Store


def say(*words: object) -> None:
    """One line for who started us."""
    sys.stdout.write(" ".join(str(word) for word in words) + "\n")
    sys.stdout.flush()


def listen() -> None:
    """Wait for a line from who started us."""
    sys.stdin.readline()


async def claim(store: Store, node: str) -> None:
    """Claim until nothing is left, and say which jobs those were."""
    say("ready")
    listen()
    while True:
        async with store.begin() as tx:
            leases = await tx.claim(("play",), node, 30.0, 3)
        if not leases:
            return say("end")
        for lease in leases:
            say(lease.job)


async def append(store: Store, name: str, count: str) -> None:
    """Append one by one, and say each position once it is acknowledged."""
    say("ready")
    listen()
    for number in range(int(count)):
        async with store.begin() as tx:
            [told] = await tx.append([Envelope(id=f"{name}-{number}", name="custom.said", body=b"{}")])
        say(told.position)
    say("end")


async def look(store: Store) -> None:
    """Only say that it is open."""
    say("opened at", store.position)


async def die(store: Store, failpoint: str) -> None:
    """Append one event and die at a failpoint on the way."""
    arm(failpoint)
    async with store.begin() as tx:
        await tx.append([Envelope(id="last-words", name="custom.said", body=b"{}")])
    say("alive")


async def doze(store: Store, node: str) -> None:
    """Claim a job, wait for a line, and then try everything that a holder may do."""
    async with store.begin() as tx:
        [lease] = await tx.claim(("play",), node, 30.0, 1)
    say(lease.job, lease.fence)
    listen()
    mine = Held(job=lease.job, fence=lease.fence)
    for verb in ("renew", "finish"):
        try:
            async with store.begin() as tx:
                await tx.append([Envelope(id=f"said-at-{verb}", name="custom.said", body=b"{}")])
                await getattr(tx, verb)([mine])
            say("accepted")
        except RingriftError as refused:
            say(type(refused).__name__)
    async with store.begin() as tx:
        ended = await tx.fail([Failure(job=mine.job, fence=mine.fence, error="late", pause=None)])
    say("ended", *ended)


PARTS: dict[str, Callable[..., Awaitable[None]]] = {
    "claim": claim,
    "append": append,
    "look": look,
    "die": die,
    "doze": doze,
}


async def play(part: str, path: str, *words: str) -> None:
    """Open the store and play *part* on it."""
    async with open_store(StoreSettings(path=path), SystemClock()) as store:
        await PARTS[part](store, *words)


def make(path: str) -> None:
    """Open a store at the same moment as others do."""
    say("ready")
    listen()
    asyncio.run(play("append", path, "made", "0"))


def visit(path: str) -> None:
    """Open a store, and say what came of it."""
    try:
        asyncio.run(play("look", path))
    except RingriftError as refused:
        say(type(refused).__name__, refused)


def lead(path: str, holder: str) -> None:
    """Be the coordinator until told otherwise."""
    try:
        with only_coordinator(StoreSettings(path=path), holder):
            say("held")
            listen()
    except RingriftError as refused:
        say(type(refused).__name__, refused)


def hold(path: str) -> None:
    """Hold the lock of all writers until told otherwise."""
    db = apsw.Connection(path)
    db.execute("BEGIN IMMEDIATE")
    say("held")
    listen()
    db.execute("COMMIT")
    db.close()
    say("freed")


def age(path: str, version: str, mode: str) -> None:
    """Make the file look as if a newer version had written it."""
    db = apsw.Connection(path)
    db.pragma("journal_mode", mode)
    db.pragma("user_version", int(version))
    db.close()
    say("aged")


ALONE: dict[str, Callable[..., None]] = {"make": make, "visit": visit, "lead": lead, "hold": hold, "age": age}

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    if name in ALONE:
        ALONE[name](*arguments)
    else:
        asyncio.run(play(name, *arguments))
