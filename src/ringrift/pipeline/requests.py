"""Requests: an operator requests a stage, the gate before it answers, and jobs that were held for it are let through.

While auto-trigger is off a line holds its jobs until their stage is requested.  The line itself goes on as ever and is
stored as ever.  What was started ends: a test that runs asks for its further blocks, and a failed job is asked for
again.
"""

from ringrift.events import pipeline
from ringrift.events.base import Event
from ringrift.events.pipeline import Requested
from ringrift.jobs import Distribute, Export, JobFilter, Match, Purpose, Sync, Train, Verify
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import printable
from ringrift.kernel.settings import Policy
from ringrift.kernel.value import Value, changed
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline import challenge, moves
from ringrift.pipeline.line import LINES, Line, ManualJob, Stage
from ringrift.pipeline.queues import room_in_stage
from ringrift.pipeline.step import PROMOTE, Context, Step, with_more
from ringrift.store.follow import wait_for
from ringrift.store.ports import Reads, Store, Tx
from ringrift.store.records import Records

_GATE, _OFF = "requested", "auto-trigger is off"
STAGES = {  #: Every stage that can be requested, and when its turn is.
    "sync": "while batches wait for their copies",
    "export": "while it is collecting",
    "train": "after an export",
    "evaluate": "after a candidate was trained, copied and checked",
    "promote": "after a match that was won",
}
_ANSWERS_MAX = 64  #: Answers that are stored for each variant: a client reads its own within seconds.
ANSWER_SECONDS_MAX = 10.0


class _RequestAnswer(Value):
    """The gate's answer to the request with the event id *request*."""

    request: str
    verdict: Verdict


_ANSWERS = Records[tuple[_RequestAnswer, ...]]("answer", tuple[_RequestAnswer, ...])  #: By variant, oldest first.


def answer_request(line: Line, event: pipeline.Requested, context: Context) -> Step:
    """The line after a request: batches are copied again, games exported early; :func:`hold` lets jobs through."""
    policy, at, brake = context.policy, context.at, context.brake
    allowed, rule, value, limit = _gate(line, event.stage)
    if event.stage == PROMOTE and not allowed and not brake.allowed:
        rule, value, limit = brake.rule, brake.value, brake.limit
    room = room_in_stage(event.stage, context.pressures, at)
    if allowed and not room.allowed:
        allowed, rule, value, limit = False, room.rule, room.value, room.limit
    rule = f"{printable(event.stage, 40)}: {rule}"
    verdict = Verdict(gate=_GATE, allowed=allowed, rule=rule, value=value, limit=limit, since=at)
    step = Step(line=line)
    if event.stage == "sync":
        # A copy that is under way has the same key: asking again does not double it.
        step = Step(line=line, jobs=tuple(moves.copy_games(line, batch.blob) for batch in line.pending))
    elif event.stage == "export" and line.stage is Stage.COLLECTING and verdict.allowed:
        step = moves.export(line, policy, at)
    return with_more(step, verdicts=(verdict,))


def _gate(line: Line, stage: str) -> tuple[bool, str, float, float]:
    """Whether *stage* may be entered, by which rule, where *line* stands by it, and its limit."""
    waiting = sum(stage_of(job) == stage for job in line.manual_jobs)
    if waiting:
        return True, "jobs that were held until it is requested", waiting, 1
    match stage:
        case "sync":
            return bool(line.pending), "batches that wait for their copies", len(line.pending), 1
        case "export" if line.stage is Stage.COLLECTING:
            games = line.fresh if line.window else 0
            return games > 0, "games kept since the last export", games, 1
        case "train" | "evaluate" if line.stage is (Stage.TRAINING if stage == "train" else Stage.EVALUATING):
            return True, "it is under way", 1, 1
        case "evaluate" if line.stage is Stage.VERIFYING and line.candidate is not None:
            return False, "it follows by itself: copied and checked", line.candidate.copied + line.candidate.verified, 2
        case "promote" if line.candidate is not None and line.candidate.challenge is not None:
            outcome = challenge.outcome(line.candidate.challenge, line.players)
            return False, f"only evidence promotes: {outcome.rule}", outcome.llr, outcome.upper
    if stage not in STAGES:
        return False, f"no such stage; there are {', '.join(STAGES)}", 0, 1
    return False, f"the line is {line.stage}, and this comes only {STAGES[stage]}", 0, 1


