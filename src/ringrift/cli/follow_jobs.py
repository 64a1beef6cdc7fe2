"""Follow jobs that an operator enqueued until they are done or given up, or until no running node can do them."""

import sys
from collections.abc import Callable, Sequence

from ringrift.cli.command import Context
from ringrift.cluster.roster import Roster
from ringrift.events import catalog, data, evaluation, model, work
from ringrift.events.base import Event, Unknown
from ringrift.jobs import Job
from ringrift.kernel.clock import Clock
from ringrift.kernel.value import Value
from ringrift.store.follow import PAGE, wait_for
from ringrift.store.ports import LIVE_STATES, JobRow, Reads, Store
from ringrift.work.claims import find_refusals
from ringrift.work.limits import KINDS, VERDICTS

_WAIT_SECONDS_MAX = 900.0
_POLL_SECONDS = 0.2
_JOBS_MAX = 10_000
_RESULTS = (data.Imported, model.Verified, model.Imported, evaluation.BlocksPlayed, work.Buried)


class JobsResult(Value):
    """The results of jobs, or why some have none."""

    events: tuple[Event, ...] = ()
    error: str = ""  # error of a job that was given up, or why the wait ended
    pending: bool = False  # whether jobs without a result stay in the queue
    no_node: bool = False  # whether no running node can do them


async def follow(context: Context, jobs: Sequence[Job], after: int, worker: str = "") -> JobsResult:
    """Follow *jobs*, with their progress on stderr; see :func:`follow_jobs`."""

    def report(text: str) -> None:
        print(f"{jobs[0].kind()} {jobs[0].variant}: {text}", file=sys.stderr)

    return await follow_jobs(context.store, context.roster, jobs, after, context.clock, report, worker)


async def follow_jobs(
    store: Store, roster: Roster, jobs: Sequence[Job], after: int, clock: Clock, report: Callable[[str], None],
    worker: str = "",
) -> JobsResult:  # fmt: skip
    """Wait until each of *jobs*, enqueued at position *after* or later, has ended; *report* gets the progress.

    It ends when no running node can do them; where the caller has a *worker*, when a brake refuses them to that node.
    """
    waiting, results, before, position = {job.key: job for job in jobs}, list[Event](), "", after
    kind, names = jobs[0].kind(), [event.name() for event in _RESULTS]

    async def find_end(view: Reads) -> JobsResult | None:
        nonlocal before, position
        for envelope in await view.read(position, PAGE, names):
            position, event = envelope.position, catalog.decode(envelope.name, envelope.body)
            if isinstance(event, work.Buried) and event.key in waiting:
                return JobsResult(events=tuple(results), error=event.error)
            if isinstance(event, Unknown):
                continue
            for key in [key for key, job in waiting.items() if job.is_ended_by(event)]:
                del waiting[key]
                results.append(event)
        if not waiting:
            return JobsResult(events=tuple(results))
        rows = await view.jobs(LIVE_STATES, _JOBS_MAX, variant=jobs[0].variant)
        progress = _progress(len(jobs), [row for row in rows if row.key in waiting])
        if progress != before:
            report(progress)
            before = progress
        if worker:
            return await _find_refusal(view, jobs[0], worker)
        if any(kind in KINDS[node.profile] for node in await roster.present(view)):
            return None
        error = f'no running node can do {kind} jobs; start one with "ringrift run"'
        return JobsResult(events=tuple(results), pending=True, error=error, no_node=True)

    end = await wait_for(store, find_end, clock, _WAIT_SECONDS_MAX, poll_seconds=_POLL_SECONDS)
    late = f"not done after {_WAIT_SECONDS_MAX:g} s"
    return JobsResult(events=tuple(results), pending=True, error=late) if end is None else end


async def _find_refusal(view: Reads, job: Job, worker: str) -> JobsResult | None:
    ids = await find_refusals(view, [worker])
    own = [id for id in ids if id.startswith(f"{job.variant}:claim.{job.kind()}:")]
    verdict = next(iter((await VERDICTS.get_many(view, own)).values()), None)
    return None if verdict is None else JobsResult(error=f"it may not run: {verdict.rule}")


def _progress(count: int, rows: Sequence[JobRow]) -> str:
    """The state of *count* jobs, of which *rows* have not ended."""
    claimed = [row for row in rows if row.state == "claimed"]
    if count > 1:
        return f"{count - len(rows)} of {count} done, {len(claimed)} running"
    if claimed:
        share = f", {claimed[0].progress:.0%} done" if claimed[0].progress else ""
        return f"running on {claimed[0].holder}{share}"
    attempts = f", tried {rows[0].attempts} times: {rows[0].error}" if rows and rows[0].attempts else ""
    return f"waits for a node{attempts}"
