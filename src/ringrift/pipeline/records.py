"""Records: how lines, verdicts and decisions are kept, and how a step of the machine is carried out."""

from collections.abc import Sequence

import msgspec

from ringrift.bus import trace
from ringrift.bus.scribe import Scribe
from ringrift.events import evaluation, model, work
from ringrift.events.base import Envelope
from ringrift.jobs import Export, Job, Train
from ringrift.kernel.ids import Ids
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import DECISION, KIND, Decision, Line, check
from ringrift.pipeline.step import Step
from ringrift.store.ports import Put, Reads, Tx
from ringrift.work.desk import ask

VERDICT = "verdict"
LINES_MAX = 1000
DECISIONS_MAX = 100_000
ROUND_ENDS = frozenset(event.name() for event in (model.Distributed, evaluation.BlocksPlayed, work.Buried))


async def load(view: Reads, variant: str) -> Line | None:
    """The line of *variant*, if it was ever opened."""
    body = (await view.get(KIND, [variant])).get(variant)
    return None if body is None else msgspec.json.decode(body, type=Line)


async def lines(view: Reads) -> list[Line]:
    """Every line."""
    return [msgspec.json.decode(record.body, type=Line) for record in await view.scan(KIND, "", LINES_MAX)]


async def save(tx: Tx, line: Line) -> None:
    """Write *line*, after checking what must be true of it."""
    check(line)
    await tx.put([Put(kind=KIND, id=line.variant, body=msgspec.json.encode(line))])


async def note(tx: Tx, variant: str, verdicts: tuple[Verdict, ...]) -> None:
    """Write down what gates said of *variant*; a wait that goes on keeps its beginning."""
    before = {verdict.gate: verdict for verdict in await verdicts_of(tx, variant)}
    told = [verdict.told_since(before.get(verdict.gate)) for verdict in verdicts]
    await tx.put([
        Put(kind=VERDICT, id=f"{variant}:{said.gate}", body=msgspec.json.encode(said), index={"variant": variant})
        for said in told
    ])  # fmt: skip


async def verdicts_of(view: Reads, variant: str) -> list[Verdict]:
    """What every gate last said of *variant*."""
    found = await view.find(VERDICT, "variant", [variant], 100)
    return [msgspec.json.decode(record.body, type=Verdict) for record in found]


async def decisions_of(view: Reads, variant: str) -> list[Decision]:
    """Every decision about a model of *variant*, oldest first."""
    found = await view.find(DECISION, "variant", [variant], DECISIONS_MAX)
    return sorted((msgspec.json.decode(r.body, type=Decision) for r in found), key=lambda decision: decision.time)


def begins_round(jobs: Sequence[Job], cause: Envelope) -> bool:
    """Whether *jobs* begin another round of the loop because the last one has ended.

    Then they begin a story of their own: a line that always has enough games would have one that never ends.
    """
    first = any(isinstance(job, Export) or (isinstance(job, Train) and job.samples is None) for job in jobs)
    return first and cause.name in ROUND_ENDS


async def carry_out(tx: Tx, step: Step, cause: Envelope, *, ids: Ids, scribe: Scribe) -> None:
    """Write everything that *step* calls for."""
    variant = step.line.variant
    await save(tx, step.line)
    if step.cancel is not None:
        await tx.cancel(step.cancel)
    await tx.append([scribe.wrap(event, cause=cause, source="pipeline") for event in step.events])
    context = "" if begins_round(step.jobs, cause) else trace.written(trace.because(cause))
    await ask(tx, step.jobs, ids, cause.time, scribe=scribe, context=context)
    await note(tx, variant, step.verdicts)
    if step.decision is not None:
        body = msgspec.json.encode(step.decision)
        # One decision per model and event: named by the event that brought it, so that a model judged twice has two.
        await tx.put([Put(kind=DECISION, id=f"{variant}:{cause.id}", body=body, index={"variant": variant})])
