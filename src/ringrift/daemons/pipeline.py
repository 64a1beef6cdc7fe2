"""Runs the loop: one event in, one step of every line that it concerns out, all in one transaction."""

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.evaluation.tally import BlockScore
from ringrift.events import data, evaluation, model, node, selfplay, training, work
from ringrift.events.base import Envelope, Event, LineEvent
from ringrift.events.pipeline import Opened, Requested
from ringrift.kernel.failpoint import failpoint
from ringrift.kernel.settings import Policy, WorkSettings
from ringrift.kernel.value import changed
from ringrift.pipeline.decide import decide
from ringrift.pipeline.line import DECISIONS, LINES, Line
from ringrift.pipeline.line_settings import LINE_SETTINGS, LineSettings, policy_of
from ringrift.pipeline.machine import new_line
from ringrift.pipeline.ratings import count_blocks, forget_node, ratings_of, record_blocks
from ringrift.pipeline.records import account_of, carry_out, evidence_of
from ringrift.pipeline.requests import save_answer
from ringrift.pipeline.signals import FEEDBACK
from ringrift.pipeline.step import PROMOTE, Context, context_for
from ringrift.pipeline.win_rates import record_rates
from ringrift.store.ports import Tx
from ringrift.supervision.spec import Daemon
from ringrift.work.limits import QUARANTINES
from ringrift.work.pressure import EXPORT_QUEUES, MATCH_QUEUES, PRESSURES
from ringrift.work.run_states import CLUSTER, load_run_states

_DEFAULTS = WorkSettings()


async def pipeline(
    event: Event,
    envelope: Envelope,
    tx: Tx,
    *,
    policy: Policy,
    envelopes: EnvelopeFactory,
    work_settings: WorkSettings = _DEFAULTS,
) -> None:
    """Decide about the line that *event* belongs to, or all.  Events of a line that was never opened change nothing."""
    if isinstance(event, Opened) and await LINE_SETTINGS.get(tx, event.variant) is None:
        requires = work_settings.requires
        row = LineSettings(workload=event.workload, params=dict(work_settings.params), requires=requires, policy=policy)
        await LINE_SETTINGS.put_at(tx, {event.variant: row})
    scores: list[BlockScore] = []
    if isinstance(event, evaluation.BlocksPlayed):
        scores = await count_blocks(tx, *await record_blocks(tx, event, envelope.time))
    if isinstance(event, node.Quarantined | node.Released):
        await forget_node(tx, event.node)
    lines = await _lines(tx, event)
    steps = []
    for line in lines:
        own = await policy_of(tx, line.variant, policy)
        context = await _context(tx, line, event, envelope.time, own)
        # The blocks of a candidate's test say nothing about the champion but what its gate decides.
        if scores and (line.candidate is None or line.candidate.model != getattr(event, "candidate", None)):
            context = changed(context, drop=await record_rates(tx, line.variant, line.champion, scores))
        steps.append(decide(line, event, context))
    failpoint("pipeline.before_step")
    for step in steps:
        await carry_out(tx, step, envelope, envelopes)
        if isinstance(event, Requested):
            await save_answer(tx, envelope.id, step)
    failpoint("pipeline.after_step")


async def _lines(tx: Tx, event: Event) -> list[Line]:
    scope = event.scope if isinstance(event, work.RunStateChanged) else ""
    if isinstance(event, node.Quarantined) or scope in (CLUSTER, f"stage:{PROMOTE}"):
        return await LINES.all(tx)
    if isinstance(event, work.PressureChanged):
        return [line for line in await LINES.all(tx) if line.manual_jobs]
    variant = event.variant if isinstance(event, LineEvent) else scope.removeprefix("variant:")
    line = await LINES.get(tx, variant) if variant else None
    if line is None and isinstance(event, Opened):
        line = new_line(event)
    return [] if line is None else [line]


async def _context(tx: Tx, line: Line, event: Event, at: float, policy: Policy) -> Context:
    context = context_for(line, policy, at, await account_of(tx, policy.budget))
    pressures = await PRESSURES.get_many(tx, (*EXPORT_QUEUES, *MATCH_QUEUES))
    feedback = await FEEDBACK.get(tx, line.variant) or context.feedback
    context = changed(context, run_states=await load_run_states(tx), pressures=pressures, feedback=feedback)
    match event:
        case evaluation.BlocksPlayed() | selfplay.BatchFinished():
            return changed(context, quarantined=frozenset(await QUARANTINES.get_many(tx, [event.node])))
        case data.Exported() if event.refused:
            origins = await tx.origins([event.samples, *event.refused])
            makers = {(row.workload, row.version) for row in origins if row.blob == event.samples}
            readable = {row.blob for row in origins if (row.workload, row.version) in makers}
            return changed(context, unreadable=frozenset(row.blob for row in origins) - readable)
        case evaluation.Rated():
            return changed(context, ratings=await ratings_of(tx, line.variant))
        case node.Quarantined():
            decisions = await DECISIONS.all(tx, "model", line.champion or "")
            made = [decision for decision in decisions if decision.promoted and decision.variant == line.variant]
            if made:
                return changed(context, promotion=(made[-1], tuple(await evidence_of(tx, made[-1]))))
    return context


_EVENTS = (
    *(Opened, Requested, selfplay.BatchFinished, data.Synced, data.Exported, training.Finished, model.Verified),
    *(evaluation.BlocksPlayed, evaluation.Finished, evaluation.Rated, model.Distributed, model.RolledBack),
    model.Returned,
    *(work.Buried, work.PressureChanged, work.RunStateChanged, node.Quarantined, node.Released),
)
SPEC = Daemon(name="pipeline", run=pipeline, role="pipeline", on=_EVENTS, category="training", critical=True)
