"""Watches whether nodes report what they have played, and shuts out those that do not."""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from ringrift import __version__
from ringrift.bus.scribe import Scribe
from ringrift.cluster.roster import KIND as NODE
from ringrift.cluster.roster import NODES_MAX, NodeRecord
from ringrift.daemons.watch import LOST
from ringrift.evaluation import canary, homogeneity
from ringrift.evaluation.canary import Canaries
from ringrift.evaluation.homogeneity import Tally
from ringrift.events import evaluation, node, selfplay, work
from ringrift.events.base import Envelope, Event
from ringrift.jobs import Match
from ringrift.kernel.ids import Ids
from ringrift.kernel.value import Value
from ringrift.pipeline import trust as machine
from ringrift.pipeline.records import LINES_MAX
from ringrift.pipeline.step import changed
from ringrift.pipeline.trust import CANARIES, KIND, MAJORITY_MIN, SETTLE_SECONDS, TALLY, Known, Result, Trust, Turn
from ringrift.store.ports import Put, Reads, Tx
from ringrift.supervision.spec import Daemon
from ringrift.work import quarantine
from ringrift.work.desk import RETURNED_AT_ONCE_MAX, StoreDesk, ask
from ringrift.work.limits import KINDS

V = TypeVar("V", bound=Value)
FLEET, JOINED = "fleet", "joined"
"""The record of when somebody last joined."""


async def trust(
    event: Event, envelope: Envelope, tx: Tx, *, node_id: str, ids: Ids, scribe: Scribe, desk: StoreDesk
) -> None:
    """Take in what a node has reported or what became of it."""
    match event:
        case selfplay.BatchFinished() | evaluation.BlocksPlayed() | node.CanaryPlayed():
            known = await _known(tx, event.node, event.variant, node_id, envelope.time, event)
            await _carry_out(tx, known, machine.take(known, event, envelope.time), envelope, ids=ids, scribe=scribe)
        case work.Buried():
            asked = machine.node_of(event.key)
            if asked is not None:
                known = await _known(tx, asked, event.variant, node_id, envelope.time)
                await _carry_out(tx, known, machine.give_up(known, event), envelope, ids=ids, scribe=scribe)
        case node.Quarantined():
            await _shut_out(tx, event, desk)
        case node.Released():
            await _start_anew(tx, event.node)
        case node.Left() | node.Lost():
            await _no_canaries(tx, event.node)
        case node.Joined():
            await tx.put([Put(kind=FLEET, id=JOINED, body=msgspec.json.encode(envelope.time))])


# -- what is written down ----------------------------------------------------------------------------------------------


async def _known(tx: Tx, of: str, variant: str, leader: str, at: float, event: Result | None = None) -> Known:
    """What the machine must know: only as much as *event* makes it look at."""
    canaries = await _one(tx, CANARIES, variant, Canaries)
    fresh = canary.fresh(variant, __version__)
    if canaries is None or canaries.seed != fresh.seed:
        canaries = fresh
    shut_out = frozenset(await quarantine.everyone(tx))
    known = Known(trust=await _one(tx, KIND, of, Trust) or Trust(node=of), canaries=canaries, quarantined=shut_out)
    match event:
        case evaluation.BlocksPlayed():
            known = changed(known, tallies=tuple(await _tallies(tx)))
        case node.CanaryPlayed():
            voters = await _voters(tx) - shut_out
            alone = len(voters) < MAJORITY_MIN and await _is_settled(tx, at)
            trusted = leader if leader in voters and alone else None
            known = changed(known, trusted=trusted, agree=canary.agreeing(len(voters)))
    return known


async def _is_settled(tx: Tx, at: float) -> bool:
    """Whether nobody has joined for so long that no more are to be expected."""
    body = (await tx.get(FLEET, [JOINED])).get(JOINED)
    return body is None or at - msgspec.json.decode(body, type=float) >= SETTLE_SECONDS


