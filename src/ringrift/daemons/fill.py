"""Keeps self-play under way for every line that can use games."""

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.events import data, pipeline, selfplay, work
from ringrift.events.base import Envelope, Event, LineEvent
from ringrift.jobs import Play
from ringrift.kernel.settings import Policy
from ringrift.kernel.value import changed
from ringrift.pipeline.line import LINES, may_play, top_up
from ringrift.pipeline.line_settings import policy_of
from ringrift.pipeline.records import save_line, save_verdicts
from ringrift.pipeline.requests import require_auto
from ringrift.store.ports import Tx
from ringrift.supervision.spec import Daemon
from ringrift.work.desk import enqueue
from ringrift.work.durations import batch_size, load_durations
from ringrift.work.pressure import HARD, NONE, PLAY_QUEUES, PRESSURES, hardest, require_room, scaled
from ringrift.work.run_states import load_run_states


async def fill(event: Event, envelope: Envelope, tx: Tx, *, policy: Policy, envelopes: EnvelopeFactory) -> None:
    """Top up the Play jobs of the line that *event* belongs to, or of all lines."""
    if isinstance(event, LineEvent):
        lines = list((await LINES.get_many(tx, [event.variant])).values())
    else:
        lines = await LINES.all(tx)
    run_states, now = await load_run_states(tx), envelope.time
    pressure = hardest((await PRESSURES.get_many(tx, PLAY_QUEUES)).values())
    room = require_room("fill", pressure, HARD, now)
    for line in lines:
        own = await policy_of(tx, line.variant, policy)
        state = run_states.verdict("fill", variant=line.variant, stage=Play.stage, now=now)
        use = require_auto(may_play(line, own, now), own)
        slowed = room if pressure.level != NONE else use
        verdict = next((gate for gate in (state, room, use) if not gate.allowed), slowed)
        await save_verdicts(tx, line.variant, (verdict,))
        if verdict.allowed:
            counts = await tx.count_jobs(line.variant)
            live = counts.get((Play.kind(), "ready"), 0) + counts.get((Play.kind(), "claimed"), 0)
            durations = await load_durations(tx, Play.kind(), line.variant)
            jobs_open = scaled(own.play_jobs_open, pressure)
            games = batch_size(durations, own.games_per_batch, own.batch_seconds)
            line, jobs = top_up(line, live, changed(own, games_per_batch=games, play_jobs_open=jobs_open))
            await save_line(tx, line)
            # Each begins a trace of its own: its result leads to the next, and one trace would never end.
            await enqueue(tx, jobs, envelopes, now)


# Every event that ends a Play job or opens a gate is in this list, so the queue cannot run dry.  A line's own moves are
# published in the transaction that makes them: an event that causes one may be read before the line has moved.
_EVENTS = (
    *(pipeline.Opened, selfplay.BatchFinished, pipeline.Moved, data.Lost),
    *(work.Buried, work.Cancelled, work.PressureChanged, work.RunStateChanged),
)
SPEC = Daemon(name="fill", run=fill, role="fill", after=("pipeline",), on=_EVENTS, category="training")
