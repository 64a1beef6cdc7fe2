"""The only place that knows which engine serves a store."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from ringrift.kernel.clock import Clock
from ringrift.kernel.settings import StoreSettings
from ringrift.store.sqlite.engine import Offload, SqliteStore
from ringrift.store.sqlite.files import holder_of, only_one
from ringrift.store.sqlite.inspect import inspect_file
from ringrift.threads import to_its_end

THREADS = 4
COORDINATOR_LOCK = "coordinator.lock"


@asynccontextmanager
async def open_store(
    settings: StoreSettings, clock: Clock, *, engine: type[SqliteStore] = SqliteStore,
    offload: Offload | None = None, vfs: str | None = None,
) -> AsyncIterator[SqliteStore]:  # fmt: skip
    """The store of *settings*.  *offload* and *vfs* are the simulator's: COMMIT inline, on a simulated disk."""
    with ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="store") as threads:
        loop = asyncio.get_running_loop()

        async def in_thread(call: Any, *args: Any) -> Any:
            return await to_its_end(threads, call, *args)

        store = engine(settings, clock, offload or in_thread, vfs)
        committer = loop.create_task(store.commit_forever(), name="store-commit")
        if vfs is None:
            store.listen()
        try:
            yield store
        finally:
            await store.close(committer)


def only_coordinator(settings: StoreSettings, holder: str) -> AbstractContextManager[None]:
    """Be the only coordinator of this store while the body runs.  Raises NotLeader."""
    return only_one(Path(settings.path).parent / COORDINATOR_LOCK, holder)


def coordinator_of(settings: StoreSettings) -> str | None:
    """Who is the coordinator of this store now, as it called itself; None if nobody is.  Makes nothing.

    A coordinator that is there is not touched.  Where there is none, the lock is shared for a moment, in which one that
    starts would be refused.
    """
    return holder_of(Path(settings.path).parent / COORDINATOR_LOCK)


def only_program(settings: StoreSettings, number: int, holder: str) -> AbstractContextManager[None]:
    """Have the place *number* among the programs of this store while the body runs.  Raises NotLeader."""
    return only_one(Path(settings.path).parent / "programs" / f"{number}.lock", holder)


def inspect_store(settings: StoreSettings) -> list[tuple[str, bool, str]]:
    """What a person should know about the store's engine and place: (what, good, found).  Makes nothing."""
    return inspect_file(Path(settings.path))
