"""Asks for a copy of every blob that a line needs and that has too few."""

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster.leadership import Roles
from ringrift.cluster.roster import Roster
from ringrift.jobs import STAGE, Sync
from ringrift.kernel.clock import Clock
from ringrift.kernel.settings import Replicas
from ringrift.pipeline.line import LINES, needed_blobs
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon
from ringrift.sync.ledger import holders
from ringrift.work.desk import enqueue


async def replicate(
    *, store: Store, roster: Roster, roles: Roles, replicas: Replicas, envelopes: EnvelopeFactory, clock: Clock
) -> None:
    """Look once.  A blob that no present node holds is left out: the job that needs it will fail and name it."""
    present = {node.id for node in await roster.present()}
    copies = min(replicas.copies_min, len(present))
    async with store.read() as view:
        blobs = {
            blob: (line.variant, kind, [node for node in await holders(view, blob) if node in present])
            for line in await LINES.all(view)
            for blob, kind in needed_blobs(line).items()
        }
    thin = [
        Sync(variant=variant, blob=blob, kind_of=kind, source=nodes[0], repair=True, priority=STAGE)
        for blob, (variant, kind, nodes) in blobs.items()
        if 0 < len(nodes) < copies
    ]
    if thin:
        async with store.begin() as tx:
            await roles.check("replicate", tx)
            await enqueue(tx, thin, envelopes, clock.now())


SPEC = Daemon(name="replicate", run=replicate, role="replicate", every="replicas.every_seconds", category="sync")