async def save_answer(tx: Tx, request: str, step: Step) -> None:
    """Store what *step* answers to the event with the id *request*."""
    verdict = next(verdict for verdict in step.verdicts if verdict.gate == _GATE)
    answers = await _ANSWERS.get(tx, step.line.variant) or ()
    answers = (*answers, _RequestAnswer(request=request, verdict=verdict))[-_ANSWERS_MAX:]
    await _ANSWERS.put_at(tx, {step.line.variant: answers})


async def wait_for_answer(store: Store, request: str, variant: str, clock: Clock) -> tuple[Verdict, Line] | None:
    """The gate's answer to the event *request*, with the line since then; None if no coordinator answers in time."""

    async def find(view: Reads) -> tuple[Verdict, Line] | None:
        answers = await _ANSWERS.get(view, variant) or ()
        verdict = next((answer.verdict for answer in answers if answer.request == request), None)
        line = await LINES.get(view, variant)
        return None if verdict is None or line is None else (verdict, line)

    return await wait_for(store, find, clock, ANSWER_SECONDS_MAX)


def stage_of(job: ManualJob) -> str:
    """The stage that an operator must request to have *job* done."""
    if isinstance(job, Distribute):
        return PROMOTE
    # A candidate is copied, checked and matched in one.
    return "evaluate" if isinstance(job, Sync) and job.kind_of != "games" else job.stage


def hold(line: Line, event: Event, context: Context) -> Step:
    """Let those jobs of the step through that may be asked for, with auto-trigger all; the line holds the others."""
    step, policy = context.step, context.policy
    if policy.auto and not step.line.manual_jobs:
        return step
    stage = event.stage if isinstance(event, Requested) else None
    held_jobs = {job.key: job for job in step.line.manual_jobs if _is_needed(step.line, job, step.cancel)}
    ready = [job for job in held_jobs.values() if policy.auto or stage_of(job) == stage]
    waiting = [job for job in held_jobs.values() if job not in ready]
    for job in {job.key: job for job in step.jobs if job.key not in held_jobs}.values():
        assert isinstance(job, ManualJob), "a step asks for nothing else"
        (ready if policy.auto or stage_of(job) == stage or _continues(line, job) else waiting).append(job)
    after = changed(step.line, manual_jobs=tuple(waiting))
    verdicts = _verdicts(step.line, after, policy, context.at)
    return with_more(changed(step, line=after, jobs=tuple(ready)), verdicts=verdicts)


def require_auto(verdict: Verdict, policy: Policy) -> Verdict:
    """*verdict* on something that is never requested, such as self-play: while auto-trigger is off it waits."""
    if policy.auto:
        return verdict
    return Verdict(verdict.gate, False, f"{_OFF}: nothing is played by itself", 0, 1, verdict.since)


def _part(job: ManualJob) -> str:
    """The group that is started together with *job*: a batch's copy, a review, or a stage."""
    match job:
        case Sync(kind_of="games"):
            return job.key
        case Match() if job.purpose == Purpose.REVIEW:
            return Purpose.REVIEW
    return stage_of(job)


def _concerns(line: Line, job: ManualJob) -> bool:
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
        case Match() if job.purpose == Purpose.REVIEW:
            opponent = None if line.review is None else line.review.challenge.opponent
            return (job.candidate, job.champion) == (line.champion, opponent)
        case Sync(blob=tested) | Verify(model=tested) | Match(candidate=tested):
            return tested == candidate


def _continues(before: Line, job: ManualJob) -> bool:
    """Whether *job* goes on with something that was started when the line was as *before*."""
    if before.is_new or not _concerns(before, job):
        return False
    return _part(job) not in map(_part, before.manual_jobs)


def _is_needed(line: Line, job: ManualJob, cancels: tuple[JobFilter, ...]) -> bool:
    """Whether *line* still has a use for *job*, which it holds."""
    if any(cancel.matches(job) for cancel in cancels) or not _concerns(line, job):
        return False
    return job.key == line.awaited_job or not isinstance(job, Export | Train | Distribute)


def _verdicts(before: Line, line: Line, policy: Policy, at: float) -> tuple[Verdict, ...]:
    """The verdict on jobs that are held now or were held before."""
    stages = tuple(dict.fromkeys(stage_of(job) for job in line.manual_jobs))
    if stages:
        rule = f"{_OFF}: request {', '.join(stages)} to go on"
    elif before.manual_jobs:
        rule = "auto-trigger is on" if policy.auto else "the requested stage goes on"
    else:
        return ()
    return (Verdict(gate="automatic", allowed=not stages, rule=rule, value=float(not stages), limit=1, since=at),)
