"""A store in a file, nodes with folders, and backups of both to a place."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from contract.engines import run
from ringrift.blobs.folder import FolderBlobs
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster.roster import NODES, NodeRecord
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import StoreSettings
from ringrift.store.epoch import StoreEpoch, read_epoch
from ringrift.store.open import open_store
from ringrift.store.ports import Store
from ringrift.sync import ledger
from ringrift.sync.backup import back_up
from ringrift.sync.backup_notes import Backup
from ringrift.sync.places import Place, open_place
from ringrift.sync.restore import Restoration, find_backup, restore

T = TypeVar("T")


class Rig:
    """A home with a store and nodes; *place* is an address."""

    def __init__(self, home: Path, place: str) -> None:
        self.home, self.address, self.clock = home, place, SystemClock()
        self.settings = StoreSettings(path=str(home / "coordination" / "coordinator.db"))
        self.envelopes = EnvelopeFactory("a", self.clock, Ids(self.clock, Random(7)))

    def place(self) -> Place:
        """The place, as a process that starts finds it."""
        return open_place(self.address)

    def folder(self, node: str) -> FolderBlobs:
        """The folder of *node*."""
        return FolderBlobs(self.home / "blobs" / node, node)

    async def add(self, store: Store, node: str, *datas: bytes) -> list[str]:
        """Let *node* hold these blobs, and the store list them."""
        folder = self.folder(node)
        await folder.open(is_new=True)
        record = NodeRecord(id=node, profile="full", address=str(folder.folder.root), beat=1, pid=1)
        names = list(await folder.put(datas))
        async with store.begin() as tx:
            await NODES.put(tx, [record])
        await ledger.correct(store, folder, node)
        return names

    async def back_up(self, store: Store, *, keep: int = 100, **options: Any) -> tuple[Backup, int]:
        """Make one backup."""
        parts = {"clock": self.clock, "rng": Random(), "envelopes": self.envelopes, "keep": keep}
        return await back_up(store, self.settings, self.place(), **parts, **options)

    async def restore(self, home: Path, backup: str | None = None, *, drill: bool = False) -> Restoration:
        """Restore a backup to *home*, whose node a gets the files."""
        settings = StoreSettings(path=str(home / "coordination" / "coordinator.db"))
        parts = {"clock": self.clock, "envelopes": self.envelopes, "node": "a", "drill": drill}
        found_backup = await find_backup(self.place(), backup)
        return await restore(
            self.place(), found_backup, settings, home / "blobs", **parts, on_progress=lambda done, total: None
        )

    def run(self, story: Callable[[Store], Awaitable[T]], home: Path | None = None) -> T:
        """Run *story* on the store of *home*, or of this one."""
        path = (home or self.home) / "coordination" / "coordinator.db"

        async def opened() -> T:
            async with open_store(StoreSettings(path=str(path)), self.clock) as store:
                return await story(store)

        return run(opened())


def files_at(place: Path) -> set[str]:
    """The names of the blobs in the folder of a place."""
    return {path.name for path in (place / "blobs").glob("??/*")}


async def epoch_of(store: Store) -> StoreEpoch | None:
    """The epoch of *store*."""
    async with store.read() as view:
        return await read_epoch(view)


async def holders(store: Store, *blobs: str) -> list[list[str]]:
    """The holders of each of *blobs*."""
    async with store.read() as view:
        return [await ledger.holders(view, blob) for blob in blobs]
