"""Watches lines that take too long, nodes that fall silent and readers that stand still, and reports each once."""

from collections.abc import Mapping
from typing import TypeVar

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster import liveness
from ringrift.cluster.leadership import Roles
from ringrift.cluster.liveness import LOST_NODES, STALLS, STARTING, SUSPECTS
from ringrift.cluster.roster import NodeState, Roster
from ringrift.events.base import Event
from ringrift.events.pipeline import Overdue
from ringrift.kernel.clock import Clock
from ringrift.kernel.settings import BusSettings, Policy
from ringrift.kernel.stall_detector import StallDetector
from ringrift.pipeline.line import LINES, STAYS, overdue, stay
from ringrift.pipeline.line_settings import policy_of
from ringrift.store.ports import Store, Tx
from ringrift.store.records import Records
from ringrift.supervision.spec import Daemon
from ringrift.work.run_states import CLUSTER, load_run_states

T = TypeVar("T")


async def watch(
    *, store: Store, roster: Roster, roles: Roles, envelopes: EnvelopeFactory, clock: Clock, policy: Policy,
    bus_settings: BusSettings, memory: StallDetector,
) -> None:  # fmt: skip
    """Look once.  What was reported is stored with it, so that another watcher does not report it again."""
    now, tick = clock.now(), clock.tick()
    nodes = await roster.all_beats()
    async with store.read() as view:
        rows, stalls = await view.readers(), await STALLS.scan(view)
    states = roster.judge(nodes)
    silent = {id: roster.lost_seconds(id) for id, state in states.items() if state is NodeState.LOST}
    stalled = [row.name for row in memory.stalled(liveness.reader_observations(rows, stalls, bus_settings), tick)]
    lapsed, counts = liveness.count_stalls(rows, stalls, stalled, bus_settings)
    async with store.begin() as tx:
        await roles.check("watch", tx)
        lost = await LOST_NODES.scan(tx)
        changes, still_lost = liveness.node_changes(nodes, silent, lost)
        await _replace(tx, LOST_NODES, lost, still_lost)
        suspects = await SUSPECTS.scan(tx)
        suspected = liveness.suspected_nodes(nodes, states, {**suspects, **lost}, roster.suspect_seconds)
        beats = {node.id: node.beat for node in nodes if states[node.id] is NodeState.SUSPECT}
        await _replace(tx, SUSPECTS, suspects, beats)
        beats = {node.id: node.beat for node in nodes if states[node.id] is NodeState.STARTING}
        starting = {id: beat for id, beat in beats.items() if id not in still_lost}
        await _replace(tx, STARTING, await STARTING.scan(tx), starting)
        await _replace(tx, STALLS, stalls, counts)
        positions = await tx.positions()
        lapsed = [event for event in lapsed if positions.get(event.reader) == event.position]
        if lapsed:
            await tx.lapse_readers([(event.reader, event.position) for event in lapsed])
        events: list[Event] = [*changes, *suspected, *lapsed, *await _overdue(tx, now, policy)]
        await tx.append([envelopes.make(event, source="watch") for event in events])


async def _replace(tx: Tx, records: Records[T], before: Mapping[str, T], after: Mapping[str, T]) -> None:
    """Store *after* in the place of *before*; nothing is written where both are equal."""
    if after != before:
        await records.delete(tx, [id for id in before if id not in after])
        await records.put_at(tx, after)


async def _overdue(tx: Tx, now: float, policy: Policy) -> list[Overdue]:
    reported, events, run_states = await STAYS.scan(tx), [], (await load_run_states(tx)).in_force(now)
    # A line that a person has stopped may take all the time; a braked stage may be any line's next.
    braked = {state.scope for state in run_states}
    has_stopped_stage = any(scope == CLUSTER or scope.startswith("stage:") for scope in braked)
    for line in await LINES.all(tx):
        limits = (await policy_of(tx, line.variant, policy)).stages
        late = None if has_stopped_stage or f"variant:{line.variant}" in braked else overdue(line, now, limits)
        if late is not None and reported.get(line.variant) != stay(line):
            await STAYS.put_at(tx, {line.variant: stay(line)})
            events.append(Overdue(variant=line.variant, stage=line.stage, seconds=late.value, limit=late.limit))
    return events


_SECONDS = "cluster.watch_seconds"
SPEC = Daemon(name="watch", run=watch, role="watch", memory=StallDetector, every=_SECONDS, category="health")
