"""Watches lines that take too long, nodes that fall silent and readers that stand still, and reports each once."""

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.cluster import liveness
from ringrift.cluster.leadership import Roles
from ringrift.cluster.liveness import LOST_NODES
from ringrift.cluster.roster import Roster
from ringrift.events.base import Event
from ringrift.events.pipeline import Overdue
from ringrift.kernel.clock import Clock
from ringrift.kernel.settings import BusSettings, Policy, StageLimits
from ringrift.kernel.stall_detector import StallDetector
from ringrift.pipeline.line import LINES, STAYS, overdue, stay
from ringrift.store.ports import Store, Tx
from ringrift.supervision.spec import Daemon


async def watch(
    *,
    store: Store,
    roster: Roster,
    roles: Roles,
    envelopes: EnvelopeFactory,
    clock: Clock,
    policy: Policy,
    bus_settings: BusSettings,
    memory: StallDetector,
) -> None:
    """Look once.  What was reported is stored with it, so that another watcher does not report it again."""
    now, tick = clock.now(), clock.tick()
    nodes, silent = await roster.survey()
    async with store.read() as view:
        rows = await view.readers()
    stalled = [reader.name for reader in memory.stalled(liveness.reader_observations(rows, bus_settings), tick)]
    lapsed = liveness.lapsed_readers(rows, stalled, now, bus_settings)
    async with store.begin() as tx:
        await roles.check("watch", tx)
        lost = await LOST_NODES.scan(tx)
        changes = liveness.node_changes(nodes, silent, lost, roster.silent_seconds_max)
        if changes.lost != lost:
            await LOST_NODES.delete(tx, [id for id in lost if id not in changes.lost])
            await LOST_NODES.put_at(tx, changes.lost)
        positions = await tx.positions()
        lapsed = [event for event in lapsed if positions.get(event.reader) == event.position]
        if lapsed:
            await tx.lapse_readers([(event.reader, event.position) for event in lapsed])
        events: list[Event] = [*changes.events, *lapsed, *await _overdue(tx, now, policy.stages)]
        await tx.append([envelopes.make(event, source="watch") for event in events])


async def _overdue(tx: Tx, now: float, limits: StageLimits) -> list[Overdue]:
    reported, events = await STAYS.scan(tx), []
    for line in await LINES.all(tx):
        late = overdue(line, now, limits)
        if late is not None and reported.get(line.variant) != stay(line):
            await STAYS.put_at(tx, {line.variant: stay(line)})
            events.append(Overdue(variant=line.variant, stage=line.stage, seconds=late.value, limit=late.limit))
    return events


_SECONDS = "cluster.watch_seconds"
SPEC = Daemon(name="watch", run=watch, role="watch", memory=StallDetector, every=_SECONDS, category="health")
