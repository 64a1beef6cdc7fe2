"""Backups: the store as it is at one moment, and every file that it lists, at a place from which both can be restored.

The store is cut into pieces that are blobs like all others, so what has not changed since the last backup is not sent
again.  The note that names a backup is written last: one that was interrupted is none, and the next one goes on where
it was.  What was deleted by retention meanwhile is left out; what no node could send is named.
"""

import asyncio
import hashlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from ringrift import __version__
from ringrift.blobs.folder import FolderBlobs
from ringrift.blobs.locks import opened
from ringrift.blobs.ports import Blobs
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster.roster import NODES
from ringrift.events.cluster import BackedUp
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import Corrupt, InputError, NodeAway, NoRoute, TransferError
from ringrift.kernel.failpoint import failpoint
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import StoreSettings
from ringrift.kernel.value import Value
from ringrift.store.epoch import StoreEpoch, read_epoch, require_epoch
from ringrift.store.open import copy_store, only_backup, open_store
from ringrift.store.ports import Reads, Store
from ringrift.store.records import Records
from ringrift.sync import ledger
from ringrift.sync.backup_notes import KIND, Backup, newest_epoch, note_name, read_backup, read_lists, split_names
from ringrift.sync.places import Place, reaching, require_place
from ringrift.sync.receive import open_place
from ringrift.sync.shaper import Shaper
from ringrift.sync.wants import TransferClass
from ringrift.threads import to_its_end

_PIECE_BYTES = 4 * 1024 * 1024  # of the store; a change of one page sends so much again
COPIES_AT_ONCE = 4
_MISSING_LISTED = 1_000
_READ_SECONDS_MAX = 3600.0  # for the list of files of a large store
log = logging.getLogger(__name__)


class BackupRecord(Value):
    """The last backup of a store at a place, as the store remembers it."""

    place: str
    backup: str = ""  #: Empty: one was begun, so the place is known.
    time: float = 0.0


OnProgress = Callable[[int, int], None]  #: Bytes that were copied, and that are to be copied as far as is known.
_Fetch = Callable[[str], Awaitable[Blobs]]  #: Brings a blob to a folder here from where no folder can be read.
BACKUPS = Records("backup", BackupRecord, id="place")


async def back_up(
    store: Store,
    settings: StoreSettings,
    place: Place,
    *,
    clock: Clock,
    rng: Random,
    envelopes: EnvelopeFactory,
    keep: int,
    on_progress: OnProgress = lambda done, total: None,
    fetch: _Fetch | None = None,
    shaper: Shaper | None = None,
) -> tuple[Backup, int]:
    """Make one backup of *store* at *place*, and delete all but the newest *keep* there; it and the bytes sent for it.

    *fetch* is asked for what no folder has that can be read from here, *shaper* before anything is sent.
    Raises PlaceAway, NoRoom, StoreError, NotLeader while another backup runs, and InputError for the place of another
    store or of a later epoch of this one.
    """
    copy = Path(settings.path).with_name("backup.tmp")
    with reaching(place), only_backup(settings, "backup"):
        epoch = await require_epoch(store, rng)
        await _require_own(store, place, epoch)
        try:
            await copy_store(settings, copy)
            failpoint("backup.after_copy")
            sender = _Sender(place, set(await list_names(place)), on_progress, fetch, shaper)
            backup = await _send(sender, copy, store, epoch, clock, Ids(clock, rng).next())
        finally:
            copy.unlink(missing_ok=True)
        failpoint("backup.before_note")
        await place.write_note(KIND, note_name(backup), msgspec.json.encode(backup))
        async with store.begin() as tx:
            await BACKUPS.put(tx, [BackupRecord(place=place.address, backup=backup.id, time=backup.time)])
            facts = {"files": backup.files, "bytes": sender.bytes, "missing": backup.missing_count}
            event = BackedUp(place=place.address, backup=backup.id, **facts)
            await tx.append([envelopes.make(event, source="backup")])
        await _prune(place, keep)
    return backup, sender.bytes


async def _require_own(store: Store, place: Place, epoch: StoreEpoch) -> None:
    """Let *place* be one of this store.  Raises PlaceAway, InputError."""
    async with store.read() as view:
        record = await BACKUPS.get(view, place.address)
    await require_place(place, epoch.store, is_known=record is not None)
    newest = await newest_epoch(place)
    if newest > epoch.number:
        text = f"{place.address} has backups of epoch {newest} of this store, which was restored elsewhere"
        raise InputError(f"{text}; this one is of epoch {epoch.number}: use the restored one, or another place")
    if record is None:
        async with store.begin() as tx:
            await BACKUPS.put(tx, [BackupRecord(place=place.address)])


async def _prune(place: Place, keep: int) -> None:
    """Delete the notes of all backups but the newest *keep*, and then the blobs that none of those needs.

    While one of those is damaged no blob goes: nobody knows what it needs.
    """
    notes = await place.notes(KIND)
    for name in notes[:-keep]:
        await place.delete_note(KIND, name)
    needed = set[str]()
    try:
        for name in notes[-keep:]:
            backup = await read_backup(place, name)
            needed.update(backup.pieces, backup.lists, await read_lists(place, backup))
    except (InputError, Corrupt, NoRoute) as damage:
        log.warning("what older backups at %s need is not deleted: %s", place.address, damage)
        return
    failpoint("backup.before_prune")
    await place.delete((await list_names(place)).keys() - needed)


