"""Restoration: the store and the files of a backup, verified, in an empty home.

Files come first and the store gets its name last, so an interrupted restoration is no home, and the next one goes on
where it was.  The store begins a new epoch: no lease, no role and no token that was given before counts in it.
"""

import hashlib
import os
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from ringrift.blobs.file_writer import flush_folder
from ringrift.blobs.folder import FolderBlobs
from ringrift.blobs.locks import opened
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster.keys import forget_tokens
from ringrift.cluster.roster import NODES
from ringrift.cluster.standby import require_own_place
from ringrift.events.cluster import Restored
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import Corrupt, InputError, StoreError, TransferError, UnknownName
from ringrift.kernel.failpoint import failpoint
from ringrift.kernel.folders import make_folder
from ringrift.kernel.settings import StoreSettings
from ringrift.kernel.value import Value, changed
from ringrift.store.epoch import StoreEpoch, put_epoch
from ringrift.store.open import begin_epoch, inspect_store, open_store, store_exists
from ringrift.store.ports import Store
from ringrift.sync import ledger
from ringrift.sync.backup import COPIES_AT_ONCE, OnProgress, list_names, run_all
from ringrift.sync.backup_notes import KIND, RESTORES, Backup, newest_epoch, read_backup, read_id, read_lists
from ringrift.sync.places import Place, reaching
from ringrift.threads import to_its_end

_PAGE = 500
_SMALL_BYTES_MAX, _GROUP_FILES = 1024 * 1024, 256  # files below that size are stored so many together


class Restoration(Value):
    """What was restored, and where."""

    backup: Backup
    epoch: int
    node: str  #: The node whose folder has all files.
    folder: str
    bytes: int
    is_noted: bool = True  #: Whether the place could note the epoch; if not, a second restoration would have the same.


async def find_backup(place: Place, id: str | None) -> Backup:
    """The backup *id*, or the newest one at *place*.  Raises UnknownName, InputError, PlaceAway."""
    with reaching(place):
        notes = {read_id(name)[1]: name for name in await place.notes(KIND)}
        if not notes:
            raise InputError(f"there is no backup at {place.address}")
        if id is not None and id not in notes:
            raise UnknownName("backup", id, notes)
        return await read_backup(place, notes[id] if id is not None else max(notes.values()))


async def restore(
    place: Place,
    backup: Backup,
    settings: StoreSettings,
    blobs: Path,
    *,
    clock: Clock,
    envelopes: EnvelopeFactory,
    node: str,
    drill: bool,
    on_progress: OnProgress,
) -> Restoration:
    """Restore *backup* to the empty home that *settings* and the folder *blobs* are of; *node* gets its files.

    A *drill* leaves no note at *place*.  Raises InputError if there is a store,
    StoreError, NoRoom, PlaceAway, and NoRoute or Corrupt for a file that *place* does not have as it was.
    """
    if store_exists(settings):
        raise InputError(f"there is a store at {settings.path}: move it away, or set RINGRIFT_HOME to an empty folder")
    folder = FolderBlobs(blobs / node, node)
    await folder.open(is_new=True)
    target = Path(settings.path)
    staged = changed(settings, path=str(target.with_name("restore.tmp")), view_seconds_max=3600.0)
    with reaching(place):
        epoch = max(backup.epoch, await newest_epoch(place)) + 1
        await _stage(place, backup, Path(staged.path))
        await begin_epoch(Path(staged.path), epoch)
        async with open_store(staged, clock) as store:
            size = await _bring(place, await read_lists(place, backup), folder, on_progress)
            await _rewrite(store, folder, node)
            await _conclude(store, staged, backup, epoch, clock, envelopes)
        is_noted = drill or await _note(place, epoch, envelopes.node)
    failpoint("restore.before_rename")
    await to_its_end(None, _rename, Path(staged.path), target)
    return Restoration(
        backup=backup,
        epoch=epoch,
        node=node,
        folder=str(blobs / node),
        bytes=size + backup.store_bytes,
        is_noted=is_noted,
    )


