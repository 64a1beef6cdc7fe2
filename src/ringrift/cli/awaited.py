"""Awaited: jobs that a person asked for, followed until they are done, given up, or nobody is there to do them."""

from collections.abc import Callable, Sequence

from ringrift.cluster.roster import Roster
from ringrift.events import catalog, evaluation, model, work
from ringrift.events.base import Event, Unknown
from ringrift.jobs import Import, Job, Match, Verify
from ringrift.kernel.clock import Clock
from ringrift.kernel.value import Value
from ringrift.store.ports import JobRow, Store
from ringrift.work.limits import KINDS, READY_HARD

WAIT_SECONDS_MAX = 900.0
LOOK_SECONDS = 0.2
PAGE = 1000
ENDS = tuple(
    event.name() for event in (model.Verified, model.Imported, evaluation.BlocksPlayed, work.Buried)
)  # fmt: skip


class Followed(Value):
    """What came of jobs: what was said of each that was done, or why not all were."""

    events: tuple[Event, ...] = ()
    error: str = ""
    """Of one that was given up, or why nobody waits any longer."""
    kept: bool = False
    """Whether what is not done yet stays asked for."""


def ends(job: Job, event: Event) -> bool:
    """Whether *event* is what is said when *job* is done."""
    match job, event:
        case Verify(), model.Verified():
            return (event.variant, event.model) == (job.variant, job.model)
        case Import(), model.Imported():
            return (event.variant, event.source) == (job.variant, job.file)
        case Match(), evaluation.BlocksPlayed():
            same = (event.variant, event.candidate, event.champion) == (job.variant, job.candidate, job.opponent)
            return same and event.seed == job.seed and event.blocks[0].number == job.first
    return False


async def follow(
    store: Store, roster: Roster, jobs: Sequence[Job], after: int, clock: Clock, tell: Callable[[str], None]
) -> Followed:
    """Wait until each of *jobs*, asked for behind position *after*, has ended; *tell* is told how it goes."""
    waiting, done, before = {job.key: job for job in jobs}, list[Event](), ""
    end = clock.tick() + WAIT_SECONDS_MAX
    while clock.tick() < end:
        async with store.read() as view:
            said = await view.read(after, PAGE, ENDS)
            rows = await view.jobs(("ready", "claimed"), READY_HARD, variant=jobs[0].variant)
        for envelope in said:
            after, event = envelope.position, catalog.decode(envelope.name, envelope.body)
            if isinstance(event, work.Buried) and event.key in waiting:
                return Followed(events=tuple(done), error=event.error)
            if isinstance(event, Unknown):
                continue
            for key in [key for key, job in waiting.items() if ends(job, event)]:
                del waiting[key]
                done.append(event)
        if not waiting:
            return Followed(events=tuple(done))
        now = progress(len(jobs), [row for row in rows if row.key in waiting])
        if now != before:
            tell(now)
            before = now
        if not await _anybody(roster, jobs[0].kind()):
            return Followed(
                events=tuple(done),
                kept=True,
                error=f"nobody is there to do it: no node that is here takes {jobs[0].kind()} jobs",
            )
        await store.wait(store.position, LOOK_SECONDS)
    return Followed(events=tuple(done), kept=True, error=f"not done within {WAIT_SECONDS_MAX:g} s")


async def _anybody(roster: Roster, kind: str) -> bool:
    """Whether a node is here that takes jobs of *kind*, as far as its beats tell."""
    return any(kind in KINDS[node.profile] for node in await roster.present())


def progress(count: int, rows: Sequence[JobRow]) -> str:
    """How *count* jobs stand of which *rows* have not ended."""
    under_way = [row for row in rows if row.state == "claimed"]
    if count > 1:
        return f"{count - len(rows)} of {count} done, {len(under_way)} under way"
    if not under_way:
        tries = f", tried {rows[0].attempts} times: {rows[0].error}" if rows and rows[0].attempts else ""
        return f"waits for a node{tries}"
    return f"under way on {under_way[0].holder}"
