"""Keeps self-play under way for every line that wants games."""

from ringrift.bus.scribe import Scribe
from ringrift.events import data, pipeline, selfplay, work
from ringrift.events.base import Envelope, Event, LineEvent
from ringrift.jobs import Play
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import Policy
from ringrift.pipeline.fill import may_play, top_up
from ringrift.pipeline.held import by_itself
from ringrift.pipeline.records import lines, load, note, save
from ringrift.store.ports import Tx
from ringrift.supervision.spec import Daemon
from ringrift.work.desk import ask
from ringrift.work.limits import may_fill


async def fill(event: Event, envelope: Envelope, tx: Tx, *, policy: Policy, ids: Ids, scribe: Scribe) -> None:
    """Top up the Play jobs of the line that *event* belongs to, or of all lines."""
    if isinstance(event, LineEvent):
        line = await load(tx, event.variant)
        wanted = [] if line is None else [line]
    else:
        wanted = await lines(tx)
    ready = sum(count for (_, state), count in (await tx.tally()).items() if state == "ready")
    for line in wanted:
        verdict = may_fill(ready, envelope.time)
        if verdict.allowed:
            verdict = by_itself(may_play(line, policy, envelope.time), policy)
        await note(tx, line.variant, (verdict,))
        if verdict.allowed:
            tally = await tx.tally(line.variant)
            under_way = tally.get((Play.kind(), "ready"), 0) + tally.get((Play.kind(), "claimed"), 0)
            line, jobs = top_up(line, under_way, policy)
            await save(tx, line)
            # Each begins a story of its own: what comes of one leads to the next, and one story would never end.
            await ask(tx, jobs, ids, envelope.time, scribe=scribe, context="")


# Whatever ends a Play job or opens a gate is in this list, so the queue can never run dry unseen.  The line's own moves
# are told in the transaction that makes them: reading the events that cause them could see the line before it moved.
# A line that is there already is opened again when a node starts, and perhaps with another policy than before.
SPEC = Daemon(
    name="fill",
    run=fill,
    on=(pipeline.Opened, selfplay.BatchFinished, pipeline.Moved, data.Lost, work.Buried, work.PressureChanged),
    role="fill",
    after=("pipeline",),
    profiles=frozenset({"coordinator", "full"}),
    category="training",
)  # fmt: skip
