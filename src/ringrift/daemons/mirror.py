"""Keeps a verified copy of every file in a folder, such as that of a drive that is mounted at times.

The folder is a holder like the folder of a node, so that what is lost elsewhere is fetched from it; but it is no node:
nothing runs there, and its copies are none of those that every file should have.  While the drive is away nothing is
written below its mount point, and what it holds is not forgotten.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ringrift.blobs.folder import FolderBlobs
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster.roster import NODES, NodeRecord
from ringrift.daemons.sweep import sweep
from ringrift.events.alert import Cleared, Raised
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import NodeAway, NoRoom, NoRoute
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import Settings
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon
from ringrift.sync import ledger
from ringrift.sync.transfer import Transfer
from ringrift.sync.wants import TransferClass

_NODE, _ALERT = "mirror", "mirror"
_LOOK_SECONDS_MAX = 86_400.0  # the first copy of everything takes long


@dataclass
class _State:
    """What this process knows of the mirror."""

    next_sweep: float = 0.0
    is_corrected: bool = False  #: Whether the ledger was compared with what is there since it came back.
    problem: str | None = None  #: Of the open alert; None: not known yet.
    holdings: Mapping[str, str] = field(default_factory=dict)  #: By node the digest of its files when all were here.
    folder: FolderBlobs | None = None  #: The same for every look: it knows of calls that hang.


async def mirror(
    *,
    store: Store,
    settings: Settings,
    transfer: Transfer,
    clock: Clock,
    envelopes: EnvelopeFactory,
    ids: Ids,
    memory: _State,
) -> None:
    """Look once: bring what the mirror lacks, and at times delete what nothing needs and verify what is there."""
    if not settings.backup.mirror:
        return
    folder = memory.folder = memory.folder or _folder(settings)
    try:
        await _open(store, folder)
        if not memory.is_corrected:
            await ledger.correct(store, folder, _NODE)
            memory.is_corrected, memory.holdings = True, {}
        if clock.tick() >= memory.next_sweep:
            own = EnvelopeFactory(_NODE, clock, ids)
            if await sweep(store=store, blobs=folder, envelopes=own, clock=clock, settings=settings):
                memory.next_sweep = clock.tick() + settings.sweep.every_seconds
            memory.holdings = {}  # what was damaged is brought again
        unsent = await _bring(store, transfer, memory)
        problem = f"{unsent} files could not be brought: no node that is there has them" if unsent else ""
    except (NodeAway, NoRoom) as error:
        memory.is_corrected, problem = False, f"{error.args[0]}"
    await _report(store, envelopes, folder, memory, problem)


def _folder(settings: Settings) -> FolderBlobs:
    return FolderBlobs(Path(settings.backup.mirror).absolute(), _NODE)


async def _open(store: Store, folder: FolderBlobs) -> None:
    """Let the folder be the mirror if it is new to the store.  Raises NodeAway for a drive that is not mounted."""
    async with store.read() as view:
        record, listed = await NODES.get(view, _NODE), await ledger.some_of(view, _NODE)
    address = str(folder.folder.root)
    if record is not None and record.pid:
        raise NodeAway(_NODE, "a node has the name of the mirror: give it another (node.id)")
    await folder.open(is_new=record is None or record.address != address, listed=listed)
    if record is None or record.address != address:
        async with store.begin() as tx:
            await NODES.put(tx, [NodeRecord(id=_NODE, profile="minimal", address=address, beat=0, gone=True)])


async def _bring(store: Store, transfer: Transfer, memory: _State) -> int:
    """Bring what other nodes hold and the mirror does not; how many files could not be brought."""
    async with store.read() as view:
        nodes = [node.id for node in await NODES.all(view) if node.has_files and node.id != _NODE]
        summaries = {node: await ledger.manifest_of(view, node) for node in nodes}
        holdings = {node: row.digest for node, row in summaries.items() if row is not None}
        if holdings == memory.holdings and len(holdings) == len(nodes):
            return 0  # nothing has changed since everything was here
        rows = await ledger.scan_copies(view)
    unsent = 0
    for blob in sorted(rows):
        holders = rows[blob][0]
        if _NODE in holders or not set(nodes).intersection(holders):
            continue
        try:
            await transfer.copy(blob, _NODE, transfer_class=TransferClass.MIRROR)
        except NoRoute:
            unsent += 1
    memory.holdings = {} if unsent else holdings
    return unsent


async def _report(store: Store, envelopes: EnvelopeFactory, folder: FolderBlobs, memory: _State, problem: str) -> None:
    """Open, change or close the alert about the mirror, if that is something new."""
    if problem == memory.problem:
        return
    subject = str(folder.folder.root)
    event = Raised(kind=_ALERT, subject=subject, detail=problem) if problem else Cleared(kind=_ALERT, subject=subject)
    async with store.begin() as tx:
        await tx.append([envelopes.make(event, source="mirror")])
    memory.problem = problem


_EVERY: dict[str, Any] = {"every": "backup.mirror_seconds", "seconds_max": _LOOK_SECONDS_MAX}
SPEC = Daemon(name="mirror", run=mirror, role="mirror", memory=_State, category="sync", **_EVERY)
