"""The health of nodes: their beats and the open alerts about them, in the documented states."""

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from ringrift.cluster.alerts import open_alerts
from ringrift.cluster.health import judge
from ringrift.cluster.roster import NodeRecord
from ringrift.kernel.health import Health, Status
from ringrift.kernel.verdict import Verdict
from ringrift.work.limits import QUARANTINES
from ringrift_compat.embedded_node import EmbeddedNode, embedded
from ringrift_compat.health.protocols import UNREAD, CoordinatorStatus, HealthCheckResult
from ringrift_compat.health.survey import SystemSurvey

_SURVEYS_PER_BEAT = 5
"""How often a check looks again while it waits for a beat to move."""


class NodeHealthState(StrEnum):
    """The health of a node."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"
    EVICTED = "evicted"
    """Quarantined: its results are not used."""
    UNKNOWN = "unknown"
    """Not in the roster, or this program has not seen its beat move yet."""
    OFFLINE = "offline"
    """Silent for several beats."""
    PROVIDER_DOWN = "provider_down"
    RETIRED = "retired"
    """It has left."""


_STATUSES = {
    NodeHealthState.HEALTHY: CoordinatorStatus.RUNNING,
    NodeHealthState.DEGRADED: CoordinatorStatus.DEGRADED,
    NodeHealthState.UNHEALTHY: CoordinatorStatus.ERROR,
    NodeHealthState.EVICTED: CoordinatorStatus.PAUSED,
}
"""The others count as stopped."""


@dataclass
class NodeMonitoringStatus(HealthCheckResult):
    """The health of a node: a result that is true only when the node is healthy, with its state."""

    node_id: str = ""
    state: NodeHealthState = NodeHealthState.UNKNOWN
    since: float | None = None
    """The time from which on it has been like this, where that is recorded."""

    @property
    def is_available(self) -> bool:
        """Whether it does its work, perhaps worse than it should."""
        return self.state in (NodeHealthState.HEALTHY, NodeHealthState.DEGRADED)

    @property
    def points(self) -> float:
        """1 for healthy, ½ for degraded, 0 for the rest."""
        return {NodeHealthState.HEALTHY: 1.0, NodeHealthState.DEGRADED: 0.5}.get(self.state, 0.0)


class _NodeSurvey:
    """Reads the health of all nodes for one program."""

    def __init__(self, node: EmbeddedNode) -> None:
        self._store, self._survey = node.store, node.extension(SystemSurvey)
        self._pause_seconds = node.settings.cluster.beat_seconds / _SURVEYS_PER_BEAT
        self._surveys_max = int(self._survey.roster.silent_seconds_max / self._pause_seconds) + 1

    async def read(self) -> dict[str, NodeMonitoringStatus]:
        """The health of every node that is in the roster."""
        survey = await self._survey.read_nodes()
        async with self._store.read() as view:
            verdicts, alerts = await QUARANTINES.scan(view), await open_alerts(view)
        parts = {health.part: health for health in judge(survey, alerts)}
        return {
            record.id: _status(record, parts.get(record.id), record.id in survey.silent, verdicts.get(record.id))
            for record in survey.nodes
        }

    async def settle(self, node_id: str) -> dict[str, NodeMonitoringStatus]:
        """As :meth:`read`, once the state of *node_id* is known or it has been silent for too long."""
        nodes = await self.read()
        for _ in range(self._surveys_max):
            if node_id not in nodes or nodes[node_id].state is not NodeHealthState.UNKNOWN:
                break
            await asyncio.sleep(self._pause_seconds)
            nodes = await self.read()
        return nodes


def _status(record: NodeRecord, health: Health | None, silent: bool, verdict: Verdict | None) -> NodeMonitoringStatus:
    reason = health.reason if health else "it has left" if record.gone else "its beat has not moved yet"
    if verdict is not None and "quarantine" not in reason:
        reason = "; ".join(filter(None, (reason, f"quarantine: {verdict.rule}")))
    doing = record.activity
    details = {
        "profile": record.profile,
        "address": record.address,
        "ephemeral": record.ephemeral,
        "jobs_running": len(doing.jobs) + doing.more,
        "jobs_finished": doing.finished,
        "jobs_failed": doing.failed,
        "daemons_running": doing.daemons.running,
        "daemons_failing": list(doing.daemons.failed),
    }
    state = _state(record, health, silent, verdict is not None)
    status = _make(record.id, state, reason)
    status.details, status.since = details, health.since if health else None
    return status


def _state(record: NodeRecord, health: Health | None, silent: bool, is_quarantined: bool) -> NodeHealthState:
    if record.gone:
        return NodeHealthState.RETIRED
    if silent:
        return NodeHealthState.OFFLINE
    status = health.status if health else Status.UNKNOWN
    if is_quarantined and status is not Status.UNHEALTHY:
        return NodeHealthState.EVICTED
    return NodeHealthState(status.name.lower())


def _make(node_id: str, state: NodeHealthState, message: str) -> NodeMonitoringStatus:
    healthy, status = state is NodeHealthState.HEALTHY, _STATUSES.get(state, CoordinatorStatus.STOPPED)
    return NodeMonitoringStatus(healthy, status, message, node_id=node_id, state=state)


async def read_nodes(node: EmbeddedNode) -> dict[str, NodeMonitoringStatus]:
    """The health of every node that is in the roster."""
    return await node.extension(_NodeSurvey).read()


async def _settle(node: EmbeddedNode, node_id: str) -> dict[str, NodeMonitoringStatus]:
    return await node.extension(_NodeSurvey).settle(node_id)


class HealthCheckOrchestrator:
    """The health of the nodes, read at every call.

    A record in the store may be old, so a node is unknown until its beat has been seen to move: the async check waits
    for that, the plain calls do not.
    """

    async def check_node_health(self, node_id: str) -> NodeMonitoringStatus:
        """The health of a node.  Waits for its next beat if none has moved yet, at most until it counts as silent."""
        try:
            nodes = await embedded.post(_settle(embedded.node(), node_id))
        except UNREAD as error:
            return _make(node_id, NodeHealthState.UNKNOWN, f"the store cannot be read: {error}")
        return nodes.get(node_id, _missing(node_id))

    def get_node_health(self, node_id: str) -> NodeMonitoringStatus:
        """The health of a node; unknown if it is not in the roster or the store cannot be read."""
        try:
            return self.get_all_node_health().get(node_id, _missing(node_id))
        except UNREAD as error:
            return _make(node_id, NodeHealthState.UNKNOWN, f"the store cannot be read: {error}")

    def get_all_node_health(self) -> dict[str, NodeMonitoringStatus]:
        """The health of every node that is in the roster.  Raises what reading the store raises."""
        return embedded.call(read_nodes(embedded.node()))

    def get_healthy_nodes(self) -> list[str]:
        """The ids of nodes that live and have no trouble.  Raises what reading the store raises."""
        return sorted(id for id, status in self.get_all_node_health().items() if status.healthy)

    def health_check(self) -> HealthCheckResult:
        """Healthy if there is a node and every one that has not left is healthy."""
        try:
            nodes = self.get_all_node_health().values()
        except UNREAD as error:
            return HealthCheckResult(False, CoordinatorStatus.ERROR, f"the store cannot be read: {error}")
        here = [status for status in nodes if status.state is not NodeHealthState.RETIRED]
        problems = [f"{status.node_id}: {status.message}" for status in here if not status.healthy]
        return HealthCheckResult.from_problems(problems if here else ["no node is running"])


def _missing(node_id: str) -> NodeMonitoringStatus:
    return _make(node_id, NodeHealthState.UNKNOWN, f"there is no node {node_id!r} in the roster: see  ringrift nodes")


@cache
def get_health_check_orchestrator() -> HealthCheckOrchestrator:
    """The nodes of this program's home."""
    return HealthCheckOrchestrator()


def get_node_health(node_id: str) -> NodeMonitoringStatus:
    """As :meth:`HealthCheckOrchestrator.get_node_health`."""
    return get_health_check_orchestrator().get_node_health(node_id)


def get_healthy_nodes() -> list[str]:
    """As :meth:`HealthCheckOrchestrator.get_healthy_nodes`."""
    return get_health_check_orchestrator().get_healthy_nodes()