async def list_names(place: Place) -> dict[str, int]:
    """The names of all blobs at *place*, with their sizes."""
    names = dict[str, int]()
    async for page in place.names():
        names.update(page)
    return names


class _Sender:
    """Sends blobs to a place that has *names* already."""

    def __init__(
        self, place: Place, names: set[str], on_progress: OnProgress, fetch: _Fetch | None, shaper: Shaper | None
    ) -> None:
        self._place, self._names, self._on_progress, self._fetch = place, names, on_progress, fetch
        self._shaper, self.bytes, self._total = shaper, 0, 0

    async def put(self, data: bytes) -> str:
        """Send *data*, unless it is there; its name."""
        blob = await to_its_end(None, _digest, data)
        if blob not in self._names:
            self._add(await self._write(blob, _once(data)))
            self._names.add(blob)
        return blob

    async def copy_all(self, sources: Mapping[str, tuple[Sequence[Blobs], int]]) -> list[str]:
        """Send the blobs that are not there, each from the first source that can; those that none could send."""
        new, missing = sorted(sources.keys() - self._names), list[str]()
        self._total, waiting = self.bytes + sum([sources[blob][1] for blob in new]), iter(new)

        async def work() -> None:
            for blob in waiting:
                if not await self._copy(blob, sources[blob][0]):
                    missing.append(blob)

        await run_all(work() for _ in range(COPIES_AT_ONCE))
        return sorted(missing)

    async def _copy(self, blob: str, sources: Sequence[Blobs]) -> bool:
        for source in sources:
            if await self._send(blob, source):
                return True
        if self._fetch is None:
            return False
        try:
            source = await self._fetch(blob)
        except TransferError:
            return False
        return await self._send(blob, source)

    async def _send(self, blob: str, source: Blobs) -> bool:
        """Send *blob* from *source*; False if that has no good copy, or is away."""
        try:
            size = await self._write(blob, _read(source, blob))
        except _BadSource:
            return False
        self._names.add(blob)
        self._add(size)
        return True

    async def _write(self, blob: str, chunks: AsyncIterator[bytes]) -> int:
        """Write a blob as fast as the limits of bandwidth allow; its size."""
        async with open_place(self._shaper, self._place.address, TransferClass.MIRROR) as turn:

            async def paced() -> AsyncIterator[bytes]:
                async for chunk in chunks:
                    await turn.take(len(chunk))
                    yield chunk

            return await self._place.write(blob, paced())

    def _add(self, size: int) -> None:
        self.bytes += size
        self._on_progress(self.bytes, max(self._total, self.bytes))


async def run_all(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run *works* at once; the first error ends the others and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors


class _BadSource(Exception):
    """This holder has no good copy, or is away: another may send it."""


async def _read(source: Blobs, blob: str) -> AsyncIterator[bytes]:
    try:
        async for chunk in source.read(blob):
            yield chunk
    except (NoRoute, NodeAway, Corrupt) as error:
        raise _BadSource from error


async def _send(sender: _Sender, copy: Path, store: Store, epoch: StoreEpoch, clock: Clock, id: str) -> Backup:
    """Send the file of the store and what it lists; the note about both, which is yet to be written."""
    settings = StoreSettings(path=str(copy), view_seconds_max=_READ_SECONDS_MAX)
    async with open_store(settings, clock, existing=True) as opened_copy, opened_copy.read() as view:
        sources, position = await _sources(view), opened_copy.position
        assert (await read_epoch(view)) == epoch
    pieces, digest, size = list[str](), hashlib.sha256(), 0
    while data := await to_its_end(None, _read_piece, copy, size):
        await to_its_end(None, digest.update, data)
        pieces.append(await sender.put(data))
        size += len(data)
    unsent = await sender.copy_all(sources)
    names, missing = sorted(sources.keys() - set(unsent)), await _needed_still(store, unsent)
    lists = [await sender.put(part) for part in split_names(names)]
    return Backup(
        id=id,
        time=clock.now(),
        store=epoch.store,
        epoch=epoch.number,
        position=position,
        release=__version__,
        pieces=tuple(pieces),
        store_bytes=size,
        digest=digest.hexdigest(),
        lists=tuple(lists),
        files=len(names),
        missing=tuple(missing[:_MISSING_LISTED]),
        missing_count=len(missing),
    )


async def _sources(view: Reads) -> dict[str, tuple[list[Blobs], int]]:
    """Every blob that the ledger lists: the folders of those holders that have one, and its size if that is known."""
    folders = {node.id: FolderBlobs(node.address, node.id) for node in await NODES.all(view) if node.has_files}
    rows = await ledger.scan_copies(view)
    return {blob: ([folders[node] for node in nodes if node in folders], size) for blob, (nodes, size) in rows.items()}


async def _needed_still(store: Store, unsent: Sequence[str]) -> list[str]:
    """Those of *unsent* that a node holds by the ledger of now: the others were deleted by retention meanwhile."""
    async with store.read() as view:
        return [blob for blob in unsent if await ledger.holders(view, blob)]


def _read_piece(file: Path, offset: int) -> bytes:
    with opened(file, os.O_RDONLY) as descriptor:
        return os.pread(descriptor, _PIECE_BYTES, offset)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
