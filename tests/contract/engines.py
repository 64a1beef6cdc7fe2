"""Engines: every way in which a store can be opened, behind one small class, and the values that the tests put in."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ringrift.events.base import Envelope
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.settings import StoreSettings
from ringrift.sim.disk import Disk
from ringrift.store.open import open_store
from ringrift.store.ports import Delivery, JobRequest, JobRow, Lease, Put, Renewal, Store

T = TypeVar("T")
STORY_SECONDS_MAX = 20.0
EVERY_STATE = ("ready", "claimed", "done", "dead", "cancelled")


class ManualClock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def now(self) -> float:
        return 1_700_000_000.0 + self.seconds

    def tick(self) -> float:
        return self.seconds


async def inline(call: Callable[..., Any], *args: Any) -> Any:
    """Run a blocking call on the loop's own thread, as the simulator does."""
    return call(*args)


def run(story: Awaitable[T]) -> T:
    """Run *story* to its end, which must come in time."""

    async def in_time() -> T:
        async with asyncio.timeout(STORY_SECONDS_MAX):
            return await story

    return asyncio.run(in_time())


class Door:
    """A gate before the store's COMMITs: counts them, and holds them back while it is shut."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.opened.set()
        self.commits = 0

    async def offload(self, call: Callable[..., Any], *args: Any) -> Any:
        """Run *call* here, a COMMIT only while the gate is open."""
        if args == ("COMMIT",):
            await self.opened.wait()
            self.commits += 1
        return call(*args)


async def settle() -> None:
    """Let everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


@dataclass(frozen=True)
class Engine:
    """One way to open a store: a file and threads, or a lossy disk and none.  Opening again finds what was there."""

    path: Path
    disk: Disk | None = None

    def open(
        self, *, offload: Callable[..., Awaitable[Any]] | None = None, **changes: Any
    ) -> AbstractAsyncContextManager[Store]:
        """The store, with these *changes* to its settings and perhaps another way to get off the loop."""
        settings = StoreSettings(path=str(self.path), **changes)
        if self.disk is None:
            return open_store(settings, SystemClock(), offload=offload)
        return open_store(settings, SystemClock(), offload=offload or inline, vfs=self.disk.name)

    def run(self, story: Callable[[Store], Awaitable[T]], **changes: Any) -> T:
        """Open the store, run *story* on it, and close it."""

        async def opened() -> T:
            async with self.open(**changes) as store:
                return await story(store)

        return run(opened())


def envelope(id: str, body: bytes = b"{}", name: str = "custom.published") -> Envelope:
    """An event for the log."""
    return Envelope(id=id, name=name, body=body, time=7.0, node="n", source="s", correlation=id, trace=id)


def new_job(id: str, **changes: Any) -> JobRequest:
    """A job to be enqueued, for its own key unless *changes* set another."""
    return JobRequest(**{"id": id, "kind": "play", "variant": "hex8_2p", "key": f"key:{id}", "body": b"{}"} | changes)


def renewal(lease: Lease) -> Renewal:
    """The holder's renewal of *lease*."""
    return Renewal(job=lease.job, fence=lease.fence)


def delivery(reader: str, position: int, state: str = "parked", **changes: Any) -> Delivery:
    """A failed delivery."""
    usual = {"attempts": 1, "pause": 60.0, "error": "ValueError: no", "first": 1.0, "last": 1.0}
    return Delivery(**{"reader": reader, "position": position, "state": state} | usual | changes)


async def append(store: Store, *ids: str) -> Sequence[Envelope]:
    """Append one event for each of *ids*."""
    async with store.begin() as tx:
        return await tx.append([envelope(id) for id in ids])


async def enqueue(store: Store, *jobs: JobRequest) -> Sequence[str]:
    """Enqueue *jobs*."""
    async with store.begin() as tx:
        return await tx.enqueue(jobs)


async def claim(store: Store, holder: str = "n", limit: int = 1, kinds: Sequence[str] = ("play",)) -> Sequence[Lease]:
    """Lease jobs in a transaction of its own."""
    async with store.begin() as tx:
        return await tx.claim(kinds, holder, 30.0, limit)


async def logged(store: Store, after: int = 0) -> list[str]:
    """The ids of all events in the log after *after*."""
    async with store.read() as view:
        return [e.id for e in await view.read(after, 10_000)]


async def job(store: Store, id: str) -> JobRow:
    """One job as it is now."""
    async with store.read() as view:
        [row] = [row for row in await view.jobs(EVERY_STATE, 10_000) if row.id == id]
    return row


async def put(store: Store, kind: str, id: str, body: bytes = b"x") -> None:
    """Write a record in a transaction of its own."""
    async with store.begin() as tx:
        await tx.put([Put(kind=kind, id=id, body=body)])


async def recorded(store: Store, kind: str) -> list[str]:
    """The ids of all records of *kind*."""
    async with store.read() as view:
        return list(await view.scan(kind, "", 10_000))
