"""Operator: what a person may do to a line, each in one transaction, also while a coordinator runs.

No gate is passed by: a model that is nominated goes the way of every candidate, and a line goes back only to one that
was its champion before.
"""

from dataclasses import dataclass

from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.jobs import STAGE, Import, Job
from ringrift.kernel.errors import InputError, UnknownName
from ringrift.kernel.settings import Policy
from ringrift.kernel.value import changed
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline import moves, review
from ringrift.pipeline.line import IDLE, Candidate, Line, require_line
from ringrift.pipeline.line_settings import policy_of
from ringrift.pipeline.machine import conclude
from ringrift.pipeline.models import MODEL, ModelMatch, State, is_imported
from ringrift.pipeline.records import account_of, carry_out
from ringrift.pipeline.step import PROMOTE, Step
from ringrift.store.ports import Reads, Tx
from ringrift.sync import ledger
from ringrift.work.desk import enqueue
from ringrift.work.run_states import load_run_states

_SHOWN, _PREFIX_SHOWN = 8, 12
_AGAIN = (State.RETIRED, State.REJECTED, State.ROLLED_BACK, State.LOST)  #: From which it may be nominated again.

_PendingJob = tuple[Job, int]  #: It was enqueued, and behind this position of the log its end will be published.


@dataclass(frozen=True, slots=True)
class Actor:
    """The parts that every change by an operator needs to write."""

    envelopes: EnvelopeFactory
    now: float


async def imported_from(view: Reads, variant: str, file: str) -> str | None:
    """The model of *variant* that was once made from *file*, if it was; one of ours is the file itself."""
    children = await view.walk([file], False, _SHOWN, (MODEL,))
    origins = await view.origins([file, *children])
    own = (origin for origin in origins if origin.kind == MODEL and origin.variant == variant)
    return next((origin.blob for origin in own if origin.blob == file or is_imported(origin)), None)


async def roll_back(tx: Tx, variant: str, to: str | None, reason: str, *, policy: Policy, actor: Actor) -> Step:
    """Let the line of *variant* go back to its earlier champion *to*, by default the last one.

    A brake holds what the loop decides by itself, not this: a bad champion can be taken away before the loop goes on.
    Raises UnknownName, which lists them, for one that never was its champion; InputError if there is none.
    """
    line = await require_line(tx, variant)
    step = review.roll_back(line, _target(line, to), reason, actor.now)
    return await _write(tx, line, step, policy, actor)


def _target(line: Line, to: str | None) -> str:
    """The earlier champion of *line* that *to* is the beginning of."""
    earlier = [ancestor.model for ancestor in reversed(line.ancestors)]
    if not earlier:
        raise InputError(f"{line.variant} has no earlier champion to go back to")
    if to is None:
        return earlier[0]
    matches = [model for model in earlier if to and model.startswith(to)]
    if len(matches) != 1:
        raise UnknownName(f"earlier champion of {line.variant}", to, [model[:_PREFIX_SHOWN] for model in earlier])
    return matches[0]


async def nominate(tx: Tx, match: ModelMatch, *, policy: Policy, actor: Actor) -> tuple[Verdict, Step | None]:
    """Let the model be tested against the champion, if its line has time and no brake is set; the gate's verdict."""
    line = await require_line(tx, match.variant)
    verdict = _can_nominate(line, match, actor.now)
    if verdict.allowed:
        brake = (await load_run_states(tx)).verdict(PROMOTE, variant=line.variant, stage=PROMOTE, now=actor.now)
        verdict = verdict if brake.allowed else brake
    if not verdict.allowed:
        return verdict, None
    holders = await ledger.holders(tx, match.model)
    if removal := await ledger.removal(tx, match.model):
        raise InputError(f"model {match.model[:12]} was deleted by retention ({removal}); import a copy of its file")
    # The number of trainings behind a model from elsewhere is unknown: it counts as the one that comes next.
    generation = line.generation + 1 if match.record is None else match.record.generation
    candidate = Candidate(model=match.model, generation=generation)
    step = moves.verify(line, candidate, min(holders, default=""), actor.now)
    return verdict, await _write(tx, line, step, policy, actor)


def _can_nominate(line: Line, match: ModelMatch, at: float) -> Verdict:
    state = match.record.state if match.record else None
    value, rule = 0.0, "copied, checked and tested against the champion like every candidate"
    if line.champion is None:
        rule = f"{line.variant} has no champion yet to test it against"
    elif match.model == line.champion:
        rule = "it is the champion"
    elif line.stage not in IDLE:
        rule = f"the line is {line.stage}; a model can be nominated while it is {' or '.join(IDLE)}"
    elif state is None and not match.imported:
        rule = "it never was a candidate of this line; a trained model is tested by itself"
    elif state is not None and state not in _AGAIN:
        rule = f"it is {state}"
    else:
        value = 1.0
    return Verdict(gate=PROMOTE, allowed=value >= 1.0, rule=rule, value=value, limit=1.0, since=at)


async def import_model(tx: Tx, variant: str, file: str, *, actor: Actor) -> _PendingJob:
    """Ask that *file*, a blob, is turned into a model of *variant*; for the same file again the same job."""
    await require_line(tx, variant)
    newest, job = await tx.last(None, 1), Import(variant=variant, file=file, priority=STAGE)
    await enqueue(tx, [job], actor.envelopes, actor.now)
    return job, newest[-1].position if newest else 0


async def _write(tx: Tx, line: Line, step: Step, policy: Policy, actor: Actor) -> Step:
    """Write *step* of *line*; its last event is the cause of all others."""
    policy = await policy_of(tx, line.variant, policy)
    account = await account_of(tx, policy.budget)
    step = conclude(line, step, policy, account, at=actor.now, requested=True)
    *others, cause = step.events
    [envelope] = await tx.append([actor.envelopes.make(cause, source="cli")])
    await carry_out(tx, changed(step, events=tuple(others)), envelope, actor.envelopes)
    return step
