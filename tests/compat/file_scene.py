"""Nodes with real folders, and lines whose files lie in them, on the store of the embedded node."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ringrift.blobs.folder import FolderBlobs
from ringrift.cluster.roster import NodeRecord
from ringrift.pipeline.line import LINES, Batch, Line, Stage
from ringrift.sync import ledger
from ringrift.sync.receipts import TRAFFIC, Receipt, receipts_of
from ringrift_compat import embedded_host
from ringrift_compat.embedded_node import embedded


class FileScene:
    """The node of this program, which is the coordinator, and others of this machine."""

    def __init__(self, root: Path, *others: str, ephemeral: Sequence[str] = ()) -> None:
        self.host = embedded.call(embedded_host.open_host(embedded.node()))
        self.folders = {self.host.node_id: self.host.blobs}
        for node in others:
            self.add_node(root / "nodes" / node, node, ephemeral=node in ephemeral)

    def add_node(self, folder: Path, node: str, **changes: Any) -> None:
        """Let a node join whose files are in *folder*."""
        blobs = FolderBlobs(folder, node)
        record = NodeRecord(id=node, profile="full", address=str(folder), beat=1)

        async def join() -> None:
            await blobs.open(is_new=True)
            await self.host.roster.put(msgspec.structs.replace(record, **changes))

        embedded.call(join())
        self.folders[node] = blobs

    def leave(self, node: str) -> None:
        """Let a node leave in good order; its folder stays."""
        record = NodeRecord(id=node, profile="full", address=str(self.folders[node].folder.root), beat=2, gone=True)
        embedded.call(self.host.roster.put(record))

    def put(self, data: bytes, *nodes: str) -> str:
        """A file that these nodes hold."""

        async def put() -> str:
            for node in nodes:
                [blob] = await self.folders[node].put([data])
                async with self.host.store.begin() as tx:
                    await ledger.add(tx, [(blob, node, len(data))])
            return blob

        return embedded.call(put())

    def open_line(
        self, variant: str = "hex8_2p", *, games: Sequence[str] = (), model: str = "", samples: str | None = None
    ) -> None:
        """A line that needs these files."""
        start: dict[str, Any] = {"workload": "fake", "players": 2, "stage": Stage.COLLECTING, "champion": model or None}
        window = tuple(Batch(blob=blob, games=10) for blob in games)
        line = Line(variant=variant, generation=0, tries=1, window=window, samples=samples, **start)

        async def write() -> None:
            async with embedded.node().store.begin() as tx:
                await LINES.put(tx, [line])

        embedded.call(write())

    def holders(self, blob: str) -> list[str]:
        """The nodes whose folders have a good copy of *blob*."""

        async def look() -> list[str]:
            holders = [node for node, blobs in self.folders.items() if await blobs.have([blob])]
            return sorted([node for node in holders if not await self.folders[node].verify([blob])])

        return embedded.call(look())

    def receipts(self, blob: str) -> Sequence[Receipt]:
        """The receipts of copies of *blob*."""
        return embedded.query(lambda view: receipts_of(view, blob))

    def received_bytes(self, node: str) -> int:
        """Bytes that *node* has received so far."""
        row = embedded.query(lambda view: TRAFFIC.get(view, node))
        return row.received_bytes if row is not None else 0
