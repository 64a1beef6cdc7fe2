"""The documented planner and scheduler of syncs: what the planner would copy now, and copying it."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ringrift.blobs.ports import BlobSummary
from ringrift.cluster.roster import NODES
from ringrift.kernel.value import changed
from ringrift.pipeline.copies import line_wants
from ringrift.pipeline.line import LINES
from ringrift.store.ports import Reads
from ringrift.sync import ledger
from ringrift.sync.plan import Plan, PlannedTransfer
from ringrift.sync.strategies import shape
from ringrift.sync.wants import TransferClass
from ringrift_compat import embedded_host
from ringrift_compat.embedded_node import EmbeddedNode, embedded
from ringrift_compat.sync.bandwidth_manager import TransferPriority
from ringrift_compat.sync.cluster_files import CopyResult, copy_planned, read_cluster

SyncPriority = TransferPriority
_PRIORITIES = {TransferClass(level.transfer_class): level for level in SyncPriority}
_PRIORITIES |= {TransferClass.SAMPLES: SyncPriority.HIGH}
_REASONS = {
    TransferClass.URGENT: "only machines that may vanish hold it",
    TransferClass.CHAMPION: "it is the champion",
    TransferClass.SAMPLES: "the next training reads it",
    TransferClass.SECOND: "it has too few copies",
    TransferClass.MIRROR: "a mirror lacks it",
}


@dataclass(frozen=True)
class SyncRecommendation:
    """A copy that should be made."""

    priority: TransferPriority
    blob: str
    data_type: str
    config_key: str
    source_nodes: tuple[str, ...]
    target_node: str
    size_bytes: int
    reason: str
    transfer: PlannedTransfer = field(repr=False)


@dataclass(frozen=True)
class SyncPlan:
    """Copies to make, in their order, and why others wait."""

    recommendations: tuple[SyncRecommendation, ...]
    waiting: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.recommendations)


async def _make_plan(node: EmbeddedNode, manifest: Mapping[str, Sequence[str]] | None = None) -> Plan:
    """The plan of the daemon "replicate" as it would be now; with *manifest*, if each node held exactly these files."""
    cluster = await read_cluster(node)
    if manifest is not None:
        cluster.holders = {blob: {id for id, blobs in manifest.items() if blob in blobs} for blob in cluster.files}
    async with node.store.read() as view:
        lines = await LINES.all(view)
    replicas = cluster.host.settings.replicas
    rows = [want for want in line_wants(lines, replicas) if cluster.holders.get(want.blob)]
    wants = [changed(want, size=cluster.sizes.get(want.blob, 0)) for want in rows]
    shaped, waits = shape(wants, replicas.strategy, cluster.holders, cluster.nodes, node.clock.now())
    result = cluster.plan(shaped)
    return changed(result, waits=(*result.waits, *waits))


def _recommend(transfer: PlannedTransfer) -> SyncRecommendation:
    sources = tuple(dict.fromkeys(route.source for route in transfer.routes))
    row, priority, reason = transfer, _PRIORITIES[transfer.transfer_class], _REASONS[transfer.transfer_class]
    facts = (priority, row.blob, row.kind, row.variant, sources, row.target, row.size, reason)
    return SyncRecommendation(*facts, transfer)


class SyncPlanner:
    """The manifests of the nodes, and plans from them."""

    def collect_manifests(self) -> dict[str, BlobSummary]:
        """Of every node how many files it holds, their bytes and a digest that is equal where the files are."""

        async def collect(view: Reads) -> dict[str, BlobSummary]:
            nodes = [row.id for row in await NODES.all(view) if row.has_files]
            rows = {id: await ledger.manifest_of(view, id) for id in nodes}
            return {id: row for id, row in rows.items() if row is not None}

        return embedded.query(collect)

    def generate_sync_plan(self, cluster_manifest: Mapping[str, Sequence[str]] | None = None) -> SyncPlan:
        """The copies to make now; with *cluster_manifest*, node → files, as if the nodes held exactly these."""
        current = embedded.call(_make_plan(embedded.node(), cluster_manifest))
        waiting = tuple(f"{wait.want.blob[:12]}: {wait.verdict.rule}" for wait in current.waits)
        return SyncPlan(tuple(_recommend(transfer) for transfer in current.transfers), waiting)

    async def execute_sync_plan(self, plan: SyncPlan) -> list[CopyResult]:
        """Make the copies of *plan*; a result for each, in their order."""
        return list(await asyncio.gather(*(execute_priority_sync(item) for item in plan.recommendations)))


def get_sync_recommendations(min_priority: TransferPriority = SyncPriority.LOW) -> list[SyncRecommendation]:
    """The copies that the planner would make now, the most urgent first."""
    return [item for item in SyncPlanner().generate_sync_plan().recommendations if item.priority >= min_priority]


async def execute_priority_sync(recommendation: SyncRecommendation) -> CopyResult:
    """Make one copy of the recommendations; a failure is a result, with its reason."""

    async def execute(node: EmbeddedNode) -> CopyResult:
        return await copy_planned(await embedded_host.open_host(node), recommendation.transfer)

    return await embedded.post(execute(embedded.node()))


class SyncCoordinator:
    """The copies that should be made, and making them; the documents call it the scheduler as well."""

    def get_recommendations(self, min_priority: TransferPriority = SyncPriority.LOW) -> list[SyncRecommendation]:
        """As :func:`get_sync_recommendations`."""
        return get_sync_recommendations(min_priority)

    async def run_once(self, min_priority: TransferPriority = SyncPriority.LOW) -> list[CopyResult]:
        """Make every copy that is recommended now."""
        items = await asyncio.to_thread(get_sync_recommendations, min_priority)
        return await SyncPlanner().execute_sync_plan(SyncPlan(tuple(items)))

    def get_status(self) -> dict[str, Any]:
        """How many copies are recommended, by priority."""
        items = get_sync_recommendations()
        counts = {level.name.lower(): sum(item.priority is level for item in items) for level in SyncPriority}
        return {"pending": len(items), "bytes": sum(item.size_bytes for item in items), "by_priority": counts}
