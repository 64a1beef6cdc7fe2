"""Asks for rounds of matches that make the ratings of a line more certain, while the queue has room."""

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster.leadership import Roles
from ringrift.jobs import JobFilter, Purpose
from ringrift.kernel.clock import Clock
from ringrift.kernel.settings import Policy
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.ladder import LADDERS, Ladder, climb, may_climb
from ringrift.pipeline.line import LINES, Line
from ringrift.pipeline.ratings import ratings_of
from ringrift.pipeline.records import save_verdicts
from ringrift.store.ports import Store, Tx
from ringrift.supervision.spec import Daemon
from ringrift.work.admission import VERDICTS
from ringrift.work.desk import enqueue, select

_LOOK_SECONDS = 30.0


async def ladder(*, store: Store, roles: Roles, policy: Policy, envelopes: EnvelopeFactory, clock: Clock) -> None:
    """Look at every line once.  A new line has its first round a whole interval later."""
    now = clock.now()
    async with store.begin() as tx:
        await roles.check("ladder", tx)
        ready = sum(count for (_, state), count in (await tx.count_jobs()).items() if state == "ready")
        for line in await LINES.all(tx):
            before = await LADDERS.get(tx, line.variant)
            if before is None:
                await LADDERS.put(tx, [Ladder(variant=line.variant, time=now)])
                continue
            ratings = await ratings_of(tx, line.variant)
            live = len(await select(tx, JobFilter(variant=line.variant, purpose=Purpose.LADDER)))
            verdict = may_climb(line, ratings, before, policy, ready=ready, live=live, at=now)
            await _save_verdict(tx, line, verdict)
            if verdict.allowed:
                after, jobs = climb(line, ratings, before, policy, now)
                await LADDERS.put(tx, [after])
                # A round belongs to no trace: many matches have led to it.
                await enqueue(tx, jobs, envelopes, now)


async def _save_verdict(tx: Tx, line: Line, verdict: Verdict) -> None:
    """Write *verdict* if it is new: the gate is asked all the time."""
    before = await VERDICTS.get(tx, f"{line.variant}:{verdict.gate}")
    if before is None or (before.allowed, before.rule) != (verdict.allowed, verdict.rule):
        await save_verdicts(tx, line.variant, (verdict,))


SPEC = Daemon(name="ladder", run=ladder, role="ladder", every=_LOOK_SECONDS, category="evaluation")
