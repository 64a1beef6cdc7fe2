"""Runs the loop: one event in, one step of the machine out, all in one transaction."""

from ringrift.bus.scribe import Scribe
from ringrift.events import data, evaluation, model, node, selfplay, training, work
from ringrift.events.base import Envelope, Event, LineEvent
from ringrift.events.pipeline import Opened, Requested
from ringrift.kernel.failpoint import failpoint
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import Policy
from ringrift.pipeline import distrust, matches, signals, standing
from ringrift.pipeline.asking import keep_answer
from ringrift.pipeline.held import held_back
from ringrift.pipeline.line import Line
from ringrift.pipeline.machine import advance, open_line
from ringrift.pipeline.records import account_of, carry_out, decisions_of, evidence_of, lines, load, note
from ringrift.pipeline.step import Step, changed
from ringrift.store.ports import Tx
from ringrift.supervision.spec import Daemon
from ringrift.work import quarantine


async def pipeline(event: Event, envelope: Envelope, tx: Tx, *, policy: Policy, ids: Ids, scribe: Scribe) -> None:
    """Advance the line that *event* belongs to, or all.  Events of a line that was never opened change nothing."""
    if isinstance(event, evaluation.BlocksPlayed):
        await standing.count(tx, *await matches.note(tx, event, envelope.time))
    steps: list[tuple[Line | None, Step]] = []
    if isinstance(event, node.Quarantined | node.Released):
        await standing.new_era(tx, event.node)
    if isinstance(event, node.Quarantined):
        steps = [(line, await _without(tx, line, event.node, policy)) for line in await lines(tx)]
    elif isinstance(event, LineEvent):
        line = await load(tx, event.variant)
        if line is not None:
            steps = [(line, await _step(tx, line, event, envelope.time, policy))]
        elif isinstance(event, Opened):
            steps = [(None, open_line(event, policy, envelope.time))]
    failpoint("pipeline.before_step")
    for before, step in steps:
        allowed = held_back(before, step, event, policy, envelope.time)
        await carry_out(tx, allowed, envelope, ids=ids, scribe=scribe)
        if isinstance(event, Requested):
            await keep_answer(tx, envelope, event, step)
    failpoint("pipeline.after_step")


async def _step(tx: Tx, line: Line, event: LineEvent, at: float, policy: Policy) -> Step:
    """One step of the machine; what a quarantined node reports is no evidence."""
    match event:
        case evaluation.BlocksPlayed() | selfplay.BatchFinished() if await quarantine.of(tx, [event.node]):
            return distrust.unheard(line, event, policy)
    policy = await _steered(tx, line, policy, at)
    return signals.ahead(advance(line, event, policy, at, await account_of(tx, policy.budget)), policy.lead, at)


async def _steered(tx: Tx, line: Line, policy: Policy, at: float) -> Policy:
    """*policy* as feedback wants it for *line*; what has expired is forgotten."""
    influence = await signals.load(tx, line.variant)
    left = signals.in_force(influence.effects, at)
    if left != influence.effects:
        over = [effect for effect in influence.effects if effect not in left]
        await signals.save(tx, changed(influence, effects=left))
        await note(tx, line.variant, tuple(signals.expired(effect, at) for effect in over))
    return signals.steered(line, influence, policy, at)


async def _without(tx: Tx, line: Line, suspect: str, policy: Policy) -> Step:
    """What *line* does now that *suspect* is quarantined; the decision that made its champion is taken once more."""
    step = distrust.shut_out(line, suspect, policy)
    made = [one for one in await decisions_of(tx, line.variant) if one.promoted and one.model == line.champion]
    if not made:
        return step
    rows = await evidence_of(tx, made[-1])
    return distrust.in_doubt(step, made[-1], [row.block for row in rows], suspect, policy)


SPEC = Daemon(
    name="pipeline",
    run=pipeline,
    on=(
        Opened, Requested, selfplay.BatchFinished, data.Synced, data.Exported, training.Finished, model.Verified,
        evaluation.BlocksPlayed, model.Distributed, work.Buried, node.Quarantined,
        node.Released,
    ),
    role="pipeline",
    after=("elect",),
    profiles=frozenset({"coordinator", "full"}),
    category="training",
    critical=True,
)  # fmt: skip
