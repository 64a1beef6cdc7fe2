"""Beats: what tests of health let nodes say and let be written about them, on the ambient node's store."""

from collections.abc import Coroutine
from typing import Any

import msgspec

from ringrift.cluster import alerts
from ringrift.cluster.activity import Doing
from ringrift.cluster.alerts import Open
from ringrift.cluster.roster import NodeRecord, Roster
from ringrift.kernel.verdict import Verdict
from ringrift.work import quarantine
from ringrift_compat import node_health
from ringrift_compat.ambient import ambient

WELL = NodeRecord(id="n1", profile="full", address="/n1", beat=1, doing=Doing(daemons=9))


def run(work: Coroutine[Any, Any, None]) -> None:
    """Do *work* on the ambient loop."""
    ambient.call(work)


def beat(id: str, beat: int, **changes: Any) -> None:
    """Let a node say that it lives."""
    node = ambient.node()
    run(Roster(node.store, node.clock, 5.0).say(msgspec.structs.replace(WELL, id=id, beat=beat, **changes)))


def seen_to_beat(id: str, **changes: Any) -> None:
    """Let a node beat twice under the eyes of the program."""
    beat(id, 1, **changes)
    node_health.get_node_health(id)
    beat(id, 2, **changes)


async def raise_alert(kind: str, subject: str, level: str) -> None:
    """Open an alert."""
    async with ambient.node().store.begin() as tx:
        await alerts.apply(tx, [Open(kind=kind, subject=subject, level=level, detail="so it is")], 50.0)


async def shut_out(id: str) -> None:
    """Quarantine a node."""
    why = Verdict(gate="trust", allowed=False, rule="wrong canaries", value=1, limit=0)
    async with ambient.node().store.begin() as tx:
        await quarantine.shut_out(tx, id, why)
