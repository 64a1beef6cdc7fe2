"""Ends leases and tasks without a sign of life, and pauses, breakers and run states that lasted their time."""

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster.leadership import Roles
from ringrift.cluster.liveness import LOST_NODES
from ringrift.events.work import Rescued
from ringrift.kernel.clock import Clock
from ringrift.kernel.stall_detector import Observation, StallDetector
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon
from ringrift.work import breakers
from ringrift.work.breakers import BREAKERS
from ringrift.work.claims import find_refusals
from ringrift.work.desk import StoreDesk
from ringrift.work.limits import VERDICTS
from ringrift.work.processes import this_host
from ringrift.work.run_states import expire_run_states, load_run_states
from ringrift.work.tasks import HostTick, end_tasks, find_orphans, load_limits, observe, running_tasks, still_as

_JOBS_MAX = 100_000
_REVOKED_AT_ONCE_MAX = 500  #: Leases revoked in one look: their ids must fit into one event; others wait.


async def rescue(
    *, store: Store, desk: StoreDesk, envelopes: EnvelopeFactory, roles: Roles, clock: Clock, memory: StallDetector
) -> None:
    """Look once: a lease that was not renewed for its time is over, a pause that lasted its time, a dead task."""
    async with store.read() as view:
        claimed, paused = await view.jobs(("claimed",), _JOBS_MAX), await view.jobs(("paused",), _JOBS_MAX)
        circuits, tasks, states = await BREAKERS.all(view), await running_tasks(view), await load_run_states(view)
        seconds, lost = (await load_limits(view)).beat_seconds_max, tuple(await LOST_NODES.scan(view))
        refusals = await find_refusals(view, lost)
    tick, now = clock.tick(), clock.now()
    here = HostTick(host=this_host() if tasks else "", tick=tick)
    leases = [Observation(row.id, (row.fence << 32) + row.renewals, row.seconds) for row in claimed]
    pauses = [Observation(row.id, row.fence, row.pause) for row in paused]
    watched = [*leases, *pauses, *breakers.observations(circuits), *observe(tasks, here.host, seconds)]
    stopped = memory.stalled(watched, tick)
    stalled = {observation.name for observation in stopped}
    expired = [row for row in claimed if row.id in stalled][:_REVOKED_AT_ONCE_MAX]
    rested = [row.id for row in paused if row.id in stalled]
    tried, orphans = breakers.rest(circuits, stalled, claimed), find_orphans(tasks, here, seconds, stopped)
    is_over = any(not state.is_in_force(now) for state in states.by_scope.values())
    if not any((expired, rested, tried, orphans, is_over, refusals)):
        return
    async with store.begin() as tx:
        await roles.check("rescue", tx)
        back = await desk.revoke(tx, expired, "the lease was not renewed")
        await tx.resume(rested)
        await breakers.write_rested(tx, envelopes, circuits, tried, now)
        await end_tasks(tx, envelopes, await still_as(tx, orphans), now)
        await VERDICTS.delete(tx, refusals)
        if is_over:
            await expire_run_states(tx, envelopes, now)
        if back:
            await tx.append([envelopes.make(Rescued(jobs=tuple(back)), source="rescue")])


_SECONDS = "work.rescue_seconds"
SPEC = Daemon(name="rescue", run=rescue, role="rescue", memory=StallDetector, every=_SECONDS, category="resources")
