"""The documented health of nodes: what their beats and the open alerts about them show, with the documented states."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from ringrift.cluster.health import ClusterHealth
from ringrift.cluster.roster import NodeRecord, Roster
from ringrift.kernel.health import Health, Status, word
from ringrift.kernel.verdict import Verdict
from ringrift.work import quarantine
from ringrift_compat.ambient import Embedded, ambient
from ringrift_compat.health import UNREAD, CoordinatorStatus, HealthCheckResult

KEPT = "node_health"
LOOKS_PER_BEAT = 5
"""How often a check looks again while it waits for a beat to move."""


class NodeHealthState(StrEnum):
    """How a node is."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"
    EVICTED = "evicted"
    """Quarantined: its results are not believed."""
    UNKNOWN = "unknown"
    """Never seen, or no beat of it has moved under our eyes yet."""
    OFFLINE = "offline"
    """Silent for several beats."""
    PROVIDER_DOWN = "provider_down"
    RETIRED = "retired"
    """Said good-bye."""


_STATUSES = {
    NodeHealthState.HEALTHY: CoordinatorStatus.RUNNING,
    NodeHealthState.DEGRADED: CoordinatorStatus.DEGRADED,
    NodeHealthState.UNHEALTHY: CoordinatorStatus.ERROR,
    NodeHealthState.EVICTED: CoordinatorStatus.PAUSED,
}
"""The others do not run, as far as anybody knows."""


@dataclass
class NodeHealth(HealthCheckResult):
    """How a node is: a result that is true only when the node is healthy, with its state."""

    node_id: str = ""
    state: NodeHealthState = NodeHealthState.UNKNOWN
    since: float | None = None
    """From when on it has been like this, where somebody wrote it down."""

    @property
    def is_available(self) -> bool:
        """Whether it does its work, perhaps worse than it should."""
        return self.state in (NodeHealthState.HEALTHY, NodeHealthState.DEGRADED)

    @property
    def points(self) -> float:
        """1 for healthy, ½ for degraded, 0 for the rest."""
        return {NodeHealthState.HEALTHY: 1.0, NodeHealthState.DEGRADED: 0.5}.get(self.state, 0.0)

    @property
    def is_absent(self) -> bool:
        """Whether it said good-bye, so that nobody misses it."""
        return self.state is NodeHealthState.RETIRED


class Eyes:
    """Looks at all nodes for one program, and remembers between looks whose beat has moved."""

    def __init__(self, node: Embedded) -> None:
        self._store = node.store
        roster = Roster(node.store, node.clock, node.settings.cluster.beat_seconds)
        self._health = ClusterHealth(roster, node.store)
        self.patience_seconds = roster.patience_seconds
        self.pause_seconds = node.settings.cluster.beat_seconds / LOOKS_PER_BEAT
        self._one_at_a_time = asyncio.Lock()

    @classmethod
    def of(cls, node: Embedded) -> "Eyes":
        """Those of *node*.  To be called on the ambient loop."""
        found: Eyes = node.kept.get(KEPT) or node.kept.setdefault(KEPT, cls(node))
        return found

    async def look(self) -> dict[str, NodeHealth]:
        """How every node is that ever said something."""
        async with self._one_at_a_time:  # a look that was overtaken would take back what was seen
            seen = await self._health.survey()
        found = {health.part: health for health in seen.parts}
        async with self._store.read() as view:
            shut_out = await quarantine.everyone(view)
        return {
            one.id: _told(one, found.get(one.id), one.id in seen.silent, shut_out.get(one.id)) for one in seen.everyone
        }  # fmt: skip

    async def settle(self, node_id: str | None) -> dict[str, NodeHealth]:
        """As :meth:`look`, once it is known how the node is, or every node, or nobody can tell in time."""
        found = await self.look()
        for _ in range(int(self.patience_seconds / self.pause_seconds) + 1):
            asked = found.values() if node_id is None else [found[node_id]] if node_id in found else []
            if not any(one.state is NodeHealthState.UNKNOWN for one in asked):
                break
            await asyncio.sleep(self.pause_seconds)
            found = await self.look()
        return found


def _told(record: NodeRecord, health: Health | None, silent: bool, shut_out: Verdict | None) -> NodeHealth:
    state = _state(record, health, silent, shut_out is not None)
    reason = health.reason if health else "said good-bye" if record.gone else "no beat of it has been seen yet"
    if shut_out is not None and "quarantine" not in reason:
        reason = f"{reason}; quarantine: {shut_out.rule}" if reason else f"quarantine: {shut_out.rule}"
    doing = record.doing
    details = {
        "profile": record.profile, "address": record.address, "ephemeral": record.ephemeral,
        "jobs": [job.job for job in doing.jobs], "jobs_running": len(doing.jobs) + doing.more,
        "jobs_finished": doing.finished, "jobs_failed": doing.failed, "daemons_running": doing.daemons,
        "daemons_failing": list(doing.failing),
    }  # fmt: skip
    return _made(record.id, state, reason, details, health.since if health else None)


def _state(record: NodeRecord, health: Health | None, silent: bool, shut_out: bool) -> NodeHealthState:
    if record.gone:
        return NodeHealthState.RETIRED
    if silent:
        return NodeHealthState.OFFLINE
    status = health.status if health else Status.UNKNOWN
    if shut_out and status is not Status.UNHEALTHY:
        return NodeHealthState.EVICTED
    return NodeHealthState(status.name.lower())


