"""Runs the loop: one event in, one step of every line that it concerns out, all in one transaction."""

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.events import data, evaluation, model, node, selfplay, training, work
from ringrift.events.base import Envelope, Event, LineEvent
from ringrift.events.pipeline import Opened, Requested
from ringrift.kernel.failpoint import failpoint
from ringrift.kernel.settings import Policy
from ringrift.kernel.value import changed
from ringrift.pipeline.decide import decide
from ringrift.pipeline.line import DECISIONS, LINES, Line
from ringrift.pipeline.machine import new_line
from ringrift.pipeline.ratings import count_blocks, forget_node, ratings_of, record_blocks
from ringrift.pipeline.records import account_of, carry_out, evidence_of
from ringrift.pipeline.requests import save_answer
from ringrift.pipeline.signals import FEEDBACK
from ringrift.pipeline.step import Context, Promotion, context_for
from ringrift.store.ports import Tx
from ringrift.supervision.spec import Daemon
from ringrift.work.limits import QUARANTINES


async def pipeline(event: Event, envelope: Envelope, tx: Tx, *, policy: Policy, envelopes: EnvelopeFactory) -> None:
    """Decide about the line that *event* belongs to, or all.  Events of a line that was never opened change nothing."""
    if isinstance(event, evaluation.BlocksPlayed):
        await count_blocks(tx, *await record_blocks(tx, event, envelope.time))
    if isinstance(event, node.Quarantined | node.Released):
        await forget_node(tx, event.node)
    lines = await _lines(tx, event)
    steps = [decide(line, event, await _context(tx, line, event, envelope.time, policy)) for line in lines]
    failpoint("pipeline.before_step")
    for step in steps:
        await carry_out(tx, step, envelope, envelopes)
        if isinstance(event, Requested):
            await save_answer(tx, envelope.id, step)
    failpoint("pipeline.after_step")


async def _lines(tx: Tx, event: Event) -> list[Line]:
    if isinstance(event, node.Quarantined):
        return await LINES.all(tx)
    line = await LINES.get(tx, event.variant) if isinstance(event, LineEvent) else None
    if line is None and isinstance(event, Opened):
        line = new_line(event)
    return [] if line is None else [line]


async def _context(tx: Tx, line: Line, event: Event, at: float, policy: Policy) -> Context:
    context = context_for(line, policy, at, await account_of(tx, policy.budget))
    feedback = await FEEDBACK.get(tx, line.variant)
    if feedback is not None:
        context = changed(context, feedback=feedback)
    match event:
        case evaluation.BlocksPlayed() | selfplay.BatchFinished():
            return changed(context, quarantined=frozenset(await QUARANTINES.get_many(tx, [event.node])))
        case evaluation.Rated():
            return changed(context, ratings=await ratings_of(tx, line.variant))
        case node.Quarantined():
            decisions = await DECISIONS.all(tx, "variant", line.variant)
            made = [decision for decision in decisions if decision.promoted and decision.model == line.champion]
            if made:
                blocks = tuple(await evidence_of(tx, made[-1]))
                return changed(context, promotion=Promotion(decision=made[-1], blocks=blocks))
    return context


_EVENTS = (
    *(Opened, Requested, selfplay.BatchFinished, data.Synced, data.Exported, training.Finished, model.Verified),
    *(evaluation.BlocksPlayed, evaluation.Finished, evaluation.Rated, model.Distributed, model.RolledBack),
    *(work.Buried, node.Quarantined, node.Released),
)
SPEC = Daemon(name="pipeline", run=pipeline, role="pipeline", on=_EVENTS, category="training", critical=True)
