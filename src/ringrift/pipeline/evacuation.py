"""Evacuation: what only machines that may vanish hold is brought to a durable node.

What a machine can lose if it vanishes without notice: of every running job the work since its last checkpoint that has
left the machine.  A result is acknowledged when a durable node has it, so nothing acknowledged is lost.
"""

from collections.abc import Callable, Sequence

from ringrift.cluster.roster import NodeRecord, Roster
from ringrift.kernel.errors import TransferError
from ringrift.pipeline.singles import find_singles
from ringrift.store.ports import Store
from ringrift.sync.transfer import Transfer
from ringrift.sync.wants import TransferClass


class Evacuation:
    """Saves the files of the node *record*."""

    def __init__(self, record: NodeRecord, store: Store, roster: Roster, transfer: Transfer) -> None:
        self._record, self._store, self._roster, self._transfer = record, store, roster, transfer

    async def protect(self, blobs: Sequence[str], on_progress: Callable[[], None] = lambda: None) -> None:
        """Bring each of *blobs*, which are here, to a durable node; what none can take is left to later looks."""
        if self._record.ephemeral:
            for blob in blobs:
                await self._push(blob, on_progress)

    async def _push(self, blob: str, on_progress: Callable[[], None]) -> bool:
        """Whether a durable node or a hub has *blob* now."""
        peers = [node.id for node in await self._roster.present() if node.has_files and not node.ephemeral]
        hubs = [hub for hub, room in (await self._transfer.hubs.rooms()).items() if room]
        for target in (*sorted(set(peers) - {self._record.id}), *hubs):
            try:
                await self._transfer.copy(
                    blob, target, on_progress, self._record.id, transfer_class=TransferClass.URGENT
                )
            except TransferError:
                continue  # away, full, or the file is gone: the next one may take it
            return True
        return False

    async def save(self, checkpoints: Sequence[str] = ()) -> list[str]:
        """Bring what only machines that may vanish hold, and *checkpoints*, to a durable node; what is left here."""
        here = [node.id for node in await self._roster.present()]
        async with self._store.read() as view:
            rows = await find_singles(view, here)
        lasting = [] if self._record.ephemeral else [self._record.id]
        alone = [row.blob for row in rows if self._record.id in row.holders and row.durable + row.away <= len(lasting)]
        return [blob for blob in (*alone, *checkpoints) if not await self._push(blob, lambda: None)]
