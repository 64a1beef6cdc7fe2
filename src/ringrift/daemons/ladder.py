"""Asks for rounds of matches that make the ratings of a line more certain, while the queue has room."""

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster.leadership import Roles
from ringrift.jobs import JobFilter, Purpose
from ringrift.kernel.clock import Clock
from ringrift.kernel.settings import Policy
from ringrift.kernel.stall_detector import Observation, StallDetector
from ringrift.pipeline.ladder import LADDERS, Ladder, climb, may_climb
from ringrift.pipeline.line_settings import lines_in_force, policy_of
from ringrift.pipeline.ratings import ratings_of
from ringrift.pipeline.records import save_if_new
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon
from ringrift.work.desk import enqueue, select
from ringrift.work.pressure import MATCH_QUEUES, PRESSURES, hardest


async def ladder(
    *, store: Store, roles: Roles, policy: Policy, envelopes: EnvelopeFactory, clock: Clock, memory: StallDetector
) -> None:
    """Look at every line once.  A round is due once no other was asked for a whole interval, on this node's clock."""
    now = clock.now()
    async with store.begin() as tx:
        await roles.check("ladder", tx)
        pressure = hardest((await PRESSURES.get_many(tx, MATCH_QUEUES)).values())
        lines = {line.variant: line for line in await lines_in_force(tx, now)}
        policies = {variant: await policy_of(tx, variant, policy) for variant in lines}
        ladders = {variant: Ladder(variant=variant) for variant in lines} | await LADDERS.get_many(tx, list(lines))
        rounds = [Observation(row.variant, row.round, policies[row.variant].ladder_seconds) for row in ladders.values()]
        due = {observation.name for observation in memory.stalled(rounds, clock.tick())}
        for line in lines.values():
            own = policies[line.variant]
            ratings = await ratings_of(tx, line.variant)
            live = len(await select(tx, JobFilter(variant=line.variant, purpose=Purpose.LADDER)))
            verdict = may_climb(line, ratings, own, is_due=line.variant in due, pressure=pressure, live=live, at=now)
            await save_if_new(tx, f"{line.variant}:{verdict.gate}", line.variant, verdict)
            if verdict.allowed:
                after, jobs = climb(line, ratings, ladders[line.variant], own)
                await LADDERS.put(tx, [after])
                # A round belongs to no trace: many matches have led to it.
                await enqueue(tx, jobs, envelopes, now)


SPEC = Daemon(name="ladder", run=ladder, role="ladder", memory=StallDetector, every=30.0, category="evaluation")
