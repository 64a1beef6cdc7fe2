"""Held: the jobs that a line keeps to itself while auto-trigger is off, until somebody asks for their stage.

The line itself goes on as ever and is written down as ever.  What was started ends: a test that runs asks for its
further blocks, and what was buried is asked for again.
"""

from ringrift.events.base import Event
from ringrift.events.pipeline import Requested
from ringrift.jobs import Distribute, Export, Match, Sync, Train, Verify
from ringrift.kernel.settings import Policy
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline.line import Held, Line, Stage
from ringrift.pipeline.moves import REVIEW
from ringrift.pipeline.step import Step, changed, with_more

GATE = "automatic"
OFF = "auto-trigger is off"


def stage_of(job: Held) -> str:
    """The stage that must be asked for to have *job* done."""
    match job:
        case Sync(kind_of="games"):
            return "sync"
        case Export():
            return "export"
        case Train():
            return "train"
        case Distribute():
            return "promote"
    return "evaluate"  # a candidate is copied, checked and matched in one


def waiting(line: Line, stage: str) -> int:
    """How many jobs *line* holds until *stage* is asked for."""
    return sum(stage_of(job) == stage for job in line.held)


def held_back(before: Line | None, step: Step, event: Event, policy: Policy, at: float) -> Step:
    """*step*, which *before* takes for *event*, with only those jobs that may be asked for; the line keeps the rest.

    With auto-trigger on all may, also those that were kept while it was off.
    """
    if policy.auto and not step.line.held:
        return step
    asked = event.stage if isinstance(event, Requested) else None
    known = {job.key: job for job in step.line.held if _is_wanted(step.line, job, step.cancel)}
    fresh = {job.key: job for job in step.jobs if job.key not in known}
    go = [job for job in known.values() if policy.auto or stage_of(job) == asked]
    stay = [job for job in known.values() if job not in go]
    for job in fresh.values():
        assert isinstance(job, Held), "a step asks for nothing else"
        (go if policy.auto or stage_of(job) == asked or _goes_on(before, job) else stay).append(job)
    line = changed(step.line, held=tuple(stay))
    return with_more(changed(step, line=line, jobs=tuple(go)), verdicts=_said(step.line, line, policy, at))


def by_itself(verdict: Verdict, policy: Policy) -> Verdict:
    """*verdict* on something that nobody asks for, such as self-play: while auto-trigger is off it waits."""
    if policy.auto:
        return verdict
    rule = f"{OFF}: nothing is played by itself"
    return Verdict(gate=verdict.gate, allowed=False, rule=rule, value=0, limit=1, since=verdict.since)


def _part(job: Held) -> str:
    """What is started at once with *job*: a batch's copy, a review, or a stage."""
    match job:
        case Sync(kind_of="games"):
            return job.key
        case Match() if job.purpose == REVIEW:
            return REVIEW
    return stage_of(job)


def _concerns(line: Line, job: Held) -> bool:
    """Whether *line* is where *job* belongs."""
    candidate = None if line.candidate is None else line.candidate.model
    match job:
        case Sync(kind_of="games"):
            return any(batch.blob == job.blob for batch in line.pending)
        case Export():
            return line.stage is Stage.EXPORTING
        case Train():
            return line.stage in (Stage.STARTING, Stage.TRAINING)
        case Distribute():
            return line.stage is Stage.DISTRIBUTING
        case Match() if job.purpose == REVIEW:
            opponent = None if line.review is None else line.review.challenge.opponent
            return (job.candidate, job.champion) == (line.champion, opponent)
        case Sync():
            return job.blob == candidate
        case Verify():
            return job.model == candidate
        case Match():
            return job.candidate == candidate


def _goes_on(before: Line | None, job: Held) -> bool:
    """Whether *job* goes on with something that was started when the line was as *before*."""
    if before is None or not _concerns(before, job):
        return False
    return _part(job) not in map(_part, before.held)


def _is_wanted(line: Line, job: Held, cancelled: tuple[str, ...]) -> bool:
    """Whether *line* still has a use for *job*, which it holds."""
    if job.key.startswith(cancelled) or not _concerns(line, job):
        return False
    return job.key == line.asked or not isinstance(job, Export | Train | Distribute)


def _said(before: Line, line: Line, policy: Policy, at: float) -> tuple[Verdict, ...]:
    """What is told of jobs that are held now or were held before."""
    stages = tuple(dict.fromkeys(stage_of(job) for job in line.held))
    if stages:
        rule = f"{OFF}: ask for {', '.join(stages)} by hand"
    elif before.held:
        rule = "auto-trigger is on" if policy.auto else "what was asked for goes on"
    else:
        return ()
    return (Verdict(gate=GATE, allowed=not stages, rule=rule, value=float(not stages), limit=1, since=at),)
