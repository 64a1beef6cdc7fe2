"""Health of every node, from its heartbeats and from the open alerts about it.

A new observer has seen one beat of each node, perhaps an old one.  So a node is unknown until its beat has been seen to
move: unknown is not healthy.
"""

from collections.abc import Collection, Iterable, Sequence

from ringrift.cluster.alerts import Alert, open_alerts
from ringrift.cluster.roster import NodeRecord, Roster
from ringrift.kernel.health import Health, Status
from ringrift.kernel.value import Value
from ringrift.store.ports import Store

_Names = Collection[str]
_ALERT_STATUS = {
    "node_lost": Status.UNHEALTHY,
    "daemon": Status.UNHEALTHY,
    "quarantine": Status.DEGRADED,
    "data_corrupted": Status.DEGRADED,
}
"""Kinds of alert about a node → its status while one is open."""


class _Survey(Value):
    """The nodes and their health as of one moment."""

    nodes: tuple[NodeRecord, ...]  # also those that have left
    silent: frozenset[str]
    parts: tuple[Health, ...]  # the health of every node that has not left


class ClusterHealth:
    """Observes all nodes, and remembers which beats it has seen move."""

    def __init__(self, roster: Roster, store: Store) -> None:
        self._roster, self._store = roster, store
        self._first: dict[str, int] = {}
        self._moved: set[str] = set()

    async def survey(self) -> _Survey:
        nodes, silent = await self._roster.survey()
        async with self._store.read() as view:
            alerts = await open_alerts(view)
        present = [node for node in nodes if not node.gone]
        for node in present:
            if self._first.setdefault(node.id, node.beat) != node.beat:
                self._moved.add(node.id)
        self._first = {node.id: self._first[node.id] for node in present}
        self._moved &= self._first.keys()
        parts = judge(present, silent, self._moved, alerts, self._roster.silent_seconds_max)
        return _Survey(nodes=tuple(nodes), silent=frozenset(silent), parts=tuple(parts))


def judge(
    nodes: Iterable[NodeRecord], silent: _Names, moved: _Names, alerts: Sequence[Alert], seconds: float
) -> list[Health]:
    """The health of each of *nodes*: *silent* for *seconds*, or seen to have *moved*, with these open *alerts*."""
    by_node: dict[str, list[Alert]] = {}
    for alert in alerts:
        by_node.setdefault(alert.subject.split("/")[0], []).append(alert)
    return [_judge(node, node.id in silent, node.id in moved, by_node.get(node.id, ()), seconds) for node in nodes]


def _judge(node: NodeRecord, silent: bool, moved: bool, alerts: Sequence[Alert], seconds: float) -> Health:
    # A beat that this observer has seen move is newer than the alert that the node was lost.
    current = [alert for alert in alerts if alert.kind != "node_lost" or silent or not moved]
    parts = [*_from_beat(node, silent, moved, seconds), *filter(None, map(_from_alert, current))]
    if not parts:
        return Health(part=node.id, status=Status.HEALTHY)
    worst = min(part.status for part in parts)
    reasons = dict.fromkeys(part.reason for part in parts)
    since = min((part.since for part in parts if part.status is worst and part.since is not None), default=None)
    return Health(part=node.id, status=worst, reason="; ".join(reasons), since=since)


def _from_beat(node: NodeRecord, silent: bool, moved: bool, seconds: float) -> list[Health]:
    """The problems of *node* that its heartbeat shows."""
    if silent:
        reason = f"no heartbeat for {seconds:g} s: check that its machine runs and reaches the store"
        return [Health(part=node.id, status=Status.UNHEALTHY, reason=reason)]
    problems = []
    if not moved:
        problems.append((Status.UNKNOWN, "no heartbeat was observed yet"))
    if not node.activity.daemons.running:
        problems.append((Status.UNKNOWN, "reports no running daemon"))
    if failed := node.activity.daemons.failed:
        problems.append((Status.DEGRADED, f"daemons that failed and do not run: {', '.join(failed)}"))
    return [Health(part=node.id, status=status, reason=reason) for status, reason in problems]


def _from_alert(alert: Alert) -> Health | None:
    """The health that an open *alert* means for its node; None if it means none."""
    status = _ALERT_STATUS.get(alert.kind)
    if alert.kind == "health":
        status = Status.DEGRADED if alert.level == "minor" else Status.UNHEALTHY
    if status is None:
        return None
    what = alert.subject.partition("/")[2] or alert.kind
    return Health(part=alert.subject, status=status, reason=f"{what}: {alert.detail}", since=alert.since)
