"""Watches lines that take too long, nodes that fall silent and readers that stand still, and says each once."""

import msgspec

from ringrift.bus.scribe import Scribe
from ringrift.cluster import silence
from ringrift.cluster.leadership import Roles
from ringrift.cluster.roster import NODES_MAX, Roster
from ringrift.events.base import Event
from ringrift.events.pipeline import Overdue
from ringrift.kernel.clock import Clock
from ringrift.kernel.settings import BusSettings, Policy, StageLimits
from ringrift.kernel.watch import Watch
from ringrift.pipeline.overdue import KIND as STAY
from ringrift.pipeline.overdue import Stay, overdue, stay
from ringrift.pipeline.records import LINES_MAX, lines
from ringrift.store.ports import Put, Store, Tx
from ringrift.supervision.spec import Daemon

LOST = "lost_node"


async def watch(
    *, store: Store, roster: Roster, roles: Roles, scribe: Scribe, clock: Clock, policy: Policy,
    bus_settings: BusSettings, reader_watch: Watch,
) -> None:  # fmt: skip
    """Look once.  What was said is written down with it, so that another watcher does not say it again."""
    now, tick = clock.now(), clock.tick()
    everyone, silent = await roster.look()
    async with store.read() as view:
        rows = await view.readers()
    still = [seen.name for seen in reader_watch.overdue(silence.standing(rows, bus_settings), tick)]
    lapsed = silence.lapsed(rows, still, now, bus_settings)
    async with store.begin() as tx:
        await roles.check("watch", tx)
        lost = {record.id: int(record.body) for record in await tx.scan(LOST, "", NODES_MAX)}
        turn = silence.turn(everyone, silent, lost, roster.patience_seconds)
        if turn.lost != lost:
            await tx.delete(LOST, [id for id in lost if id not in turn.lost])
            await tx.put([Put(kind=LOST, id=id, body=str(beat).encode()) for id, beat in turn.lost.items()])
        places = await tx.places()
        standing = [one for one in lapsed if places.get(one.reader) == one.position]
        if standing:
            await tx.lapse([(one.reader, one.position) for one in standing])
        said: list[Event] = [*turn.events, *standing, *await _overdue(tx, now, policy.stages)]
        await tx.append([scribe.wrap(event, source="watch") for event in said])


async def _overdue(tx: Tx, now: float, limits: StageLimits) -> list[Overdue]:
    """The stays that have become overdue, each written down."""
    told = {record.id: msgspec.json.decode(record.body, type=Stay) for record in await tx.scan(STAY, "", LINES_MAX)}
    said = []
    for line in await lines(tx):
        late = overdue(line, now, limits)
        if late is not None and told.get(line.variant) != stay(line):
            await tx.put([Put(kind=STAY, id=line.variant, body=msgspec.json.encode(stay(line)))])
            said.append(Overdue(variant=line.variant, stage=line.stage, seconds=late.value, limit=late.limit))
    return said


SPEC = Daemon(
    name="watch", run=watch, every="cluster.watch_seconds", role="watch", after=("elect",),
    profiles=frozenset({"coordinator", "full"}), category="health",
)  # fmt: skip
