"""Runs the loop: one event in, one step of the machine out, all in one transaction."""

from ringrift.bus.scribe import Scribe
from ringrift.events import data, evaluation, model, selfplay, training, work
from ringrift.events.base import Envelope, LineEvent
from ringrift.events.pipeline import Opened, Requested
from ringrift.kernel.failpoint import failpoint
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import Policy
from ringrift.pipeline.machine import advance, open_line
from ringrift.pipeline.records import carry_out, load
from ringrift.store.ports import Tx
from ringrift.supervision.spec import Daemon


async def pipeline(event: LineEvent, envelope: Envelope, tx: Tx, *, policy: Policy, ids: Ids, scribe: Scribe) -> None:
    """Advance the line that *event* belongs to.  Events of a line that was never opened change nothing."""
    line = await load(tx, event.variant)
    if line is not None:
        step = advance(line, event, policy, envelope.time)
    elif isinstance(event, Opened):
        step = open_line(event, policy, envelope.time)
    else:
        return
    failpoint("pipeline.before_step")
    await carry_out(tx, step, envelope, ids=ids, scribe=scribe)
    failpoint("pipeline.after_step")


SPEC = Daemon(
    name="pipeline",
    run=pipeline,
    on=(
        Opened, Requested, selfplay.BatchFinished, data.Synced, data.Exported, training.Finished, model.Verified,
        evaluation.BlocksPlayed, model.Distributed, work.Buried,
    ),
    role="pipeline",
    after=("elect",),
    profiles=frozenset({"coordinator", "full"}),
)  # fmt: skip
