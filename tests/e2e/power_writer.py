"""Writes to a disk that may lose its power: events, files, or both in one batch, and reports each acknowledgement.

Arguments: the folder, ``events``, ``files``, ``batches`` or ``packs`` (files that are packed at once), a name, and
``step`` to wait for a line before each of them or the name of a failpoint at which to die.
"""

import asyncio
import math
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

from ringrift.blobs.folder import FolderBlobs
from ringrift.events.base import Envelope
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.failpoint import arm
from ringrift.kernel.settings import StoreSettings
from ringrift.store.open import open_store
from ringrift.store.ports import Store
from ringrift.store.records import Records

GAMES = Records("game_of_test", str)
STORE, BLOBS = "store.db", "blobs"
BYTES = 20_000


async def numbers(mode: str) -> AsyncIterator[int]:
    """The numbers of the things to write."""
    for number in range(1_000_000):
        if mode == "step" and not await asyncio.to_thread(sys.stdin.readline):
            return
        yield number


async def write_event(store: Store, id: str, blob: str = "") -> None:
    """Publish one event, and with *blob* the row of its file."""
    async with store.begin() as tx:
        await tx.append([Envelope(id=id, name="custom.published", body=b"{}")])
        await GAMES.put_at(tx, {id: blob} if blob else {})


async def pack(blobs: FolderBlobs) -> None:
    """Bring every file into a pack, and what is left of sparse ones."""
    names = [path.name for path in blobs.folder.root.glob("??/*")]
    await blobs.consolidate(names, math.inf, 1 << 26)


async def main(folder: Path, what: str, name: str, mode: str) -> None:
    """Write until the end of the input, or for ever."""
    blobs = FolderBlobs(folder / BLOBS)
    if mode not in ("step", "free") and what == "packs":
        arm(mode)
        await pack(blobs)
    if mode not in ("step", "free"):
        arm(mode)
    async with AsyncExitStack() as stack:
        store = None
        if what not in (
            "files",
            "packs",
        ):  # a store that is only opened flushes the disk, and with it what a file has forgotten
            settings = StoreSettings(path=str(folder / STORE))
            store = await stack.enter_async_context(open_store(settings, SystemClock()))
        async for number in numbers(mode):
            id, blob = f"{name}-{number}", ""
            if what != "events":
                [blob] = await blobs.put([(f"{id} " * BYTES).encode()[:BYTES]])
            if what == "packs":
                await pack(blobs)
            if store is not None:
                await write_event(store, id, blob)
            sys.stdout.write(f"{id} {blob}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
