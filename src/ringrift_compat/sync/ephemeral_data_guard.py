"""The documented guard of machines that may vanish: what only they hold is brought to a durable node."""

from ringrift.cluster.roster import NODES
from ringrift.kernel.errors import require_name
from ringrift.kernel.value import changed
from ringrift.pipeline.evacuation import Evacuation
from ringrift.sync.wants import TransferClass, Want
from ringrift.work.run_states import set_run_state
from ringrift_compat import embedded_host
from ringrift_compat.embedded_node import EmbeddedNode, embedded
from ringrift_compat.sync.cluster_files import ClusterFiles, Selection
from ringrift_compat.sync.sync_facade import SyncBackend, SyncResponse, run_sync

_SECONDS = 600.0
_DRAINING = "draining"


async def _save(node: EmbeddedNode, selection: Selection) -> SyncResponse:
    """Bring what the node of *selection* holds, or what only machines that may vanish hold, to a durable node."""
    leaving = selection.source_node

    def demand(cluster: ClusterFiles) -> tuple[list[Want], str]:
        nodes = cluster.nodes
        if leaving in nodes:
            nodes[leaving] = changed(nodes[leaving], durable=False)  # it goes, whatever it was
        durable = {row.id for row in nodes.values() if row.durable and row.reachable}
        cluster.files = {blob: row for blob, row in cluster.files.items() if not durable & cluster.holders[blob]}
        if cluster.files and not durable:
            return [], "no durable node can be reached: start one with ringrift join"
        return cluster.wants(TransferClass.URGENT, copies=1), ""

    return await run_sync(node, SyncBackend.EPHEMERAL, selection, demand, seconds=_SECONDS)


async def _checkpoint(node: EmbeddedNode) -> SyncResponse:
    host = await embedded_host.open_host(node)
    response = await _save(node, Selection("games"))
    left = await Evacuation(host.record, host.store, host.roster, host.transfer).save(host.runner.checkpoints)
    response.details["checkpoints"] = len(host.runner.checkpoints)
    response.errors += [f"{blob[:12]}: no durable node could take this checkpoint" for blob in left]
    response.success = not response.errors
    return response


async def _evacuate(node: EmbeddedNode, node_id: str, reason: str) -> SyncResponse:
    host = await embedded_host.open_host(node)
    async with host.store.begin() as tx:
        require_name("node", node_id, [row.id for row in await NODES.all(tx)])
        facts = {"scope": f"node:{node_id}", "state": _DRAINING, "reason": reason, "by": "request_evacuation"}
        await set_run_state(tx, node.envelopes, now=node.clock.now(), **facts)
    return await _save(node, Selection(source_node=node_id))


def checkpoint_games() -> SyncResponse:
    """Bring the games that only machines that may vanish hold, and checkpoints of running jobs, to a durable node."""
    return embedded.call(_checkpoint(embedded.node()))


def request_evacuation(node_id: str, reason: str = "it may vanish") -> SyncResponse:
    """Drain a node and bring everything that lines need of it elsewhere, at once.

    Its jobs end, and it gets no more until ``ringrift nodes uncordon``.  Raises UnknownName.
    """
    return embedded.call(_evacuate(embedded.node(), node_id, reason))
