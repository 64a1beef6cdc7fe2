"""Asks for rounds of matches that make the ratings of a line more certain, while the queue has room."""

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster.leadership import Roles
from ringrift.jobs import JobFilter, Purpose
from ringrift.kernel.clock import Clock
from ringrift.kernel.settings import Policy
from ringrift.pipeline.ladder import LADDERS, Ladder, climb, may_climb
from ringrift.pipeline.line import LINES
from ringrift.pipeline.ratings import ratings_of
from ringrift.pipeline.records import save_if_new
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon
from ringrift.work.desk import enqueue, select
from ringrift.work.pressure import MATCH_QUEUES, PRESSURES, hardest

_LOOK_SECONDS = 30.0


async def ladder(*, store: Store, roles: Roles, policy: Policy, envelopes: EnvelopeFactory, clock: Clock) -> None:
    """Look at every line once.  A new line has its first round a whole interval later."""
    now = clock.now()
    async with store.begin() as tx:
        await roles.check("ladder", tx)
        pressure = hardest((await PRESSURES.get_many(tx, MATCH_QUEUES)).values())
        for line in await LINES.all(tx):
            before = await LADDERS.get(tx, line.variant)
            if before is None:
                await LADDERS.put(tx, [Ladder(variant=line.variant, time=now)])
                continue
            ratings = await ratings_of(tx, line.variant)
            live = len(await select(tx, JobFilter(variant=line.variant, purpose=Purpose.LADDER)))
            verdict = may_climb(line, ratings, before, policy, pressure=pressure, live=live, at=now)
            await save_if_new(tx, f"{line.variant}:{verdict.gate}", line.variant, verdict)
            if verdict.allowed:
                after, jobs = climb(line, ratings, before, policy, now)
                await LADDERS.put(tx, [after])
                # A round belongs to no trace: many matches have led to it.
                await enqueue(tx, jobs, envelopes, now)


SPEC = Daemon(name="ladder", run=ladder, role="ladder", every=_LOOK_SECONDS, category="evaluation")
