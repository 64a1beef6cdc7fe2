"""The documented daemon of syncs, its strategies, and the router that says which way a file would take."""

from enum import StrEnum

from ringrift.sync.plan import PlannedTransfer, Route
from ringrift.sync.strategies import shape
from ringrift.sync.wants import TransferClass, Want
from ringrift_compat.daemons.runners import DaemonRunner
from ringrift_compat.daemons.types import DaemonType
from ringrift_compat.embedded_node import EmbeddedNode, embedded
from ringrift_compat.sync.cluster_files import ClusterFiles, Selection, read_cluster
from ringrift_compat.sync.sync_facade import SyncBackend, SyncResponse, get_sync_facade, run_sync

_BACKENDS = {"ephemeral": SyncBackend.EPHEMERAL, "broadcast": SyncBackend.CLUSTER_SYNC}


class SyncStrategy(StrEnum):
    """The strategies of the planner."""

    HYBRID = "hybrid"
    EPHEMERAL = "ephemeral"
    BROADCAST = "broadcast"
    PULL = "pull"
    AUTO = "auto"


class AutoSyncDaemon(DaemonRunner):
    """The daemon AUTO_SYNC, which follows the setting ``replicas.strategy``; one look can follow another strategy."""

    default = DaemonType.AUTO_SYNC

    def __init__(self, strategy: SyncStrategy | str | None = None) -> None:
        """Raises ValueError for a strategy that is none."""
        super().__init__()
        own = embedded.node().settings.replicas.strategy
        self.strategy = SyncStrategy((strategy or own).lower())

    async def sync_now(self, config_key: str | None = None, data_type: str = "all") -> SyncResponse:
        """Copy once what the strategy asks for, of one variant or of all; the answer is read from receipts."""
        node, name, selection = embedded.node(), self.strategy.value, Selection(data_type, config_key=config_key)

        def demand(cluster: ClusterFiles) -> tuple[list[Want], str]:
            wants = cluster.wants(TransferClass.SECOND, copies=node.settings.replicas.copies_min)
            return shape(wants, name, cluster.holders, cluster.nodes, node.clock.now())[0], ""

        backend = _BACKENDS.get(name, SyncBackend.AUTO_SYNC)
        response = await embedded.post(run_sync(node, backend, selection, demand))
        response.details["strategy"] = name
        return response

    async def trigger_urgent_sync(self, config_key: str) -> SyncResponse:
        """Bring the games of a variant to every node at once, before all other transfers."""
        return await get_sync_facade().trigger_priority_sync("urgent", config_key=config_key)


class SyncRouter:
    """Which way files would take: the best holder and transport first."""

    def get_routes(self, blob: str, target: str) -> tuple[Route, ...]:
        """The ways by which *blob* would come to *target*, in order; none if it is there or cannot be brought."""
        transfers = embedded.call(self._plan(embedded.node(), blob, target))
        return next((row.routes for row in transfers if row.target == target), ())

    def get_targets(self, blob: str, copies: int) -> list[str]:
        """The nodes that would get *blob* so that *copies* of them hold it."""
        return [row.target for row in embedded.call(self._plan(embedded.node(), blob, "", copies))]

    async def _plan(self, node: EmbeddedNode, blob: str, target: str, copies: int = 0) -> tuple[PlannedTransfer, ...]:
        cluster = await read_cluster(node, Selection(blobs=(blob,)))
        return cluster.plan(cluster.wants(TransferClass.SECOND, target=target, copies=copies)).transfers
