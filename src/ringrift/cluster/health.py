"""Health of every node, from its heartbeats and from the open alerts about it.

A new observer has seen one beat of each node, perhaps an old one.  So a node is unknown until its beat has been seen to
move: unknown is not healthy.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from ringrift.cluster.activity import Activity
from ringrift.cluster.alerts import Alert
from ringrift.cluster.roster import NodeRecord, NodeState, Roster
from ringrift.kernel.health import Health, Status
from ringrift.kernel.value import Value, changed

# Kinds of alert about a node → its status while one is open; a minor alert means at most degraded.
_ALERT_STATUS = dict.fromkeys(("node_lost", "daemon", "health"), Status.UNHEALTHY)
_ALERT_STATUS |= dict.fromkeys(("quarantine", "data_corrupted"), Status.DEGRADED)


class SurveyedNodes(Value):
    """The nodes as of one moment."""

    nodes: tuple[NodeRecord, ...]  # also those that have left
    silent: frozenset[str]
    moved: frozenset[str]  # nodes that were seen to live
    seconds: float  # how long a node may be silent


class ClusterHealth:
    """Observes all nodes, and remembers which beats it has seen move."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._first: dict[str, int] = {}
        self._moved: set[str] = set()

    async def survey(self, own: Mapping[str, Activity] | None = None) -> SurveyedNodes:
        """Look once.  *own* are nodes of this process, which need no heartbeat to be seen, with what they do now."""
        nodes = await self._roster.all_nodes()
        states = self._roster.judge(nodes)
        silent = frozenset(id for id, state in states.items() if state is NodeState.LOST) - set(own or ())
        nodes = [changed(node, activity=own[node.id]) if own and node.id in own else node for node in nodes]
        present = [node for node in nodes if not node.gone]
        for node in present:
            if self._first.setdefault(node.id, node.beat) != node.beat or (own and node.id in own):
                self._moved.add(node.id)
        self._first = {node.id: self._first[node.id] for node in present}
        self._moved &= self._first.keys()
        seconds, moved = self._roster.silent_seconds_max, frozenset(self._moved)
        return SurveyedNodes(nodes=tuple(nodes), silent=silent, moved=moved, seconds=seconds)


def judge(survey: SurveyedNodes, alerts: Iterable[Alert], kinds: Collection[str] = _ALERT_STATUS) -> list[Health]:
    """The health of every node that has not left, with those of the open *alerts* that are of these *kinds*."""
    by_node: dict[str, list[Alert]] = {}
    for alert in alerts:
        if alert.kind in kinds:
            by_node.setdefault(alert.subject.split("/")[0], []).append(alert)
    return [_judge(node, survey, by_node.get(node.id, ())) for node in survey.nodes if not node.gone]


def _judge(node: NodeRecord, survey: SurveyedNodes, alerts: Iterable[Alert]) -> Health:
    problems = list(_problems(node, survey, alerts))
    if not problems:
        return Health(part=node.id, status=Status.HEALTHY)
    worst = min(status for status, _, _ in problems)
    reasons = dict.fromkeys(reason for _, reason, _ in problems)
    since = min((since for status, _, since in problems if status is worst and since is not None), default=None)
    return Health(part=node.id, status=worst, reason="; ".join(reasons), since=since)


def _problems(
    node: NodeRecord, survey: SurveyedNodes, alerts: Iterable[Alert]
) -> Iterator[tuple[Status, str, float | None]]:
    """The problems of *node* that its heartbeat and the *alerts* show, and since when if that is recorded."""
    silent, moved = node.id in survey.silent, node.id in survey.moved
    if silent:
        remedy = "check that its machine runs and reaches the store"
        yield Status.UNHEALTHY, f"no heartbeat for {survey.seconds:g} s: {remedy}", None
    elif not moved:
        yield Status.UNKNOWN, "no heartbeat was observed yet", None
    if not silent and not node.activity.daemons.running:
        yield Status.UNKNOWN, "reports no running daemon", None
    if not silent and (failed := node.activity.daemons.failed):
        yield Status.DEGRADED, f"daemons that failed and do not run: {', '.join(failed)}", None
    for alert in alerts:
        # A beat that this observer has seen move is newer than the alert that the node was lost.
        if alert.kind != "node_lost" or silent or not moved:
            status = Status.DEGRADED if alert.level == "minor" else _ALERT_STATUS[alert.kind]
            yield status, f"{alert.subject.partition('/')[2] or alert.kind}: {alert.detail}", alert.since
