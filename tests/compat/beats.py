"""Beats of nodes, alerts and quarantines that tests of health write, on the store of the embedded node."""

from collections.abc import Coroutine
from typing import Any

import msgspec

from ringrift.cluster import alerts
from ringrift.cluster.activity import Activity
from ringrift.cluster.alerts import Alert
from ringrift.cluster.daemon_summary import DaemonSummary
from ringrift.cluster.roster import NodeRecord, Roster
from ringrift.kernel.health import Health, Status
from ringrift.kernel.verdict import Verdict
from ringrift.supervision.status import DaemonStatus
from ringrift.work.limits import QUARANTINES
from ringrift_compat.embedded_node import embedded
from ringrift_compat.health import node_health

_RECORD = NodeRecord(id="n1", profile="full", address="/n1", beat=1, activity=Activity(daemons=DaemonSummary(more=9)))


def run(work: Coroutine[Any, Any, None]) -> None:
    """Do *work* on the loop of the embedded node."""
    embedded.call(work)


def beat(id: str, beat: int, **changes: Any) -> None:
    """Write the record of a node with this *beat*."""
    node = embedded.node()
    run(Roster(node.store, node.clock, 5.0).put(msgspec.structs.replace(_RECORD, id=id, beat=beat, **changes)))


def beat_twice(id: str, **changes: Any) -> None:
    """Let this program observe that the beat of a node moves."""
    beat(id, 1, **changes)
    node_health.get_node_health(id)
    beat(id, 2, **changes)


def failing(*names: str) -> Activity:
    """The activity of a node whose daemons *names* have failed."""
    health = Health(part="fill", status=Status.UNHEALTHY)
    statuses = tuple(DaemonStatus(name=name, health=health, state="failed") for name in names)
    return Activity(daemons=DaemonSummary(more=9, statuses=statuses))


async def raise_alert(kind: str, subject: str, level: str) -> None:
    """Open an alert."""
    async with embedded.node().store.begin() as tx:
        await alerts.apply(tx, [Alert(kind=kind, subject=subject, level=level, detail="so it is")], 50.0)


async def put_in_quarantine(id: str) -> None:
    """Quarantine a node."""
    verdict = Verdict(gate="trust", allowed=False, rule="wrong canaries", value=1, limit=0)
    async with embedded.node().store.begin() as tx:
        await QUARANTINES.put_at(tx, {id: verdict})