def _made(
    node_id: str, state: NodeHealthState, message: str, details: Mapping[str, Any], since: float | None = None
) -> NodeHealth:
    return NodeHealth(
        healthy=state is NodeHealthState.HEALTHY, status=_STATUSES.get(state, CoordinatorStatus.STOPPED),
        message=message, details=dict(details), node_id=node_id, state=state, since=since,
    )  # fmt: skip


def _unread(node_id: str, wrong: Exception) -> NodeHealth:
    """A node of which nothing is known, because the store cannot be read."""
    return _made(node_id, NodeHealthState.UNKNOWN, f"the store cannot be read: {wrong}", {})


def _picked(node_id: str, found: Mapping[str, NodeHealth]) -> NodeHealth:
    if node_id in found:
        return found[node_id]
    return _made(node_id, NodeHealthState.UNKNOWN, "no node of this name has ever been seen in this home", {})


class HealthCheckOrchestrator:
    """How the nodes are, looked up at every question.

    A record in the store may be an old one, so a node is unknown until its beat has been seen to move: the async checks
    wait for that, the plain questions do not.
    """

    async def check_node_health(self, node_id: str) -> NodeHealth:
        """How a node is.  Waits for its next beat if none has been seen yet, at most as long as it may be silent."""
        try:
            node = ambient.node()
            return _picked(node_id, await ambient.post(_settled(node, node_id)))
        except UNREAD as unread:
            return _unread(node_id, unread)

    async def check_all_nodes(self) -> dict[str, NodeHealth]:
        """How every node is.  Waits as :meth:`check_node_health`; raises what reading the store raises."""
        node = ambient.node()
        return await ambient.post(_settled(node, None))

    def get_node_health(self, node_id: str) -> NodeHealth:
        """How a node is, as far as was seen; unknown if nobody knows it or the store cannot be read."""
        try:
            return _picked(node_id, self.get_all_node_health())
        except UNREAD as unread:
            return _unread(node_id, unread)

    def get_all_node_health(self) -> dict[str, NodeHealth]:
        """How every node is that ever said something.  Raises what reading the store raises."""
        node = ambient.node()
        return ambient.call(_looked(node))

    def get_nodes(self, *states: NodeHealthState) -> list[str]:
        """The names of the nodes in any of *states*.  Raises what reading the store raises."""
        return sorted(id for id, one in self.get_all_node_health().items() if one.state in states)

    def get_healthy_nodes(self) -> list[str]:
        """Nodes that were seen to live and have no trouble."""
        return self.get_nodes(NodeHealthState.HEALTHY)

    def get_degraded_nodes(self) -> list[str]:
        """Nodes that work worse than they should."""
        return self.get_nodes(NodeHealthState.DEGRADED)

    def get_available_nodes(self) -> list[str]:
        """Nodes that work, perhaps worse than they should."""
        return self.get_nodes(NodeHealthState.HEALTHY, NodeHealthState.DEGRADED)

    def get_unhealthy_nodes(self) -> list[str]:
        """Nodes that should be there and are not known to work: unknown is not healthy."""
        fine = {NodeHealthState.HEALTHY, NodeHealthState.DEGRADED, NodeHealthState.RETIRED}
        return self.get_nodes(*(state for state in NodeHealthState if state not in fine))

    def get_cluster_health_summary(self) -> dict[str, Any]:
        """How many nodes are in which state, and the cluster as one."""
        found = self.get_all_node_health()
        here = [one for one in found.values() if not one.is_absent]
        score = sum(one.points for one in here) / len(here) if here else 0.0
        counts = {state.value: sum(one.state is state for one in found.values()) for state in NodeHealthState}
        return {"total_nodes": len(here), "score": score, "status": word(score), **counts}

    def health_check(self) -> HealthCheckResult:
        """Healthy if every node that should be there is, and there is one."""
        try:
            found = self.get_all_node_health()
        except UNREAD as unread:
            return HealthCheckResult.unhealthy(f"the store cannot be read: {unread}")
        here = [(one.healthy, f"{one.node_id}: {one.message}") for one in found.values() if not one.is_absent]
        return HealthCheckResult.from_checks(here or [(False, "no node is there")])


async def _looked(node: Embedded) -> dict[str, NodeHealth]:
    return await Eyes.of(node).look()


async def _settled(node: Embedded, node_id: str | None) -> dict[str, NodeHealth]:
    return await Eyes.of(node).settle(node_id)


@cache
def get_health_check_orchestrator() -> HealthCheckOrchestrator:
    """The nodes of this program's home."""
    return HealthCheckOrchestrator()


def get_node_health(node_id: str) -> NodeHealth:
    """As :meth:`HealthCheckOrchestrator.get_node_health`."""
    return get_health_check_orchestrator().get_node_health(node_id)


def get_all_node_health() -> dict[str, NodeHealth]:
    """As :meth:`HealthCheckOrchestrator.get_all_node_health`."""
    return get_health_check_orchestrator().get_all_node_health()


def get_healthy_nodes() -> list[str]:
    """As :meth:`HealthCheckOrchestrator.get_healthy_nodes`."""
    return get_health_check_orchestrator().get_healthy_nodes()


def get_degraded_nodes() -> list[str]:
    """As :meth:`HealthCheckOrchestrator.get_degraded_nodes`."""
    return get_health_check_orchestrator().get_degraded_nodes()


def get_unhealthy_nodes() -> list[str]:
    """As :meth:`HealthCheckOrchestrator.get_unhealthy_nodes`."""
    return get_health_check_orchestrator().get_unhealthy_nodes()


def get_cluster_health_summary() -> dict[str, Any]:
    """As :meth:`HealthCheckOrchestrator.get_cluster_health_summary`."""
    return get_health_check_orchestrator().get_cluster_health_summary()
