"""Records: how lines, verdicts and decisions are kept, and how a step of the machine is carried out."""

from collections.abc import Sequence

import msgspec

from ringrift.bus import trace
from ringrift.bus.scribe import Scribe
from ringrift.evaluation.budget import Account, opened
from ringrift.events import evaluation, model, work
from ringrift.events.base import Envelope
from ringrift.jobs import Export, Job, Train
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import Budget
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import DECISION, EVIDENCE, KIND, Decision, Line, check
from ringrift.pipeline.matches import BlockRow, by_ids
from ringrift.pipeline.models import KIND as MODEL
from ringrift.pipeline.models import Change, Model, become, key
from ringrift.pipeline.step import Step
from ringrift.store.ports import Put, Reads, Tx
from ringrift.work.admission import VERDICT
from ringrift.work.desk import ask

LINES_MAX = 1000
DECISIONS_MAX = MODELS_MAX = 100_000
BUDGET, RUN = "budget", "run"
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


async def evidence_of(view: Reads, decision: Decision) -> list[BlockRow]:
    """Every block that *decision* rests on, by number."""
    body = (await view.get(EVIDENCE, [decision.id])).get(decision.id)
    return [] if body is None else await by_ids(view, msgspec.json.decode(body, type=list[str]))


async def account_of(view: Reads, budget: Budget) -> Account:
    """The error budget of the run as it stands."""
    body = (await view.get(BUDGET, [RUN])).get(RUN)
    return opened(budget) if body is None else msgspec.json.decode(body, type=Account)


async def models_of(view: Reads, variant: str) -> list[Model]:
    """Every model of *variant* that ever came out of training, the oldest first."""
    found = await view.find(MODEL, "variant", [variant], MODELS_MAX)
    return sorted((msgspec.json.decode(r.body, type=Model) for r in found), key=lambda one: (one.generation, one.since))


async def _change(tx: Tx, variant: str, changes: Sequence[Change], at: float) -> None:
    """Let models come to their new states.  Raises IllegalTransition."""
    ids = [key(variant, change.model) for change in changes]
    known = {id: msgspec.json.decode(body, type=Model) for id, body in (await tx.get(MODEL, ids)).items()}
    for id, change in zip(ids, changes, strict=True):
        known[id] = become(known.get(id), variant, change, at)
    await tx.put([
        Put(kind=MODEL, id=id, body=msgspec.json.encode(one), index={"variant": variant}) for id, one in known.items()
    ])  # fmt: skip


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
    for beginning in step.cancel:
        await tx.cancel(beginning)
    await tx.append([scribe.wrap(event, cause=cause, source="pipeline") for event in step.events])
    context = "" if begins_round(step.jobs, cause) else trace.written(trace.because(cause))
    await ask(tx, step.jobs, ids, cause.time, scribe=scribe, context=context)
    await note(tx, variant, step.verdicts)
    await _change(tx, variant, step.models, cause.time)
    if step.account is not None:
        await tx.put([Put(kind=BUDGET, id=RUN, body=msgspec.json.encode(step.account))])
    if step.decision is not None:
        # One decision per model and event: named by the event that brought it, so that a model judged twice has two.
        id = f"{variant}:{cause.id}"
        decision = msgspec.structs.replace(step.decision, id=id)
        await tx.put([
            Put(kind=DECISION, id=id, body=msgspec.json.encode(decision), index={"variant": variant}),
            Put(kind=EVIDENCE, id=id, body=msgspec.json.encode(step.evidence)),
        ])  # fmt: skip
