"""Cluster files: what a program wants copied, as wants for the planner, and the copies of its plan with receipts."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ringrift.kernel import variant as variants
from ringrift.kernel.errors import NodeAway, NoRoom, TransferError, require_name
from ringrift.kernel.value import changed
from ringrift.node import Node
from ringrift.pipeline.copies import plan_nodes
from ringrift.pipeline.singles import needed_files
from ringrift.sync import ledger, receipts
from ringrift.sync.plan import Plan, PlannedTransfer, plan
from ringrift.sync.wants import Link, PlanNode, TransferClass, Want
from ringrift_compat import embedded_host
from ringrift_compat.embedded_node import EmbeddedNode
from ringrift_compat.types import BoardType

_KINDS: Mapping[str, tuple[str, ...]] = {
    "games": ("games",),
    "models": ("model",),
    "npz": ("samples",),
    "all": ("games", "model", "samples"),
}
"""The documented kinds of data, and ours."""
_ROUNDS_MAX = 1000


@dataclass(frozen=True)
class Selection:
    """Which files: of a kind, of a board or a variant, those that one node holds, or these."""

    data_type: str = "all"
    board_type: str | None = None
    num_players: int | None = None
    config_key: str | None = None
    source_node: str | None = None
    blobs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises UnknownName for a kind that is none, InvalidId for what is no variant."""
        require_name("data type", self.data_type, _KINDS)
        if self.config_key is not None:
            variants.parse(self.config_key)

    def fits(self, blob: str, kind: str, variant: str, holders: Collection[str]) -> bool:
        """Whether the file belongs to it."""
        if self.blobs:
            return blob in self.blobs
        own = variants.parse(variant)
        return (
            kind in _KINDS[self.data_type]
            and (self.board_type is None or _board(self.board_type) == own.board)
            and self.num_players in (None, own.players)
            and (self.config_key is None or variants.parse(self.config_key) == own)
            and (self.source_node is None or self.source_node in holders)
        )


def _board(name: object) -> str:
    """The board that *name*, perhaps a short one, stands for."""
    board = str(getattr(name, "value", name)).lower()
    with suppress(ValueError):  # or it is a board of the user's own workload
        board = BoardType(board).value
    return board


@dataclass
class ClusterFiles:
    """The files of a selection, who holds them, and the nodes and links that could carry them."""

    host: Node
    visitor: str
    """This program's node if it stands beside a coordinator: it goes with the program, and gets no copies."""
    files: dict[str, tuple[str, str]]
    """Kind and variant, by blob."""
    sizes: dict[str, int]
    holders: dict[str, set[str]]
    nodes: dict[str, PlanNode]
    links: Sequence[Link]

    def reachable(self) -> list[str]:
        """The nodes that can be reached, besides this one."""
        return [node.id for node in self.nodes.values() if node.reachable and node.id != self.host.node_id]

    def wants(self, transfer_class: TransferClass, *, target: str = "", copies: int = 0) -> list[Want]:
        """A want for each file."""
        blank = Want(blob="", kind="", transfer_class=transfer_class, target=target, copies=copies)
        rows = sorted(self.files.items())
        return [changed(blank, blob=b, kind=kind, variant=v, size=self.sizes.get(b, 0)) for b, (kind, v) in rows]

    def plan(self, wants: Sequence[Want]) -> Plan:
        """The plan for *wants*."""
        return plan(wants, self.holders, self.nodes, self.links, here=self.host.node_id)


async def read_cluster(
    node: EmbeddedNode, selection: Selection | None = None, exclude: Collection[str] = ()
) -> ClusterFiles:
    """The cluster as it is now, without the nodes of *exclude*."""
    selection, host = selection or Selection(), await embedded_host.open_host(node)
    async with host.store.read() as view:
        needed = await needed_files(view)
        needed |= {blob: needed.get(blob, ("model", selection.config_key or "")) for blob in selection.blobs}
        copies = await ledger.copies(view, needed)
    files = {blob: row for blob, row in needed.items() if selection.fits(blob, *row, copies[blob][0])}
    sizes, holders = {blob: copies[blob][1] for blob in files}, {blob: set(copies[blob][0]) for blob in files}
    records = [row for row in await host.roster.all_nodes() if row.has_files and row.id not in exclude]
    present = {row.id for row in await host.roster.present()}
    absent = {row.id for row in records if row.id not in present}
    away = await host.transfer.find_away({row.id for row in records}) | absent
    visitor = "" if host.node_id == node.settings.node.id else host.node_id
    return ClusterFiles(
        host, visitor, files, sizes, holders, plan_nodes(records, away), await host.transfer.find_links()
    )