async def _voters(tx: Tx) -> set[str]:
    """The nodes that are here and play matches."""
    lost = {record.id for record in await tx.scan(LOST, "", NODES_MAX)}
    everyone = [msgspec.json.decode(one.body, type=NodeRecord) for one in await tx.scan(NODE, "", NODES_MAX)]
    return {one.id for one in everyone if not one.gone and Match.kind() in KINDS[one.profile]} - lost


async def _one(view: Reads, kind: str, id: str, type: type[V]) -> V | None:
    body = (await view.get(kind, [id])).get(id)
    return None if body is None else msgspec.json.decode(body, type=type)


async def _tallies(view: Reads) -> list[Tally]:
    found = await view.scan(TALLY, "", 2 * machine.TALLIES_MAX)
    return [msgspec.json.decode(one.body, type=Tally) for one in found]


async def _put_tallies(tx: Tx, tallies: Sequence[Tally], before: Sequence[Tally]) -> None:
    fresh = [tally for tally in tallies if tally not in before]
    await tx.put([Put(kind=TALLY, id=tally.match, body=msgspec.json.encode(tally)) for tally in fresh])


async def _carry_out(tx: Tx, before: Known, turn: Turn, cause: Envelope, *, ids: Ids, scribe: Scribe) -> None:
    """Write everything that *turn* calls for."""
    after = turn.known
    if after == before:
        return
    await tx.put([Put(kind=KIND, id=after.trust.node, body=msgspec.json.encode(after.trust))])
    if after.canaries != before.canaries:
        await tx.put([Put(kind=CANARIES, id=after.canaries.variant, body=msgspec.json.encode(after.canaries))])
    await _put_tallies(tx, after.tallies, before.tallies)
    await tx.delete(TALLY, turn.dropped)
    for said, why in zip(turn.events, turn.verdicts, strict=True):
        await quarantine.shut_out(tx, said.node, why)
    await tx.append([scribe.wrap(said, cause=cause, source="trust") for said in turn.events])
    # A canary belongs to no line's story, as the node's next one does not to that of this one.
    await ask(tx, turn.jobs, ids, cause.time, scribe=scribe, context="")


# -- what becomes of a node --------------------------------------------------------------------------------------------


async def _shut_out(tx: Tx, event: node.Quarantined, desk: StoreDesk) -> None:
    """Take its games away: those it reported from the tallies, those under way from its hands."""
    if event.node not in await quarantine.of(tx, [event.node]):
        return  # released again before this was read
    await _no_canaries(tx, event.node)
    tallies = await _tallies(tx)
    await _put_tallies(tx, [homogeneity.without(tally, {event.node}) for tally in tallies], tallies)
    claimed = await tx.jobs(("claimed",), RETURNED_AT_ONCE_MAX, holder=event.node)
    games = [row for row in claimed if row.kind in quarantine.REFUSED]
    await desk.take_back(tx, games, f"node {event.node} is quarantined", started=False)


async def _start_anew(tx: Tx, of: str) -> None:
    """What a node once said of canaries is not held against it: it may have been mended."""
    await tx.delete(KIND, [of])
    known = [msgspec.json.decode(one.body, type=Canaries) for one in await tx.scan(CANARIES, "", LINES_MAX)]
    kept = [(one, canary.forgotten(one, of)) for one in known]
    await tx.put([
        Put(kind=CANARIES, id=after.variant, body=msgspec.json.encode(after)) for one, after in kept if after != one
    ])  # fmt: skip


async def _no_canaries(tx: Tx, of: str) -> None:
    """Canaries wait for one node only, and nobody else will play them when it is gone."""
    if await tx.cancel(Match.canaries(of)):
        found = await _one(tx, KIND, of, Trust)
        if found is not None:
            body = msgspec.json.encode(changed(found, under_way=0))
            await tx.put([Put(kind=KIND, id=of, body=body)])


SPEC = Daemon(
    name="trust",
    run=trust,
    on=(
        selfplay.BatchFinished, evaluation.BlocksPlayed, node.CanaryPlayed, work.Buried, node.Quarantined,
        node.Released, node.Joined, node.Left, node.Lost,
    ),
    role="trust",
    after=("pipeline",),
    profiles=frozenset({"coordinator", "full"}),
    category="evaluation",
)  # fmt: skip
