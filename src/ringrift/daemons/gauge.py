"""Measures the queue and says when its pressure changes level."""

from ringrift.bus.scribe import Scribe
from ringrift.cluster.leadership import Roles
from ringrift.events.work import PressureChanged
from ringrift.store.ports import Put, Store
from ringrift.supervision.spec import Daemon
from ringrift.work.limits import READY_HARD, pressure

KIND, ID = "pressure", "queue"


async def gauge(*, store: Store, scribe: Scribe, roles: Roles) -> None:
    """Measure once."""
    async with store.begin() as tx:
        await roles.check("gauge", tx)
        tally = await tx.tally()
        ready = sum(count for (_, state), count in tally.items() if state == "ready")
        claimed = sum(count for (_, state), count in tally.items() if state == "claimed")
        level = pressure(ready)
        before = (await tx.get(KIND, [ID])).get(ID, b"none").decode()
        if level != before:
            await tx.put([Put(kind=KIND, id=ID, body=level.encode())])
            said = PressureChanged(level=level, ready=ready, claimed=claimed, limit=READY_HARD)
            await tx.append([scribe.wrap(said, source="gauge")])


SPEC = Daemon(
    name="gauge", run=gauge, every="work.gauge_seconds", role="gauge", after=("elect",),
    profiles=frozenset({"coordinator", "full"}), category="resources",
)  # fmt: skip
