"""Feels how each line gets on: says when its pace changes or it no longer gets stronger, and what follows from that."""

import msgspec

from ringrift.bus.scribe import Scribe
from ringrift.events import evaluation, model
from ringrift.events.base import Envelope
from ringrift.kernel.settings import Policy
from ringrift.kernel.variant import parse
from ringrift.pipeline import signals, standing
from ringrift.pipeline.feedback import KIND, Pace, feel
from ringrift.pipeline.records import note
from ringrift.pipeline.signals import Signal
from ringrift.pipeline.step import changed
from ringrift.store.ports import Put, Tx
from ringrift.supervision.spec import Daemon

Heard = evaluation.Finished | evaluation.Reviewed | evaluation.Rated | model.Promoted | model.RolledBack


async def feedback(event: Heard, envelope: Envelope, tx: Tx, *, policy: Policy, scribe: Scribe) -> None:
    """Take in what was decided or computed about one line."""
    match event:
        case evaluation.Finished():
            await standing.mark_due(tx, event.variant)
            await _act(tx, event.variant, envelope.time, await _felt(event, envelope, tx, policy, scribe))
        case evaluation.Reviewed():
            await standing.mark_due(tx, event.variant)
        case model.Promoted():
            known = await standing.load(tx, event.variant)
            await standing.save(tx, standing.enthroned(known, event.model, event.generation, envelope.time))
        case model.RolledBack():
            known = await standing.load(tx, event.variant)
            await standing.save(tx, standing.enthroned(known, event.to, event.generation, envelope.time))
            lost = signals.regression(event.evidence, parse(event.variant).players)
            await _act(tx, event.variant, envelope.time, lost)
        case evaluation.Rated():
            known = standing.rated(await standing.load(tx, event.variant), event, envelope.time)
            await standing.save(tx, known)
            pace = signals.pace_of(known.reigns, envelope.time)
            influence = await signals.load(tx, event.variant)
            await signals.save(tx, changed(influence, pace=pace))
            await _act(tx, event.variant, envelope.time, signals.stall(pace))


async def _felt(event: evaluation.Finished, envelope: Envelope, tx: Tx, policy: Policy, scribe: Scribe) -> Signal:
    """Take in one decided match: the trend and the plateau that are said, and what of it is certain."""
    body = (await tx.get(KIND, [event.variant])).get(event.variant)
    pace = Pace(variant=event.variant) if body is None else msgspec.json.decode(body, type=Pace)
    felt = feel(pace, event, policy, envelope.time)
    await tx.put([Put(kind=KIND, id=event.variant, body=msgspec.json.encode(felt.pace))])
    await tx.append([scribe.wrap(said, cause=envelope, source="feedback") for said in felt.events])
    return signals.plateau(felt.pace.rejections)


async def _act(tx: Tx, variant: str, at: float, *felt: Signal) -> None:
    """Let each signal have its effect, and write down why or why not."""
    influence = await signals.load(tx, variant)
    effects = influence.effects
    for signal in felt:
        effects = signals.felt(effects, signal, at)
    await signals.save(tx, changed(influence, effects=effects))
    await note(tx, variant, tuple(signals.verdict(signal, effects, at) for signal in felt))


SPEC = Daemon(
    name="feedback", run=feedback,
    on=(evaluation.Finished, evaluation.Reviewed, evaluation.Rated, model.Promoted, model.RolledBack),
    role="feedback", after=("pipeline",), profiles=frozenset({"coordinator", "full"}), category="training",
)  # fmt: skip
