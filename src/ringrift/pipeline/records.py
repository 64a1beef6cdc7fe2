"""Write a step: the line, its jobs and events, verdicts, models, feedback, the error budget and the decision."""

from collections.abc import Sequence
from typing import Any

from ringrift.bus import trace
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.evaluation.budget import Account, open_account
from ringrift.events import evaluation, model, work
from ringrift.events.base import Envelope
from ringrift.events.evaluation import Block
from ringrift.jobs import Export, Job, Train
from ringrift.kernel.settings import Budget
from ringrift.kernel.value import changed
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import DECISIONS, EVIDENCE, LINES, Decision, Line, check
from ringrift.pipeline.models import MODELS, Change, become
from ringrift.pipeline.ratings import BLOCKS, COUNTS, MATCHES
from ringrift.pipeline.signals import FEEDBACK
from ringrift.pipeline.step import Step
from ringrift.store.ports import Reads, Tx
from ringrift.store.records import Records
from ringrift.work.desk import cancel, enqueue
from ringrift.work.limits import QUARANTINES, VERDICTS, log_verdict

BUDGET, RUN = Records("budget", Account), "run"
CHECKED: tuple[Records[Any], ...] = (DECISIONS, EVIDENCE, BLOCKS, COUNTS, MATCHES, QUARANTINES)
"""The records with checksums: decisions, and the evidence that they rest on."""
_ROUND_ENDS = frozenset(event.name() for event in (model.Distributed, evaluation.BlocksPlayed, work.Buried))


async def save_line(tx: Tx, line: Line) -> None:
    """Write *line*, after checking what must be true of it."""
    check(line)
    await LINES.put(tx, [line])


async def save_verdicts(tx: Tx, variant: str, verdicts: Sequence[Verdict]) -> None:
    """Write what gates decided about *variant*; a wait that goes on keeps its beginning."""
    latest = {f"{variant}:{verdict.gate}": verdict for verdict in verdicts}
    before = await VERDICTS.get_many(tx, list(latest)) if latest else {}
    for id, verdict in latest.items():
        log_verdict(variant, verdict, before.get(id))
    dated = {id: verdict.with_since_of(before.get(id)) for id, verdict in latest.items()}
    await VERDICTS.put_at(tx, dated, {"variant": variant})


async def save_if_new(tx: Tx, id: str, variant: str, verdict: Verdict) -> None:
    """Write *verdict* if it differs by more than its value: its gate is asked all the time."""
    before = await VERDICTS.get(tx, id)
    if before is None or (before.allowed, before.rule) != (verdict.allowed, verdict.rule):
        log_verdict(variant, verdict, before)
        await VERDICTS.put_at(tx, {id: verdict}, {"variant": variant})


async def evidence_of(view: Reads, decision: Decision) -> list[Block]:
    """Every block that *decision* rests on, by number."""
    blocks = await BLOCKS.get_many(view, await EVIDENCE.get(view, decision.id) or ())
    return sorted(blocks.values(), key=lambda block: block.id)


async def account_of(view: Reads, budget: Budget) -> Account:
    """The error budget of the run as it stands."""
    return await BUDGET.get(view, RUN) or open_account(budget)


async def _change_models(tx: Tx, variant: str, changes: Sequence[Change], at: float) -> None:
    """Let models come to their new states, one after the other.  Raises IllegalTransition."""
    models = await MODELS.get_many(tx, [f"{variant}:{change.model}" for change in changes])
    for change in changes:
        id = f"{variant}:{change.model}"
        models[id] = become(models.get(id), variant, change, at)
    await MODELS.put(tx, models.values())


def _begins_round(jobs: Sequence[Job], cause: Envelope) -> bool:
    """Whether *jobs* begin another round of the loop, and with it a trace: one for all rounds would never end."""
    first = any(isinstance(job, Export) or (isinstance(job, Train) and job.samples is None) for job in jobs)
    return first and cause.name in _ROUND_ENDS


async def carry_out(tx: Tx, step: Step, cause: Envelope, envelopes: EnvelopeFactory) -> None:
    """Write everything that *step* calls for."""
    variant = step.line.variant
    await save_line(tx, step.line)
    for obsolete in step.cancel:
        await cancel(tx, obsolete, envelopes)
    await tx.append([envelopes.make(event, cause=cause, source="pipeline") for event in step.events])
    context = "" if _begins_round(step.jobs, cause) else trace.to_text(trace.caused_by(cause))
    await enqueue(tx, step.jobs, envelopes, cause.time, context)
    await save_verdicts(tx, variant, step.verdicts)
    await _change_models(tx, variant, step.models, cause.time)
    if step.feedback is not None:
        await FEEDBACK.put(tx, [step.feedback])
    if step.account is not None:
        await BUDGET.put_at(tx, {RUN: step.account})
    if step.decision is not None:
        # One decision per model and event: named by the event that brought it, so that a model judged twice has two.
        id = f"{variant}:{cause.id}"
        await DECISIONS.put(tx, [changed(step.decision, id=id)])
        await EVIDENCE.put_at(tx, {id: step.evidence})
