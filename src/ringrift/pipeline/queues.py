"""The queues of the loop: as they are in the store, and what a line asks for while they are full.

The last to wait is the test of a candidate, and an export: both are held back only when their queue stops.  A queue is
drained by jobs that were asked for already, so holding back others never keeps it full.
"""

from collections import Counter
from collections.abc import Mapping

from ringrift.events.base import Event
from ringrift.jobs import Export, Job, Match, Purpose
from ringrift.kernel.value import changed
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import LINES, Line, ManualJob, Stage
from ringrift.pipeline.step import Context, Step, with_more
from ringrift.pipeline.trust import TRUSTS
from ringrift.store.ports import Reads
from ringrift.work import pressure
from ringrift.work.pressure import EXPORT_QUEUES, HARD, MATCH_QUEUES, STOP, QueuePressure, QueueReading
from ringrift.work.run_states import load_run_states

_STAGES = {"export": EXPORT_QUEUES, "evaluate": MATCH_QUEUES}  #: Stages that fill queues of their own.


async def read_queues(view: Reads, now: float) -> dict[str, QueueReading]:
    """A reading of every queue.  What a person has paused, and what waits for one node alone, presses on nothing."""
    lines, run_states = await LINES.all(view), await load_run_states(view)
    paused = [line.variant for line in lines if run_states.find(variant=line.variant, now=now)]
    # A line that collects exports as soon as it has enough: its games wait for more of them, not for the export.
    waiting = [line for line in lines if line.stage in (Stage.COLLECTING, Stage.RESTING) or line.variant in paused]
    depth = sum(line.fresh for line in lines)
    drained, resting = sum(line.counts.games_kept for line in lines) - depth, sum(line.fresh for line in waiting)
    games = QueueReading(depth=depth, drained=drained, idle=resting)
    depth, drained = sum(len(line.pending) for line in lines), sum(row.counts.stored + row.counts.lost for row in lines)
    resting = sum(len(line.pending) for line in lines if line.variant in paused)
    batches = QueueReading(depth=depth, drained=drained, idle=resting)
    jobs = pressure.read_jobs(await view.count_jobs())
    readings = {"training_data": games, "pending_games": batches, **jobs}
    # A canary waits for its node, which may be drained for days: no test of a candidate has to wait for that.
    idle = Counter(evaluation=sum(trust.open_jobs for trust in await TRUSTS.all(view)))
    for variant in paused:
        idle.update({queue: row.depth for queue, row in pressure.read_jobs(await view.count_jobs(variant)).items()})
    for queue, count in idle.items():
        readings[queue] = changed(readings[queue], idle=min(count, readings[queue].depth))
    return readings


async def measure_pressures(view: Reads, patience: float, now: float) -> dict[str, QueuePressure]:
    """The pressure of every queue as it is now, by the rates that a coordinator has measured, if one ever has."""
    before = await pressure.PRESSURES.get_many(view, tuple(pressure.BOUNDS))
    readings = (await read_queues(view, now)).items()
    return {queue: pressure.judge(queue, row, before.get(queue), patience=patience, now=now) for queue, row in readings}


def room_in_stage(stage: str, pressures: Mapping[str, QueuePressure], at: float, level: str = STOP) -> Verdict:
    """Whether the queues of *stage* have room for more jobs: they press less than *level*."""
    own = [pressures[queue] for queue in _STAGES.get(stage, ()) if queue in pressures]
    return pressure.require_room("pressure", pressure.hardest(own), level, at)


def _room(job: Job, context: Context) -> Verdict | None:
    """Whether *job* may be asked for; None if no queue keeps it from that."""
    match job:
        case Export():
            return room_in_stage("export", context.pressures, context.at)
        case Match():
            level = STOP if job.purpose == Purpose.PROMOTION else HARD
            return room_in_stage("evaluate", context.pressures, context.at, level)
    return None


def restrain(line: Line, event: Event, context: Context) -> Step:
    """Hold back the exports and matches of the step whose queue is full; the line keeps them until it has room."""
    step = context.step
    rooms = [(job, _room(job, context)) for job in step.jobs]
    full = {job.key: (job, room) for job, room in rooms if room is not None and not room.allowed}
    if full:
        waiting = tuple(job for job, _ in full.values() if isinstance(job, ManualJob))
        after = changed(step.line, manual_jobs=(*step.line.manual_jobs, *waiting))
        jobs = tuple(job for job in step.jobs if job.key not in full)
        return with_more(changed(step, line=after, jobs=jobs), verdicts=tuple(room for _, room in full.values())[:1])
    released = [room for job, room in rooms if room is not None and job in line.manual_jobs]
    return with_more(step, verdicts=tuple(released[:1]))
