"""The documented monitor of the cluster: every node, line, queue and alert of this home, read at every call."""

from dataclasses import dataclass

from ringrift.cluster.alerts import open_alerts
from ringrift.cluster.leadership import find_leader
from ringrift.pipeline.line import LINES
from ringrift_compat.embedded_node import EmbeddedNode, embedded
from ringrift_compat.health.node_health import (
    NodeHealthState,
    NodeMonitoringStatus,
    get_health_check_orchestrator,
    read_nodes,
)


@dataclass(frozen=True)
class ClusterStatus:
    """The cluster as of one moment."""

    leader: str | None
    """The node that leads; None if none does."""
    nodes: dict[str, NodeMonitoringStatus]
    variants: dict[str, str]
    """The stage of every line."""
    jobs: dict[str, int]
    """How many jobs there are in each state."""
    alerts: tuple[str, ...]

    @property
    def available_nodes(self) -> list[str]:
        """The nodes that do their work, perhaps worse than they should."""
        return sorted(id for id, status in self.nodes.items() if status.is_available)

    @property
    def healthy(self) -> bool:
        """Whether a node is there, every one that has not left is healthy, and no alert is open."""
        here = [status for status in self.nodes.values() if status.state is not NodeHealthState.RETIRED]
        return bool(here) and all(status.healthy for status in here) and not self.alerts


class ClusterMonitor:
    """The status of the cluster, for async code; it blocks no loop."""

    async def get_cluster_status(self) -> ClusterStatus:
        """Everything that is going on now.  A node is unknown until this program has seen its beat move."""
        return await embedded.post(_read(embedded.node()))

    async def get_node_status(self, node_id: str) -> NodeMonitoringStatus:
        """The health of one node, with what it does; waits for its next beat if none has moved yet."""
        return await get_health_check_orchestrator().check_node_health(node_id)


async def _read(node: EmbeddedNode) -> ClusterStatus:
    nodes, jobs = await read_nodes(node), dict[str, int]()
    async with node.store.read() as view:
        leader, lines, counts = await find_leader(view), await LINES.all(view), await view.count_jobs()
        alerts = await open_alerts(view)
    for (_, state), count in counts.items():
        jobs[state] = jobs.get(state, 0) + count
    texts = tuple(f"{alert.kind} {alert.subject}: {alert.detail}" for alert in alerts)
    return ClusterStatus(leader.node or None, nodes, {line.variant: line.stage.value for line in lines}, jobs, texts)
