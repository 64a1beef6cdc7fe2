"""Asks for ratings of every line in which something was decided, or much was played, since the last ones."""

import logging

import msgspec

from ringrift.blobs.ports import Blobs
from ringrift.bus.scribe import Scribe
from ringrift.cluster.leadership import Roles
from ringrift.jobs import STAGE, Rate
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import NoRoom
from ringrift.kernel.ids import Ids
from ringrift.pipeline import standing
from ringrift.pipeline.records import lines
from ringrift.pipeline.standing import Asked, Backlog
from ringrift.pipeline.step import changed
from ringrift.store.ports import Reads, Store
from ringrift.supervision.spec import Daemon
from ringrift.sync.ledger import holding
from ringrift.work.desk import ask

log = logging.getLogger(__name__)


async def rate(
    *, store: Store, blobs: Blobs, roles: Roles, ids: Ids, scribe: Scribe, clock: Clock, node_id: str
) -> None:
    """Look once.  The counts go into a blob before the transaction that asks for the job; a crash leaves only that."""
    async with store.read() as view:
        due = await _due(view)
    for known, wanted in due:
        try:
            [blob] = await blobs.put([msgspec.json.encode(wanted)])
        except NoRoom as full:
            log.warning("%s is not rated: %s", known.variant, full)
            return
        async with store.begin() as tx:
            await roles.check("rate", tx)
            if await standing.backlog_of(tx, known.variant) != known:
                continue  # more has come meanwhile: the next look takes all of it
            await standing.keep(tx, changed(known, asked=known.counted, due=False))
            await tx.put([holding(blob, node_id)])
            job = Rate(variant=known.variant, tally=blob, priority=STAGE)
            # It belongs to no single match: the blocks of many have led to it.
            await ask(tx, (job,), ids, clock.now(), scribe=scribe)


async def _due(view: Reads) -> list[tuple[Backlog, Asked]]:
    """The lines that are due, each with what its ratings are computed from; not those that are being rated."""
    found = []
    for line in await lines(view):
        known = await standing.backlog_of(view, line.variant)
        if not standing.is_due(known):
            continue
        tally = await view.tally(line.variant)
        if not any(tally.get((Rate.kind(), state)) for state in ("ready", "claimed")):
            found.append((known, await standing.asked(view, known, line)))
    return found


SPEC = Daemon(
    name="rate", run=rate, every="policy.rate_seconds", role="rate", after=("elect",),
    profiles=frozenset({"coordinator", "full"}), category="evaluation",
)  # fmt: skip
