"""Watches the disk of this node, and makes room in tiers before it is full."""

from collections.abc import Mapping, Sequence
from typing import Any

from ringrift.blobs.ports import Blobs, StoredBlob
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster.roster import Roster
from ringrift.daemons.sweep import sweep
from ringrift.events.data import Removed
from ringrift.events.node import DiskPressureChanged
from ringrift.kernel.clock import Clock
from ringrift.kernel.failpoint import failpoint
from ringrift.kernel.settings import Settings
from ringrift.kernel.transfer_settings import UpkeepSettings
from ringrift.kernel.value import changed
from ringrift.pipeline.spare_copies import choose_spare, find_candidates, find_proof, is_spare
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon
from ringrift.sync import ledger
from ringrift.sync.transfer import Transfer
from ringrift.work.disk_pressure import DISKS, NONE, DiskPressure, is_high, judge_disk, shorten

_AGAIN_SECONDS = 600.0  #: Between two attempts to make room: what may not go now may go later.
_SWEEPS_MAX = 20
_PAGE, _PAGES_MAX = 200, 50


class _LastRoom:
    """When room was made last, and at which level."""

    def __init__(self) -> None:
        self.level, self.tick, self.after = NONE, 0.0, ""


async def disk(
    *,
    store: Store,
    blobs: Blobs,
    roster: Roster,
    transfer: Transfer,
    envelopes: EnvelopeFactory,
    clock: Clock,
    settings: Settings,
    memory: _LastRoom,
) -> str:
    """Look once; the level.  Room is made when the level rises, and again after a while."""
    free, total = await blobs.room()
    if not total:
        return NONE  # there is no disk
    level = await _record(store, envelopes, clock.now(), free, total, settings.upkeep)
    is_due = level != memory.level or clock.tick() - memory.tick >= _AGAIN_SECONDS
    memory.level = level
    if level == NONE or not is_due:
        return level
    memory.tick, hurried = clock.tick(), changed(settings, sweep=shorten(settings.sweep, level))
    for _ in range(_SWEEPS_MAX):
        if await sweep(store=store, blobs=blobs, envelopes=envelopes, clock=clock, settings=hurried):
            break
    if is_high(level):
        parts: dict[str, Any] = {"store": store, "blobs": blobs, "transfer": transfer, "envelopes": envelopes}
        durable = [node.id for node in await roster.present() if node.has_files and not node.ephemeral]
        for _ in range(_PAGES_MAX):
            page = await blobs.page(memory.after, _PAGE)
            memory.after = page[-1].blob if len(page) == _PAGE else ""
            await _drop_spare(page, durable, hurried, clock.now(), **parts)
            if not memory.after:
                break
    return level


async def _record(
    store: Store, envelopes: EnvelopeFactory, now: float, free: int, total: int, settings: UpkeepSettings
) -> str:
    """The level now; written down, with an event if it has changed."""
    node = envelopes.node
    async with store.read() as view:
        row = await DISKS.get(view, node)
    before = NONE if row is None else row.level
    level = judge_disk(free, total, before, settings)
    if level != before:
        event = DiskPressureChanged(node=node, level=level, before=before, free_bytes=free, total_bytes=total)
        async with store.begin() as tx:
            row = DiskPressure(node=node, level=level, free_bytes=free, total_bytes=total, since=now)
            await DISKS.put(tx, [row])
            await tx.append([envelopes.make(event, source="disk")])
    return level


async def _drop_spare(
    page: Sequence[StoredBlob],
    durable: Sequence[str],
    settings: Settings,
    now: float,
    *,
    store: Store,
    blobs: Blobs,
    transfer: Transfer,
    envelopes: EnvelopeFactory,
) -> None:
    """Delete the spare copies of *page* that this node has: first the records, then the files, as a sweep does."""
    node, copies_min = envelopes.node, settings.replicas.copies_min
    async with store.read() as view:
        candidates = await find_candidates(view, page, settings.sweep, now) if page else []
        proofs = {row.blob: await find_proof(view, row.blob, node) for row in candidates}
    # Asked outside of the transaction: other nodes may take long to answer.
    answers: Mapping[str, set[str]] = {
        blob: set(await transfer.find_holders(blob, [])) & set(durable)
        for blob, (others, proven) in proofs.items()
        if is_spare(others, proven, durable, copies_min)
    }
    candidates = [row for row in candidates if row.blob in answers]
    if not candidates:
        return
    async with store.begin() as tx:
        rows = await find_candidates(tx, candidates, settings.sweep, now)
        spare = await choose_spare(tx, [row.blob for row in rows], node, answers, copies_min)
        sizes = {row.blob: row.size for row in rows if row.blob in spare}
        for blob in sizes:
            await ledger.forget(tx, blob, [node])
        event = Removed(node=node, blobs=tuple(sizes), count=len(sizes), bytes=sum(sizes.values()))
        await tx.append([envelopes.make(event, source="disk")] if sizes else [])
    failpoint("sweep.before_delete")
    stored_again = await blobs.delete(list(sizes), now)
    async with store.begin() as tx:
        await ledger.add(tx, [(blob, node, sizes[blob]) for blob in stored_again])


_SECONDS = "upkeep.disk_seconds"
SPEC = Daemon(
    name="disk", run=disk, memory=_LastRoom, every=_SECONDS, after=("beat",), seconds_max=900.0, category="resources"
)
