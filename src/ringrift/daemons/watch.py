"""Watches lines that take too long, nodes that fall silent and readers that stand still, and reports each once."""

from collections.abc import Collection

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster import liveness
from ringrift.cluster.leadership import Roles
from ringrift.cluster.liveness import LOST_NODES, STALLS, SUSPECTS
from ringrift.cluster.roster import Roster
from ringrift.events.base import Event
from ringrift.events.node import Suspected
from ringrift.events.pipeline import Overdue
from ringrift.kernel.clock import Clock
from ringrift.kernel.settings import BusSettings, Policy
from ringrift.kernel.stall_detector import Observation, StallDetector
from ringrift.pipeline.line import LINES, STAYS, overdue, stay
from ringrift.pipeline.line_settings import policy_of
from ringrift.store.ports import Store, Tx
from ringrift.supervision.spec import Daemon
from ringrift.work.run_states import CLUSTER, load_run_states


async def watch(
    *, store: Store, roster: Roster, roles: Roles, envelopes: EnvelopeFactory, clock: Clock, policy: Policy,
    bus_settings: BusSettings, memory: StallDetector,
) -> None:  # fmt: skip
    """Look once.  What was reported is stored with it, so that another watcher does not report it again."""
    now, tick = clock.now(), clock.tick()
    nodes, silent = await roster.survey()
    async with store.read() as view:
        rows, stalls = await view.readers(), await STALLS.scan(view)
    beats = liveness.suspect_observations(nodes, roster.silent_seconds_max)
    stalled = memory.stalled([*liveness.reader_observations(rows, stalls, bus_settings), *beats], tick)
    lapsed, counts = liveness.count_stalls(rows, stalls, [reader.name for reader in stalled], bus_settings)
    async with store.begin() as tx:
        await roles.check("watch", tx)
        lost = await LOST_NODES.scan(tx)
        changes, still_lost = liveness.node_changes(nodes, silent, lost, roster.silent_seconds_max)
        if still_lost != lost:
            await LOST_NODES.delete(tx, [id for id in lost if id not in still_lost])
            await LOST_NODES.put_at(tx, still_lost)
        suspected = await _suspect(tx, [beat for beat in stalled if beat in beats], {*still_lost, *lost})
        if counts != stalls:
            await STALLS.delete(tx, [name for name in stalls if name not in counts])
            await STALLS.put_at(tx, counts)
        positions = await tx.positions()
        lapsed = [event for event in lapsed if positions.get(event.reader) == event.position]
        if lapsed:
            await tx.lapse_readers([(event.reader, event.position) for event in lapsed])
        events: list[Event] = [*changes, *suspected, *lapsed, *await _overdue(tx, now, policy)]
        await tx.append([envelopes.make(event, source="watch") for event in events])


async def _suspect(tx: Tx, silent: list[Observation], lost: Collection[str]) -> list[Suspected]:
    """The nodes of *silent* that were not suspected at this beat before; one that is lost is no suspect any more."""
    events = liveness.suspected_nodes(silent, await SUSPECTS.scan(tx), lost)
    beats = {beat.name.removeprefix("node "): beat.counter for beat in silent}
    await SUSPECTS.put_at(tx, {event.node: beats[event.node] for event in events})
    return events


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
