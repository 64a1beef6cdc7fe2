"""The only place that knows which engine serves a store."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import LimitReached, NotLeader
from ringrift.kernel.settings import StoreSettings
from ringrift.store.sqlite import forks
from ringrift.store.sqlite.copies import copy_database, fence_off
from ringrift.store.sqlite.engine import SqliteStore
from ringrift.store.sqlite.files import file_place, lock_holder, only_one, write_lock_holder
from ringrift.store.sqlite.inspection import inspect_file
from ringrift.store.sqlite.reads import Offload
from ringrift.threads import to_its_end

_THREADS = 4
_PROGRAMS_MAX = 256  # workers of commands and other programs that may use one store at once


@asynccontextmanager
async def open_store(
    settings: StoreSettings,
    clock: Clock,
    *,
    engine: type[SqliteStore] = SqliteStore,
    offload: Offload | None = None,
    vfs: str | None = None,
    existing: bool = False,
) -> AsyncIterator[SqliteStore]:
    """Open the store of *settings*; an *existing* one is neither created nor migrated, and only read until it is used.

    *offload* and *vfs* are for the simulator: COMMIT inline, on a simulated disk.
    """
    with ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="store") as threads:
        store = engine(settings, clock, offload or partial(to_its_end, threads), vfs, existing=existing)
        committer = asyncio.get_running_loop().create_task(store.commit_forever(), name="store-commit")
        if vfs is None:
            forks.stores.add(store)
        try:
            yield store
        finally:
            await store.close(committer)


def only_coordinator(settings: StoreSettings, holder: str) -> AbstractContextManager[None]:
    """Be the only coordinator of this store while the body runs.  Raises NotLeader."""
    return only_one(_lock_of(settings), holder)


def find_coordinator(settings: StoreSettings) -> tuple[str, int] | None:
    """The coordinator of this store: its name and its process (0: of another container); None if there is none."""
    return lock_holder(_lock_of(settings))


def store_place(settings: StoreSettings) -> str:
    """Where this store lies.  It differs for a copy of its files."""
    return file_place(Path(settings.path))


def _lock_of(settings: StoreSettings) -> Path:
    return Path(settings.path).parent / "coordinator.lock"


def only_backup(settings: StoreSettings, holder: str) -> AbstractContextManager[None]:
    """Be the only one that backs up this store while the body runs.  Raises NotLeader."""
    return only_one(Path(settings.path).parent / "backup.lock", holder)


async def copy_store(settings: StoreSettings, target: Path) -> None:
    """Write the store as it is now to the file *target*; writers go on meanwhile.  Raises StoreError, NoRoom."""
    await to_its_end(None, copy_database, Path(settings.path), target)


async def begin_epoch(file: Path, epoch: int) -> None:
    """Let no lease and no role that was given before *epoch* count in the store *file*, which nobody has open."""
    await to_its_end(None, fence_off, file, epoch)


def take_program_number(settings: StoreSettings, holder: str, stack: AsyncExitStack) -> int:
    """The first number that no other living program of this store has, until *stack* ends.  Raises LimitReached."""
    for number in range(1, _PROGRAMS_MAX + 1):
        with suppress(NotLeader):
            stack.enter_context(only_one(Path(settings.path).parent / "programs" / f"{number}.lock", holder))
            return number
    raise LimitReached("this program", f"programs at {settings.path}", _PROGRAMS_MAX, _PROGRAMS_MAX)


def store_exists(settings: StoreSettings) -> bool:
    """Whether there is a store."""
    return Path(settings.path).exists()


def inspect_store(settings: StoreSettings) -> list[tuple[str, bool, str]]:
    """Check the store's engine and file: (subject, whether it is good, detail) each.  Creates nothing."""
    return inspect_file(Path(settings.path))


def find_writer(settings: StoreSettings) -> int | None:
    """The process that is writing to the store just now, if it is another one of this machine."""
    return write_lock_holder(Path(settings.path))
