"""Asks for ratings of every line in which a match was decided, or many blocks were played, since the last ones."""

import msgspec

from ringrift.blobs.ports import Blobs
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster.leadership import Roles
from ringrift.jobs import STAGE, Rate
from ringrift.kernel.clock import Clock
from ringrift.kernel.value import changed
from ringrift.pipeline.line import Line
from ringrift.pipeline.line_settings import lines_in_force
from ringrift.pipeline.ratings import BACKLOGS, Backlog, RatingInput, backlog_of, forget_players, is_due, rating_input
from ringrift.store.ports import LIVE_STATES, Reads, Store
from ringrift.supervision.spec import Daemon
from ringrift.sync.ledger import holding
from ringrift.work.desk import enqueue


async def rate(*, store: Store, blobs: Blobs, roles: Roles, envelopes: EnvelopeFactory, clock: Clock) -> None:
    """Look once.  The counts go into a blob before the transaction that asks for the job; a crash leaves only that."""
    async with store.read() as view:
        due = await _due(view, clock.now())
    for line, backlog, data in due:
        [blob] = await blobs.put([msgspec.json.encode(data)])
        async with store.begin() as tx:
            await roles.check("rate", tx)
            if await backlog_of(tx, backlog.variant) != backlog:
                continue  # more has come meanwhile: the next look takes all of it
            await BACKLOGS.put(tx, [changed(backlog, rated=backlog.counted, due=False)])
            await forget_players(tx, line)
            await tx.put([holding(blob, envelopes.node)])
            job = Rate(variant=backlog.variant, tally=blob, priority=STAGE)
            # It belongs to no single match: the blocks of many have led to it.
            await enqueue(tx, (job,), envelopes, clock.now())


async def _due(view: Reads, now: float) -> list[tuple[Line, Backlog, RatingInput]]:
    """The lines that are due, each with the input of its ratings; not those that are being rated."""
    due = []
    for line in await lines_in_force(view, now):
        backlog = await backlog_of(view, line.variant)
        if not is_due(backlog):
            continue
        counts = await view.count_jobs(line.variant)
        if not any(counts.get((Rate.kind(), state)) for state in LIVE_STATES):
            due.append((line, backlog, await rating_input(view, backlog, line)))
    return due


SPEC = Daemon(name="rate", run=rate, role="rate", every="policy.rate_seconds", category="evaluation")
