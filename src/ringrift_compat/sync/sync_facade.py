"""The documented facade of syncs: a request becomes wants of the planner, and its answer is read from receipts."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from ringrift.cli.data_files import store_file
from ringrift.events.data import PrioritySynced
from ringrift.kernel.errors import InputError, TransferError, UnknownName
from ringrift.kernel.ids import is_blob
from ringrift.pipeline.line import LINES
from ringrift.sync import ledger
from ringrift.sync.strategies import shape
from ringrift.sync.wants import TransferClass, Want
from ringrift.threads import to_its_end
from ringrift_compat import embedded_host
from ringrift_compat.embedded_node import EmbeddedNode, embedded
from ringrift_compat.health.protocols import HealthCheckResult
from ringrift_compat.sync.bandwidth_manager import BYTES_PER_MBIT, TransferPriority
from ringrift_compat.sync.cluster_files import ClusterFiles, Execution, Selection, read_cluster

_SECONDS = 300.0
_ERRORS_MAX = 20
_CANONICAL, _SUFFIX = "canonical_", ".pth"


class SyncBackend(Enum):
    """The ways to sync of the documents, each of which is a strategy of the planner."""

    AUTO_SYNC = "auto_sync"
    """Durable nodes get everything, machines that may vanish only models."""
    CLUSTER_SYNC = "cluster_data_sync"
    """Every node gets everything, before other transfers."""
    DISTRIBUTED = "distributed"
    """As the router, at the lowest class: it makes way for every other transfer."""
    EPHEMERAL = "ephemeral_sync"
    """Only what machines that may vanish hold alone, to a durable node, before all other transfers."""
    ROUTER = "router"
    """The nodes that were named, from the holders that are best for each."""


@dataclass
class SyncRequest:
    """What to copy, to whom, and how."""

    data_type: str = "all"
    targets: Sequence[str] | None = None
    """None: every node that the backend finds eligible."""
    board_type: str | None = None
    num_players: int | None = None
    priority: str = "normal"
    timeout_seconds: float = _SECONDS
    bandwidth_limit_mbps: float | None = None
    """For each copy."""
    exclude_nodes: Sequence[str] = ()
    """They neither get nor send files."""
    prefer_ephemeral: bool = False
    require_confirmation: bool = False
    """Every node that should have a file is asked, whatever is recorded."""
    config_key: str | None = None
    source_node: str | None = None
    """Only what this node holds."""
    blobs: tuple[str, ...] = ()


@dataclass
class SyncResponse:
    """What became of a request, by the receipts of the copies."""

    success: bool
    backend_used: SyncBackend
    nodes_synced: int = 0
    bytes_transferred: int = 0
    duration_seconds: float = 0.0
    errors: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)


class _Stats:
    """What the facade of one program has done."""

    def __init__(self, node: EmbeddedNode) -> None:
        self.by_backend, self.bytes, self.errors, self.last_error = Counter[str](), 0, 0, ""

    def add(self, response: SyncResponse) -> None:
        self.by_backend[response.backend_used.name.lower()] += 1
        self.bytes += response.bytes_transferred
        self.errors += not response.success
        self.last_error = "; ".join(response.errors[:1])


async def run_sync(
    node: EmbeddedNode,
    backend: SyncBackend,
    selection: Selection,
    demand: Callable[[ClusterFiles], tuple[list[Want], str]],
    *,
    exclude: Collection[str] = (),
    seconds: float = _SECONDS,
    rate: float = 0.0,
    confirm: bool = False,
) -> SyncResponse:
    """Copy what *demand* wants of the files of *selection*, unless it says why that cannot be done at all."""
    start, cluster = node.clock.tick(), await read_cluster(node, selection, exclude)
    wants, refusal = demand(cluster)
    execution = Execution(cluster, rate, errors=[refusal] if refusal else [])
    if not refusal:
        await execution.run(wants, seconds=seconds, confirm=confirm)
    synced = [] if refusal else await execution.find_synced(wants)
    copies, errors = execution.copies, execution.errors
    moved = sum(row.bytes_transferred for row in copies)
    response = SyncResponse(not errors, backend, len(synced), moved, node.clock.tick() - start, errors[:_ERRORS_MAX])
    response.details = {"files": len(cluster.files), "copies": len(copies), "nodes": synced}
    return response


def _choose_backend(request: SyncRequest, is_ephemeral: bool) -> SyncBackend:
    """The documented choice: ephemeral machines, then urgent requests, then named nodes, else automatic."""
    if request.prefer_ephemeral or is_ephemeral:
        return SyncBackend.EPHEMERAL
    if TransferPriority.parse(request.priority) >= TransferPriority.HIGH:
        return SyncBackend.CLUSTER_SYNC
    return SyncBackend.ROUTER if request.targets is not None else SyncBackend.AUTO_SYNC


def _wants(request: SyncRequest, backend: SyncBackend, cluster: ClusterFiles, now: float) -> list[Want]:
    transfer_class = TransferClass(TransferPriority.parse(request.priority).transfer_class)
    transfer_class = TransferClass.MIRROR if backend is SyncBackend.DISTRIBUTED else transfer_class
    if backend is SyncBackend.EPHEMERAL:
        return shape(cluster.wants(transfer_class, copies=1), "ephemeral", cluster.holders, cluster.nodes, now)[0]
    if request.targets is not None:
        return [
            want for target in dict.fromkeys(request.targets) for want in cluster.wants(transfer_class, target=target)
        ]
    eligible = [node for node in cluster.nodes.values() if node.reachable and node.id != cluster.visitor]
    wants = [(node, want) for node in eligible for want in cluster.wants(transfer_class, target=node.id)]
    if backend is SyncBackend.CLUSTER_SYNC:
        return [want for _, want in wants]
    return [want for node, want in wants if node.durable or want.kind == "model"]


class SyncFacade:
    """The entry point of syncs of this program."""

    async def sync(
        self, request: SyncRequest | str, backend: SyncBackend | None = None, **options: Any
    ) -> SyncResponse:
        """Copy what *request* asks for, by *backend* or the documented choice, and answer with what has arrived.

        Raises UnknownName, InvalidId or ValueError for a request that means nothing.
        """
        request = SyncRequest(data_type=request, **options) if isinstance(request, str) else request
        node = embedded.node()
        chosen = backend or _choose_backend(request, node.settings.node.ephemeral)
        _selection(request)
        return await embedded.post(self._sync(node, request, chosen))

    async def _sync(self, node: EmbeddedNode, request: SyncRequest, backend: SyncBackend) -> SyncResponse:
        def demand(cluster: ClusterFiles) -> tuple[list[Want], str]:
            return _wants(request, backend, cluster, node.clock.now()), _refuse(request, cluster)

        limits: dict[str, Any] = {"exclude": request.exclude_nodes, "confirm": request.require_confirmation}
        limits["rate"] = (request.bandwidth_limit_mbps or 0.0) * BYTES_PER_MBIT
        response = await run_sync(node, backend, _selection(request), demand, seconds=request.timeout_seconds, **limits)
        node.extension(_Stats).add(response)
        return response

    async def sync_games(self, config_key: str | None = None, **options: Any) -> SyncResponse:
        """Copy the games of a variant, or of all."""
        return await self.sync(SyncRequest("games", config_key=config_key, **options))

    async def sync_models(self, model_path: str | None = None, **options: Any) -> SyncResponse:
        """Copy one model, by its file, its SHA-256 or the documented path of a champion, or all that lines need."""
        if model_path is None:
            return await self.sync(SyncRequest("models", **options))
        try:
            blob = await embedded.post(_find_model(embedded.node(), model_path))
        except (InputError, UnknownName, TransferError, OSError) as error:
            return SyncResponse(False, SyncBackend.AUTO_SYNC, errors=[str(error)])
        return await self.sync(SyncRequest("models", blobs=(blob,), **options))

    async def trigger_priority_sync(
        self, reason: str, source_node: str | None = None, config_key: str | None = None, data_type: str = "games"
    ) -> SyncResponse:
        """Copy at once what *source_node* holds, before all other transfers, and publish how it ended."""
        request = SyncRequest(data_type, priority="critical", source_node=source_node, config_key=config_key)
        response = await self.sync(request)
        response.details["reason"] = reason
        await embedded.post(_report(embedded.node(), request, response))
        return response

    def get_stats(self) -> dict[str, Any]:
        """How many syncs this program made, by backend, their bytes, and how many of them had errors."""
        stats = embedded.node().extension(_Stats)
        counts = {"total_bytes": stats.bytes, "total_errors": stats.errors}
        return {"total_syncs": stats.by_backend.total(), "by_backend": dict(stats.by_backend), **counts}

    def health_check(self) -> HealthCheckResult:
        """Degraded if the last sync had an error."""
        stats = embedded.node().extension(_Stats)
        counts = {"operations_count": stats.by_backend.total(), "errors_count": stats.errors}
        problems = [stats.last_error] if stats.last_error else []
        return HealthCheckResult.from_problems(problems, **counts, backends_loaded=len(stats.by_backend))


async def _report(node: EmbeddedNode, request: SyncRequest, response: SyncResponse) -> None:
    """Publish how an urgent sync has ended."""
    event = PrioritySynced(
        success=response.success,
        node=request.source_node or "",
        variant=request.config_key or "",
        reason=response.details["reason"],
        node_count=response.nodes_synced,
        bytes=response.bytes_transferred,
        errors=tuple(response.errors),
    )
    await node.router.publish(event, source="sync_facade")


def _selection(request: SyncRequest) -> Selection:
    fields = ("board_type", "num_players", "config_key", "source_node", "blobs")
    return Selection(request.data_type, **{name: getattr(request, name) for name in fields})


def _refuse(request: SyncRequest, cluster: ClusterFiles) -> str:
    """Why nothing can be copied at all."""
    source = request.source_node
    if source is not None and not (source in cluster.nodes and cluster.nodes[source].reachable):
        return f"node {source} cannot be reached: see ringrift nodes"
    if not cluster.reachable():
        return "no other node can be reached: start one with ringrift join"
    nodes = {*cluster.reachable(), cluster.host.node_id}
    unknown = [target for target in request.targets or () if target not in nodes]
    return f"these nodes cannot be reached: {', '.join(unknown)}; see ringrift nodes" if unknown else ""


async def _find_model(node: EmbeddedNode, path: str) -> str:
    """The blob of a model.  A file that is not stored yet is, here.  Raises UnknownName, InputError, OSError."""
    if is_blob(path):
        return path
    file, host = Path(path), await embedded_host.open_host(node)
    if await to_its_end(None, file.is_file):
        blob = await store_file(host.blobs, file, 0, lambda size: None)
        size = (await to_its_end(None, file.stat)).st_size
        async with host.store.begin() as tx:
            await ledger.add(tx, [(blob, host.node_id, size)])
        return blob
    variant = file.name.removeprefix(_CANONICAL).removesuffix(_SUFFIX)
    async with node.store.read() as view:
        lines = await LINES.all(view)
    champions = {line.variant: line.champion for line in lines if line.champion}
    if file.name.startswith(_CANONICAL) and variant in champions:
        return champions[variant]
    raise UnknownName("model", path, [f"models/{_CANONICAL}{name}{_SUFFIX}" for name in champions])


_FACADE = SyncFacade()


def get_sync_facade() -> SyncFacade:
    """The facade of this program."""
    return _FACADE


async def sync(data_type: str, targets: Sequence[str] | None = None, **options: Any) -> SyncResponse:
    """Copy files of *data_type*, to all eligible nodes or to *targets*; *options* are fields of SyncRequest."""
    return await _FACADE.sync(SyncRequest(data_type, targets, **options))
