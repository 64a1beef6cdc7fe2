"""Asks for rounds of matches that make the ratings of a line more certain, when nothing better is to be done."""

from ringrift.bus.scribe import Scribe
from ringrift.cluster.leadership import Roles
from ringrift.kernel.clock import Clock
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import Policy
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline import ladder as rounds
from ringrift.pipeline import standing
from ringrift.pipeline.ladder import Ladder
from ringrift.pipeline.line import Line
from ringrift.pipeline.records import lines, note, verdicts_of
from ringrift.store.ports import Store, Tx
from ringrift.supervision.spec import Daemon
from ringrift.work.desk import ask
from ringrift.work.limits import READY_HARD

LOOK_SECONDS = 30.0


async def ladder(*, store: Store, roles: Roles, policy: Policy, ids: Ids, scribe: Scribe, clock: Clock) -> None:
    """Look at every line once.  One that is seen for the first time has its first round a whole interval later."""
    now = clock.now()
    async with store.begin() as tx:
        await roles.check("ladder", tx)
        ready = sum(count for (_, state), count in (await tx.tally()).items() if state == "ready")
        for line in await lines(tx):
            known = await rounds.load(tx, line.variant)
            if known is None:
                await rounds.save(tx, Ladder(variant=line.variant, time=now))
                continue
            strengths = await standing.load(tx, line.variant)
            alive = [job.key for job in await tx.jobs(("ready", "claimed"), READY_HARD, variant=line.variant)]
            verdict = rounds.may_climb(
                line, strengths, known, policy, ready=ready, under_way=rounds.under_way(alive, line.variant), at=now
            )
            await _note(tx, line, verdict)
            if verdict.allowed:
                known, jobs = rounds.climb(line, strengths, known, policy, now)
                await rounds.save(tx, known)
                # A round belongs to no story: what was played long ago has led to it.
                await ask(tx, jobs, ids, now, scribe=scribe)


async def _note(tx: Tx, line: Line, verdict: Verdict) -> None:
    """Write down what the gate said, if that is anything new: it is asked all the time."""
    before = {one.gate: one for one in await verdicts_of(tx, line.variant)}.get(verdict.gate)
    if before is None or (before.allowed, before.rule) != (verdict.allowed, verdict.rule):
        await note(tx, line.variant, (verdict,))


SPEC = Daemon(
    name="ladder", run=ladder, every=LOOK_SECONDS, role="ladder", after=("elect",),
    profiles=frozenset({"coordinator", "full"}), category="evaluation",
)  # fmt: skip
