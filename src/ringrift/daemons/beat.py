"""Writes the heartbeat of this node with its activity, and publishes when its health changes."""

import msgspec

from ringrift.bus.router import Router
from ringrift.cluster.activity import ActivityTracker, health_change
from ringrift.cluster.daemon_summary import summarize
from ringrift.cluster.roster import NodeRecord, Roster
from ringrift.kernel.clock import Clock
from ringrift.kernel.health import Status
from ringrift.supervision.spec import Daemon
from ringrift.supervision.supervisor import Supervisor


async def beat(
    *,
    roster: Roster,
    record: NodeRecord,
    clock: Clock,
    activity: ActivityTracker,
    supervisor: Supervisor,
    router: Router,
) -> None:
    """One beat: any number will do, as long as it differs from the last."""
    number, health = int(clock.tick() * 1000), supervisor.health()
    report = activity.snapshot(summarize(supervisor.statuses(), health))
    await roster.put(msgspec.structs.replace(record, beat=number, activity=report))
    changed = health_change(record.id, activity.status, health)
    if changed is not None:
        await router.publish(msgspec.structs.replace(changed, profile=record.profile), source="beat")
        activity.status = Status[changed.status.upper()]


SPEC = Daemon(name="beat", run=beat, every="cluster.beat_seconds", category="core", critical=True)
