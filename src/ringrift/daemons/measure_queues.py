"""Measures the queue and publishes when its pressure changes level."""

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster.leadership import Roles
from ringrift.events.work import PressureChanged
from ringrift.store.ports import Store
from ringrift.store.records import Records
from ringrift.supervision.spec import Daemon
from ringrift.work.limits import READY_HARD, pressure

_PRESSURE, _QUEUE = Records("pressure", str), "queue"


async def measure_queues(*, store: Store, envelopes: EnvelopeFactory, roles: Roles) -> None:
    """Measure once."""
    async with store.begin() as tx:
        await roles.check("measure_queues", tx)
        counts = (await tx.count_jobs()).items()
        ready = sum(count for (_, state), count in counts if state == "ready")
        claimed = sum(count for (_, state), count in counts if state == "claimed")
        level = pressure(ready)
        if level != (await _PRESSURE.get(tx, _QUEUE) or "none"):
            await _PRESSURE.put_at(tx, {_QUEUE: level})
            event = PressureChanged(level=level, ready=ready, claimed=claimed, limit=READY_HARD)
            await tx.append([envelopes.make(event, source="measure_queues")])


_SECONDS = "work.measure_queues_seconds"
SPEC = Daemon(name="measure_queues", run=measure_queues, role="measure_queues", every=_SECONDS, category="resources")
