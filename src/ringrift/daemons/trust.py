"""Watches whether nodes report what they have played, and quarantines those that do not."""

from ringrift import __version__
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster.liveness import LOST_NODES
from ringrift.cluster.roster import NODES
from ringrift.evaluation import canary, homogeneity
from ringrift.events import evaluation, node, selfplay, work
from ringrift.events.base import Envelope, Event
from ringrift.jobs import GAME_KINDS, JobFilter, Match, Purpose
from ringrift.kernel.value import changed
from ringrift.pipeline import trust as rules
from ringrift.pipeline.line_settings import LINE_SETTINGS
from ringrift.store.ports import Tx
from ringrift.store.records import Records
from ringrift.supervision.spec import Daemon
from ringrift.work.desk import REVOKED_AT_ONCE_MAX, StoreDesk, cancel, enqueue
from ringrift.work.limits import KINDS, QUARANTINES
from ringrift.work.pressure import MATCH_QUEUES, PRESSURES, SOFT, hardest, require_room

_FLEET, _JOINED = Records("fleet_beat", int), "joined"  #: The leader's beat when a node last joined.


async def trust(event: Event, envelope: Envelope, tx: Tx, *, envelopes: EnvelopeFactory, desk: StoreDesk) -> None:
    """React to a report of a node, or to a change of the node itself."""
    at = envelope.time
    match event:
        case selfplay.BatchFinished() | evaluation.BlocksPlayed() | node.CanaryPlayed():
            state = await _load(tx, event.node, event.variant, envelopes.node, at, event)
            await _carry_out(tx, state, rules.judge_result(state, event, at), envelope, envelopes)
        case work.Buried(purpose=Purpose.CANARY):
            state = await _load(tx, event.target, event.variant, envelopes.node, at)
            await _carry_out(tx, state, rules.give_up_canary(state, event), envelope, envelopes)
        case node.Quarantined():
            await _quarantine(tx, event, desk, envelopes)
        case node.Released():
            await _start_anew(tx, event.node)
        case node.Left() | node.Lost():
            await _cancel_canaries(tx, event.node, envelopes)
        case node.Joined():
            await _FLEET.put_at(tx, {_JOINED: await _beat_of(tx, envelopes.node)})


async def _load(
    tx: Tx, of: str, variant: str, leader: str, at: float, event: rules.Result | None = None
) -> rules.TrustState:
    """The state that *event* is judged by: only as much as it makes the judge look at."""
    canaries = await rules.CANARIES.get(tx, variant)
    line = await LINE_SETTINGS.get(tx, variant)
    fresh = canary.fresh(variant, __version__, line.baselines if line else None)
    if canaries is None or canaries.seed != fresh.seed or (fresh.refused and not canaries.refused):
        canaries = fresh
    quarantined = frozenset(await QUARANTINES.scan(tx))
    record = await rules.TRUSTS.get(tx, of) or rules.Trust(node=of)
    pressure = hardest((await PRESSURES.get_many(tx, MATCH_QUEUES)).values())
    room = require_room("canary", pressure, SOFT, at).allowed
    state = rules.TrustState(trust=record, canaries=canaries, quarantined=quarantined, room=room)
    match event:
        case evaluation.BlocksPlayed():
            return changed(state, tallies=tuple(await rules.TALLIES.all(tx)))
        case node.CanaryPlayed():
            voters, joined = await _voters(tx) - quarantined, await _FLEET.get(tx, _JOINED)
            # No more nodes are to be expected once none has joined for long, by the leader's monotonic clock.
            beat = await _beat_of(tx, leader)
            if joined is not None and beat < joined:  # the machine was started again: the time begins anew
                await _FLEET.put_at(tx, {_JOINED: beat})
            is_settled = joined is None or beat - joined >= 1000 * rules.SETTLE_SECONDS
            is_alone = len(voters) < rules.MAJORITY_MIN and is_settled
            trusted = leader if leader in voters and is_alone else None
            return changed(state, trusted=trusted, agree=canary.agreement(len(voters)))
    return state


async def _beat_of(tx: Tx, node: str) -> int:
    """The milliseconds on the monotonic clock of *node* at its last heartbeat."""
    record = await NODES.get(tx, node)
    return 0 if record is None else record.beat


async def _voters(tx: Tx) -> set[str]:
    """The nodes that are here and play matches."""
    present = [record for record in await NODES.all(tx) if not record.gone]
    return {record.id for record in present if Match.kind() in KINDS[record.profile]} - set(await LOST_NODES.scan(tx))


async def _carry_out(
    tx: Tx, before: rules.TrustState, step: rules.TrustStep, cause: Envelope, envelopes: EnvelopeFactory
) -> None:
    after = step.state
    if after == before:
        return
    await rules.TRUSTS.put(tx, [after.trust])
    if after.canaries != before.canaries:
        await rules.CANARIES.put(tx, [after.canaries])
    await rules.TALLIES.put(tx, [tally for tally in after.tallies if tally not in before.tallies])
    await rules.TALLIES.delete(tx, step.dropped)
    await QUARANTINES.put_at(tx, {event.node: why for event, why in zip(step.events, step.verdicts, strict=True)})
    await tx.append([envelopes.make(event, cause=cause, source="trust") for event in step.events])
    # A canary belongs to the trace of no line, nor to that of the node's last one.
    await enqueue(tx, step.jobs, envelopes, cause.time)


async def _quarantine(tx: Tx, event: node.Quarantined, desk: StoreDesk, envelopes: EnvelopeFactory) -> None:
    """Take the games of the node away: those it reported from the tallies, those it is playing by their leases."""
    if await QUARANTINES.get(tx, event.node) is None:
        return  # released again before this was read
    await _cancel_canaries(tx, event.node, envelopes)
    before = await rules.TALLIES.all(tx)
    after = [homogeneity.without(tally, {event.node}) for tally in before]
    await rules.TALLIES.put(tx, [tally for tally in after if tally not in before])
    claimed = await tx.jobs(("claimed",), REVOKED_AT_ONCE_MAX, holder=event.node)
    games = [row for row in claimed if row.kind in GAME_KINDS]
    await desk.revoke(tx, games, f"node {event.node} is quarantined", started=False)


async def _start_anew(tx: Tx, of: str) -> None:
    """Forget what a released node once reported of canaries: it may have been mended."""
    await rules.TRUSTS.delete(tx, [of])
    before = await rules.CANARIES.all(tx)
    after = [canary.forget(canaries, of) for canaries in before]
    await rules.CANARIES.put(tx, [canaries for canaries in after if canaries not in before])


async def _cancel_canaries(tx: Tx, of: str, envelopes: EnvelopeFactory) -> None:
    """Cancel the canaries of a node that is gone: they wait for it alone."""
    if await cancel(tx, JobFilter(purpose=Purpose.CANARY, node=of), envelopes):
        record = await rules.TRUSTS.get(tx, of)
        if record is not None:
            await rules.TRUSTS.put(tx, [changed(record, open_jobs=0)])


_EVENTS = (
    *(selfplay.BatchFinished, evaluation.BlocksPlayed, node.CanaryPlayed, work.Buried),
    *(node.Quarantined, node.Released, node.Joined, node.Left, node.Lost),
)
SPEC = Daemon(name="trust", run=trust, role="trust", after=("pipeline",), on=_EVENTS, category="evaluation")
