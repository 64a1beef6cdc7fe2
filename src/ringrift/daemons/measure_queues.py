"""Measures how long every queue takes to drain, and publishes when one comes to another level of pressure."""

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster.leadership import Roles
from ringrift.kernel.clock import Clock
from ringrift.kernel.settings import WorkSettings
from ringrift.pipeline.queues import read_queues
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon
from ringrift.work.pressure import BOUNDS, PRESSURES, DrainWindow, change, judge

_NAME = "measure_queues"
_Rates = dict[str, DrainWindow]


async def measure_queues(
    *, store: Store, envelopes: EnvelopeFactory, roles: Roles, work_settings: WorkSettings, clock: Clock, memory: _Rates
) -> None:
    """Measure once.  Rates are of this node's own clock; a queue on which nothing changes is not written again."""
    tick, now = clock.tick(), clock.now()
    async with store.begin() as tx:
        await roles.check(_NAME, tx)
        before = await PRESSURES.get_many(tx, tuple(BOUNDS))
        after, events = [], []
        for queue, reading in (await read_queues(tx, now)).items():
            old = before.get(queue)
            window = memory.get(queue) or DrainWindow(seconds=work_settings.drain_window_seconds)
            memory[queue] = window = window.after(reading, tick, None if old is None else old.rate)
            new = judge(queue, reading, old, patience=work_settings.drain_patience, now=now, window=window)
            after += [new] if new != old else []
            events.append(change(old, new))
        await PRESSURES.put(tx, after)
        await tx.append([envelopes.make(event, source=_NAME) for event in events if event is not None])


_SECONDS = "work.measure_queues_seconds"
SPEC = Daemon(name="measure_queues", run=measure_queues, role=_NAME, memory=dict, every=_SECONDS, category="resources")