@dataclass(frozen=True)
class CopyResult:
    """The end of one copy, by its receipt; true if the node has the file."""

    blob: str
    target_node: str
    source_node: str = ""
    transport_used: str = ""
    bytes_transferred: int = 0
    duration_seconds: float = 0.0
    cause: TransferError | None = field(default=None, repr=False)

    @property
    def success(self) -> bool:
        """Whether the node has the file; it may have had it before."""
        return self.cause is None

    @property
    def error(self) -> str:
        """Why it has not."""
        return str(self.cause or "")

    def __bool__(self) -> bool:
        return self.success


async def copy_file(host: Node, blob: str, target: str, **options: Any) -> CopyResult:
    """Bring one file to one node; *options* are those of :meth:`ringrift.sync.transfer.Transfer.copy`."""
    try:
        size = await host.transfer.copy(blob, target, **options)
    except TransferError as error:
        return CopyResult(blob, target, cause=error)
    async with host.store.read() as view:
        rows = [row for row in await receipts.receipts_of(view, blob) if row.node == target]
    if not size or not rows:
        return CopyResult(blob, target)  # it was there
    return CopyResult(blob, target, rows[0].source, rows[0].transport, rows[0].moved, rows[0].seconds)


async def copy_planned(host: Node, transfer: PlannedTransfer, rate: float = 0.0) -> CopyResult:
    """Make one copy of a plan."""
    options: dict[str, Any] = {"transfer_class": transfer.transfer_class, "routes": transfer.routes, "rate_max": rate}
    return await copy_file(host, transfer.blob, transfer.target, **options)


@dataclass
class Execution:
    """Copies for wants, each of at most *rate* bytes a second."""

    cluster: ClusterFiles
    rate: float = 0.0
    copies: list[CopyResult] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    async def run(self, wants: Sequence[Want], *, seconds: float, confirm: bool = False) -> None:
        """Plan and copy until every want is served or waits, for up to *seconds*.

        With *confirm* every node that should have a file is asked first and at the end, whatever the ledger lists.
        """
        try:
            async with asyncio.timeout(seconds):
                if confirm:
                    await self._confirm(wants)
                await self._copy_all(list(wants))
                if confirm:
                    await self._confirm(wants)
                    holders = self.cluster.holders
                    missing = [want for want in wants if want.target and want.target not in holders[want.blob]]
                    self.errors += [f"{want.blob[:12]}: node {want.target} does not confirm it" for want in missing]
        except TimeoutError:
            self.errors.append(f"not done within {seconds:g} s; what has arrived stays, and the next try goes on there")

    async def _confirm(self, wants: Sequence[Want]) -> None:
        cluster, reachable = self.cluster, set(self.cluster.reachable())
        for blob in dict.fromkeys(want.blob for want in wants):
            targets = [want.target for want in wants if want.blob == blob and want.target in reachable]
            cluster.holders[blob] = set(await cluster.host.transfer.find_holders(blob, targets))

    async def _copy_all(self, wants: list[Want]) -> None:
        for _ in range(_ROUNDS_MAX):
            current = self.cluster.plan(wants)
            if not current.transfers:
                self.errors += [f"{wait.want.blob[:12]}: {wait.verdict.rule}" for wait in current.waits]
                return
            results = await asyncio.gather(*map(self._copy, current.transfers))
            # What fails by its own fault is not tried again; what fails by its target's goes to another one.
            failed = {row.blob for row in results if not row and not isinstance(row.cause, NodeAway | NoRoom)}
            wants = [want for want in wants if want.blob not in failed]

    async def _copy(self, transfer: PlannedTransfer) -> CopyResult:
        nodes, result = self.cluster.nodes, await copy_planned(self.cluster.host, transfer, self.rate)
        if result:
            self.cluster.holders[result.blob].add(result.target_node)
            self.copies.append(result)
        else:
            self.errors.append(f"{result.blob[:12]} to {result.target_node}: {result.error}")
            if isinstance(result.cause, NodeAway | NoRoom):
                nodes[result.target_node] = changed(nodes[result.target_node], reachable=False)
        return result

    async def find_synced(self, wants: Sequence[Want]) -> list[str]:
        """Those of the targets that hold every file of the selection, by the ledger, and at least one by a receipt."""
        files, received = self.cluster.files, set[str]()
        async with self.cluster.host.store.read() as view:
            holders = {blob: set(await ledger.holders(view, blob)) for blob in files}
            for blob in files:
                received |= {row.node for row in await receipts.receipts_of(view, blob)}
        targets = {want.target for want in wants if want.target} | {row.target_node for row in self.copies}
        return sorted(node for node in targets & received if all(node in row for row in holders.values()))
