"""Takes back leases that nobody renews, and ends the pauses of jobs that may be tried again."""

from ringrift.bus.scribe import Scribe
from ringrift.cluster.leadership import Roles
from ringrift.events.work import Rescued
from ringrift.kernel.clock import Clock
from ringrift.kernel.watch import Seen, Watch
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon
from ringrift.work.desk import StoreDesk

WATCHED_MAX = 100_000
TAKEN_AT_ONCE_MAX = 500
"""Leases taken back in one look: their ids must fit into one event, and the rest has waited long enough to wait on."""


async def rescue(
    *, store: Store, desk: StoreDesk, scribe: Scribe, roles: Roles, clock: Clock, lease_watch: Watch, pause_watch: Watch
) -> None:
    """Look once: a lease whose renewals stood still for its time is over, and so is a pause that lasted its time."""
    tick = clock.tick()
    async with store.read() as view:
        claimed = await view.jobs(("claimed",), WATCHED_MAX)
        paused = await view.jobs(("paused",), WATCHED_MAX)
    leases = [Seen(name=row.id, mark=(row.fence << 32) + row.renewals, seconds=row.seconds) for row in claimed]
    pauses = [Seen(name=row.id, mark=row.fence, seconds=row.pause) for row in paused]
    over = {seen.name for seen in lease_watch.overdue(leases, tick)}
    rested = [seen.name for seen in pause_watch.overdue(pauses, tick)]
    if not over and not rested:
        return
    async with store.begin() as tx:
        await roles.check("rescue", tx)
        late = [row for row in claimed if row.id in over][:TAKEN_AT_ONCE_MAX]
        back = await desk.take_back(tx, late, "the lease was not renewed")
        await tx.resume(rested)
        if back:
            await tx.append([scribe.wrap(Rescued(jobs=tuple(back)), source="rescue")])


SPEC = Daemon(
    name="rescue", run=rescue, every="work.rescue_seconds", role="rescue", after=("elect",),
    profiles=frozenset({"coordinator", "full"}), category="resources",
)  # fmt: skip
