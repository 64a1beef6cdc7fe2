"""Asks for a copy of every blob that a line needs and that has too few."""

from ringrift.bus.scribe import Scribe
from ringrift.cluster.leadership import Roles
from ringrift.cluster.roster import Roster
from ringrift.jobs import STAGE, Sync
from ringrift.kernel.clock import Clock
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import Replicas
from ringrift.pipeline.line import needed
from ringrift.pipeline.records import lines
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon
from ringrift.sync.ledger import holders
from ringrift.work.desk import ask


async def replicate(
    *, store: Store, roster: Roster, roles: Roles, replicas: Replicas, ids: Ids, scribe: Scribe, clock: Clock
) -> None:
    """Look once.  A blob that nobody present holds is not asked for: whoever needs it will find out and say so."""
    present = {node.id for node in await roster.present()}
    copies = min(replicas.copies_min, len(present))
    async with store.read() as view:
        wanted = {
            blob: (line.variant, kind, [node for node in await holders(view, blob) if node in present])
            for line in await lines(view)
            for blob, kind in needed(line).items()
        }
    thin = [
        Sync(variant=variant, blob=blob, kind_of=kind, source=held[0], priority=STAGE)
        for blob, (variant, kind, held) in wanted.items()
        if 0 < len(held) < copies
    ]
    if thin:
        async with store.begin() as tx:
            await roles.check("replicate", tx)
            await ask(tx, thin, ids, clock.now(), scribe=scribe)


SPEC = Daemon(
    name="replicate", run=replicate, every="replicas.every_seconds", role="replicate", after=("elect",),
    profiles=frozenset({"coordinator", "full"}), category="sync",
)  # fmt: skip
