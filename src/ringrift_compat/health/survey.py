"""The one health of the system as a program reads it: every documented answer about health is a view of this."""

import asyncio
from collections.abc import Mapping

from ringrift.cluster.activity import Activity
from ringrift.cluster.daemon_summary import summarize
from ringrift.cluster.health import SurveyedNodes
from ringrift.cluster.roster import Roster
from ringrift.kernel.health import Health, Status
from ringrift.pipeline.health_survey import HealthSurvey
from ringrift.pipeline.system_health import HealthFacts, SystemHealth, judge
from ringrift_compat import embedded_host
from ringrift_compat.embedded_node import EmbeddedNode, embedded
from ringrift_compat.health.protocols import UNREAD


class SystemSurvey:
    """Looks at the system for one program, and remembers which beats have moved since the last time."""

    def __init__(self, node: EmbeddedNode) -> None:
        self._node = node
        self.roster = Roster(node.store, node.clock, node.settings.cluster.beat_seconds)
        self._survey = HealthSurvey(node.store, self.roster, node.clock, node.settings)
        self._lock = asyncio.Lock()  # an overtaken survey would forget beats that have moved

    async def read_nodes(self) -> SurveyedNodes:
        """The health of every node."""
        async with self._lock:
            return await self._survey.nodes.survey(self._own())

    async def read(self) -> HealthFacts:
        """Everything that health is judged from."""
        async with self._lock:
            return await self._survey.look(self._own())

    def _own(self) -> Mapping[str, Activity]:
        """The node that this program has become, which needs no beat to be seen, with its daemons as they are now."""
        host = embedded_host.get_host(self._node)
        if host is None:
            return {}
        daemons = summarize(host.supervisor.statuses(), host.supervisor.health())
        return {host.node_id: host.activity.snapshot(daemons)}


def read_system_health() -> SystemHealth:
    """The health of the system now; unhealthy without a point if the store cannot be read."""
    try:
        return judge(embedded.call(embedded.node().extension(SystemSurvey).read()))
    except UNREAD as error:
        return _unreadable(str(error))


def _unreadable(error: str) -> SystemHealth:
    """The health of a system with a store that cannot be read: nothing else can be known."""
    remedy, status = "check the disk and the path of the store:  ringrift doctor", Status.UNHEALTHY
    health = Health(part="store", status=status, reason=f"the store cannot be read: {error}", remedy=remedy)
    return SystemHealth(score=0.0, status=status, parts=(health,), issues=(health,))
