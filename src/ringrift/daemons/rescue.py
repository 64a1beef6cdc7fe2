"""Revokes leases that are not renewed, and ends the pauses of jobs that may be tried again."""

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster.leadership import Roles
from ringrift.events.work import Rescued
from ringrift.kernel.clock import Clock
from ringrift.kernel.stall_detector import Observation, StallDetector
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon
from ringrift.work.desk import StoreDesk

_JOBS_MAX = 100_000
_REVOKED_AT_ONCE_MAX = 500
"""Leases revoked in one look: their ids must fit into one event, and the others can wait for the next look."""


async def rescue(
    *, store: Store, desk: StoreDesk, envelopes: EnvelopeFactory, roles: Roles, clock: Clock, memory: StallDetector
) -> None:
    """Look once: a lease whose renewals stood still for its time is over, and so is a pause that lasted its time."""
    tick = clock.tick()
    async with store.read() as view:
        claimed = await view.jobs(("claimed",), _JOBS_MAX)
        paused = await view.jobs(("paused",), _JOBS_MAX)
    leases = [
        Observation(name=row.id, counter=(row.fence << 32) + row.renewals, seconds=row.seconds) for row in claimed
    ]
    pauses = [Observation(name=row.id, counter=row.fence, seconds=row.pause) for row in paused]
    stalled = {observation.name for observation in memory.stalled([*leases, *pauses], tick)}
    late = [row for row in claimed if row.id in stalled][:_REVOKED_AT_ONCE_MAX]
    rested = [row.id for row in paused if row.id in stalled]
    if not late and not rested:
        return
    async with store.begin() as tx:
        await roles.check("rescue", tx)
        back = await desk.revoke(tx, late, "the lease was not renewed")
        await tx.resume(rested)
        if back:
            await tx.append([envelopes.make(Rescued(jobs=tuple(back)), source="rescue")])


_SECONDS = "work.rescue_seconds"
SPEC = Daemon(name="rescue", run=rescue, role="rescue", memory=StallDetector, every=_SECONDS, category="resources")
