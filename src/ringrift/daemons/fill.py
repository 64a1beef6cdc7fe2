"""Keeps self-play under way for every line that can use games."""

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.events import data, pipeline, selfplay, work
from ringrift.events.base import Envelope, Event, LineEvent
from ringrift.jobs import Play
from ringrift.kernel.settings import Policy
from ringrift.pipeline.line import LINES, may_play, top_up
from ringrift.pipeline.records import save_line, save_verdicts
from ringrift.pipeline.requests import require_auto
from ringrift.store.ports import Tx
from ringrift.supervision.spec import Daemon
from ringrift.work.desk import enqueue
from ringrift.work.limits import may_fill


async def fill(event: Event, envelope: Envelope, tx: Tx, *, policy: Policy, envelopes: EnvelopeFactory) -> None:
    """Top up the Play jobs of the line that *event* belongs to, or of all lines."""
    if isinstance(event, LineEvent):
        line = await LINES.get(tx, event.variant)
        lines = [] if line is None else [line]
    else:
        lines = await LINES.all(tx)
    ready = sum(count for (_, state), count in (await tx.count_jobs()).items() if state == "ready")
    for line in lines:
        verdict = may_fill(ready, envelope.time)
        if verdict.allowed:
            verdict = require_auto(may_play(line, policy, envelope.time), policy)
        await save_verdicts(tx, line.variant, (verdict,))
        if verdict.allowed:
            counts = await tx.count_jobs(line.variant)
            live = counts.get((Play.kind(), "ready"), 0) + counts.get((Play.kind(), "claimed"), 0)
            line, jobs = top_up(line, live, policy)
            await save_line(tx, line)
            # Each begins a trace of its own: its result leads to the next, and one trace would never end.
            await enqueue(tx, jobs, envelopes, envelope.time)


# Every event that ends a Play job or opens a gate is in this list, so the queue cannot run dry.  A line's own moves are
# published in the transaction that makes them: an event that causes one may be read before the line has moved.
_EVENTS = (pipeline.Opened, selfplay.BatchFinished, pipeline.Moved, data.Lost, work.Buried, work.PressureChanged)
SPEC = Daemon(name="fill", run=fill, role="fill", after=("pipeline",), on=_EVENTS, category="training")