async def _stage(place: Place, backup: Backup, file: Path) -> None:
    """Bring the file of the store, and check it.  Raises Corrupt, StoreError, NoRoute."""
    make_folder(file.parent)
    for leftover in (file, *(file.with_name(f"{file.name}{suffix}") for suffix in ("-wal", "-shm", "-journal"))):
        leftover.unlink(missing_ok=True)
    digest = hashlib.sha256()
    with opened(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
        for blob in backup.pieces:
            async for chunk in place.read(blob):
                await to_its_end(None, digest.update, chunk)
                await to_its_end(None, os.write, descriptor, chunk)
        await to_its_end(None, os.fsync, descriptor)
    if digest.hexdigest() != backup.digest:
        raise Corrupt(backup.digest, f"{place.address}, the store of backup {backup.id}")
    checks = await to_its_end(None, inspect_store, StoreSettings(path=str(file)))
    for _, is_good, detail in checks:
        if not is_good:
            raise InputError(f"backup {backup.id} cannot be used: {detail}")


async def _bring(place: Place, names: Collection[str], folder: FolderBlobs, on_progress: OnProgress) -> int:
    """Bring *names* to *folder*, verified; their bytes.  What an earlier try has brought is hashed instead."""
    sizes, here = await list_names(place), await folder.have(names)
    whole = here.difference(await folder.verify(sorted(here)))
    total, done = (sum([sizes.get(name, 0) for name in group]) for group in (names, whole))
    waiting = iter(_groups(sorted(set(names) - whole), sizes))

    async def work() -> None:
        nonlocal done
        for group in waiting:
            if len(group) == 1:
                await folder.write(group[0], place.read(group[0]))
            elif lacks := set(group).difference(await folder.write_pack(_read_each(place, group))):
                raise Corrupt(min(lacks), place.address)
            done += sum([sizes.get(name, 0) for name in group])
            on_progress(done, total)

    await run_all(work() for _ in range(COPIES_AT_ONCE))
    return done


def _groups(names: Sequence[str], sizes: Mapping[str, int]) -> Iterator[Sequence[str]]:
    """Small files in groups, which are stored together, and every large one alone."""
    small = [name for name in names if sizes.get(name, _SMALL_BYTES_MAX) < _SMALL_BYTES_MAX]
    yield from (small[first : first + _GROUP_FILES] for first in range(0, len(small), _GROUP_FILES))
    yield from ([name] for name in sorted(set(names).difference(small)))


async def _read_each(place: Place, names: Sequence[str]) -> AsyncIterator[tuple[str, bytes]]:
    for name in names:
        yield name, b"".join([chunk async for chunk in place.read(name)])


async def _rewrite(store: Store, folder: FolderBlobs, node: str) -> None:
    """Let the ledger list exactly what *node* has now; other nodes are new when they start, with what they have."""
    async with store.read() as view:
        nodes = [row.id for row in await NODES.all(view) if row.has_files]
        listed = {other: sorted(await ledger.held_by(view, other)) for other in nodes if other != node}
    for other, blobs in listed.items():
        for first in range(0, len(blobs), _PAGE):
            async with store.begin() as tx:
                for blob in blobs[first : first + _PAGE]:
                    await ledger.forget(tx, blob, [other])
    await ledger.correct(store, folder, node)
    async with store.begin() as tx:
        await NODES.delete(tx, nodes)


async def _conclude(
    store: Store, settings: StoreSettings, backup: Backup, epoch: int, clock: Clock, envelopes: EnvelopeFactory
) -> None:
    """Begin the epoch: write it down, publish it, and let the store lie here."""
    now = clock.now()
    row = StoreEpoch(store=backup.store, number=epoch, backup=backup.id, time=now)
    event = Restored(backup=backup.id, epoch=epoch, position=backup.position, missing=backup.missing_count)
    async with store.begin() as tx:
        await put_epoch(tx, row)
        await forget_tokens(tx)
        await tx.append([envelopes.make(event, source="restore")])
    await require_own_place(store, settings, adopt=True)


async def _note(place: Place, epoch: int, node: str) -> bool:
    """Note at *place* that *epoch* has begun; False if it can only be read."""
    try:
        await place.write_note(RESTORES, f"{epoch:08d}", node.encode())
    except (TransferError, PermissionError):
        return False
    return True


def _rename(source: Path, target: Path) -> None:
    """Give the store its name, durably.  Raises StoreError if part of it is still in its log."""
    wal = source.with_name(f"{source.name}-wal")
    if wal.exists() and wal.stat().st_size:
        raise StoreError(f"{source} was not closed whole: try again")
    os.replace(source, target)
    flush_folder(target.parent)
