"""Health of the cluster: how every node is, from its beats and from the trouble that is written down about it.

Whoever has only begun to look has seen one beat of each node, which may be an old one.  So a node is unknown until its
beat has moved under our eyes: unknown is not healthy.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from ringrift.cluster.alerts import Alert, open_alerts
from ringrift.cluster.roster import NodeRecord, Roster
from ringrift.kernel.health import Health, Status, whole
from ringrift.kernel.value import Value
from ringrift.store.ports import Store

DEGRADING = frozenset({"quarantine", "data_corrupted"})
"""Kinds of alert about a node that leave it working."""
SPOILING = frozenset({"node_lost", "daemon"})
"""Kinds of alert about a node that mean that it does not do its duties."""


class Survey(Value):
    """What one look has found."""

    everyone: tuple[NodeRecord, ...]
    """Also those that have said good-bye."""
    silent: frozenset[str]
    parts: tuple[Health, ...]
    """How every node is that has not said good-bye."""


class ClusterHealth:
    """Looks at all nodes, and remembers whose beat it has seen to move."""

    def __init__(self, roster: Roster, store: Store) -> None:
        self._roster, self._store = roster, store
        self._first: dict[str, int] = {}
        self._moved: set[str] = set()

    async def look(self) -> Sequence[Health]:
        """How every node is that has not said good-bye."""
        return (await self.survey()).parts

    async def survey(self) -> Survey:
        """As :meth:`look`, with what that was judged from."""
        everyone, silent = await self._roster.look()
        async with self._store.read() as view:
            alerts = await open_alerts(view)
        here = [node for node in everyone if not node.gone]
        for node in here:
            if self._first.setdefault(node.id, node.beat) != node.beat:
                self._moved.add(node.id)
        self._first = {node.id: self._first[node.id] for node in here}
        self._moved &= self._first.keys()
        parts = judge(here, silent, self._moved, alerts, self._roster.patience_seconds)
        return Survey(everyone=tuple(everyone), silent=frozenset(silent), parts=tuple(parts))

    async def whole(self) -> Health:
        """How the cluster is, as one."""
        return whole("cluster", await self.look())


def judge(
    everyone: Iterable[NodeRecord], silent: Collection[str], moved: Collection[str], alerts: Sequence[Alert],
    seconds: float,
) -> list[Health]:  # fmt: skip
    """How each node of *everyone* is: *silent* for *seconds*, or seen to have *moved*, with these open *alerts*."""
    about: dict[str, list[Alert]] = {}
    for alert in alerts:
        about.setdefault(alert.subject.split("/")[0], []).append(alert)
    return [_judge(node, node.id in silent, node.id in moved, about.get(node.id, ()), seconds) for node in everyone]


def _judge(node: NodeRecord, silent: bool, moved: bool, alerts: Sequence[Alert], seconds: float) -> Health:
    # Our own eyes are fresher than what was written down: a beat that moves ends the alert that it was lost.
    open_now = [alert for alert in alerts if alert.kind != "node_lost" or silent or not moved]
    found = [*_from_beat(node, silent, moved, seconds), *filter(None, map(_from_alert, open_now))]
    if not found:
        return Health(part=node.id, status=Status.HEALTHY)
    worst = min(found, key=lambda one: one.status)
    reasons = dict.fromkeys(one.reason for one in found)
    since = min((one.since for one in found if one.status is worst.status and one.since is not None), default=None)
    return Health(part=node.id, status=worst.status, reason="; ".join(reasons), since=since)


def _from_beat(node: NodeRecord, silent: bool, moved: bool, seconds: float) -> list[Health]:
    """What is wrong with *node* as far as its beat shows."""
    if silent:
        reason = f"not heard of for {seconds:g} s: see whether its machine runs and reaches the store"
        return [Health(part=node.id, status=Status.UNHEALTHY, reason=reason)]
    found = []
    if not moved:
        found.append(Health(part=node.id, status=Status.UNKNOWN, reason="no beat of it has been seen yet"))
    if not node.doing.daemons:
        found.append(Health(part=node.id, status=Status.UNKNOWN, reason="says of no daemon that it runs"))
    if node.doing.failing:
        reason = f"daemons that failed and do not run: {', '.join(node.doing.failing)}"
        found.append(Health(part=node.id, status=Status.DEGRADED, reason=reason))
    return found


def _from_alert(alert: Alert) -> Health | None:
    """What an open *alert* says of its node; None if it says nothing."""
    statuses: Mapping[str, Status] = {
        **dict.fromkeys(SPOILING, Status.UNHEALTHY),
        **dict.fromkeys(DEGRADING, Status.DEGRADED),
        "health": Status.DEGRADED if alert.level == "minor" else Status.UNHEALTHY,
    }
    if alert.kind not in statuses:
        return None
    what = alert.subject.partition("/")[2] or alert.kind
    return Health(part=alert.subject, status=statuses[alert.kind], reason=f"{what}: {alert.detail}", since=alert.since)
