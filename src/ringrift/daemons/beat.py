"""Says that this node lives, what it does, and when it becomes better or worse."""

import msgspec

from ringrift.bus.router import Router
from ringrift.cluster.activity import Activity, change
from ringrift.cluster.duties import duties
from ringrift.cluster.roster import NodeRecord, Roster
from ringrift.kernel.clock import Clock
from ringrift.kernel.health import Status
from ringrift.supervision.spec import Daemon
from ringrift.supervision.supervisor import Supervisor


async def beat(
    *, roster: Roster, record: NodeRecord, clock: Clock, activity: Activity, supervisor: Supervisor, router: Router
) -> None:
    """One beat: any number will do, as long as it differs from the last."""
    number, health = int(clock.tick() * 1000), supervisor.health()
    doing = msgspec.structs.replace(activity.value(), duties=duties(supervisor.reports(), health))
    await roster.say(msgspec.structs.replace(record, beat=number, doing=doing))
    changed = change(record.id, activity.status, health)
    if changed is not None:
        await router.publish(changed, source="beat")
        activity.status = Status[changed.status.upper()]


SPEC = Daemon(name="beat", run=beat, every="cluster.beat_seconds", category="core", critical=True)
