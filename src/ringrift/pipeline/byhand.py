"""By hand: what a person may do to a line, each in one transaction, also while a coordinator runs.

Nothing here passes a gate by: a model that is put up goes the way of every candidate, and a line goes back only to one
that was its champion before.
"""

from dataclasses import dataclass

from ringrift.bus.scribe import Scribe
from ringrift.jobs import STAGE, Import, Job, Verify
from ringrift.kernel.errors import InputError, UnknownName
from ringrift.kernel.ids import Ids
from ringrift.kernel.settings import Policy
from ringrift.kernel.value import Value
from ringrift.kernel.verdict import Verdict
from ringrift.pipeline import moves
from ringrift.pipeline.line import Candidate, Line, Stage, needed
from ringrift.pipeline.machine import concluded
from ringrift.pipeline.models import Model, State
from ringrift.pipeline.records import account_of, carry_out, lines, load, models_of
from ringrift.pipeline.review import rolled_back
from ringrift.pipeline.step import Step, changed
from ringrift.store.ports import Origin, Reads, Tx
from ringrift.sync import ledger
from ringrift.work.desk import ask

GATE = "promote"
MODEL, IMPORT = "model", Import.kind()
SHOWN, PREFIX_SHOWN = 8, 12
OPEN = (Stage.COLLECTING, Stage.RESTING)
"""When a line has time for a candidate that it did not train."""
AGAIN = (State.RETIRED, State.REJECTED, State.ROLLED_BACK, State.LOST)
"""From which a model may be put up once more."""


class Found(Value):
    """A model that there is, and what is written down of it."""

    variant: str
    model: str
    known: Model | None = None
    """Its life, if it was ever a candidate."""
    imported: bool = False
    """Whether it came from elsewhere."""


class Asked(Value):
    """A job that was asked for, and behind which position in the log its end will be told."""

    job: Job
    after: int


@dataclass(frozen=True, slots=True)
class Hand:
    """Who writes: the parts that every change by hand needs."""

    scribe: Scribe
    ids: Ids
    now: float


# -- which model is meant ----------------------------------------------------------------------------------------------


async def line_of(view: Reads, variant: str) -> Line:
    """The line of *variant*.  Raises UnknownName."""
    line = await load(view, variant)
    if line is None:
        raise UnknownName("line", variant, [one.variant for one in await lines(view)])
    return line


async def find(view: Reads, asked: str, variant: str | None = None) -> Found:
    """The model that *asked* means: the beginning of its name, or a variant for its champion.

    Raises UnknownName, or InputError if several begin like that or the variant has no champion.
    """
    line = await load(view, asked)
    if line is not None and line.champion is None:
        raise InputError(f"{asked} has no champion yet")
    prefix = line.champion if line is not None and line.champion is not None else asked
    wanted = [one for one in await lines(view) if variant in (None, one.variant)]
    names = [one.variant for one in wanted]
    lives = {(of, one.model): one for of in names for one in await models_of(view, of)}
    used = {(one.variant, model) for one in wanted for model, kind in needed(one).items() if kind == MODEL}
    made = await view.made(MODEL, SHOWN + 1, prefix=prefix) if prefix else ()
    origins = {(one.variant, one.blob): one for one in reversed(made) if one.variant in names}
    found = sorted(key for key in {*lives, *origins, *used} if prefix and key[1].startswith(prefix))
    if not found:
        raise UnknownName("model", asked, [*(model[:PREFIX_SHOWN] for _, model in list(lives)[-SHOWN:]), *names])
    if len(found) > 1:
        some = ", ".join(f"{model[:PREFIX_SHOWN]} of {of}" for of, model in found[:SHOWN])
        raise InputError(f"model {asked!r:.80} is not one but several: {some}")
    of, model = found[0]
    return Found(variant=of, model=model, known=lives.get((of, model)), imported=_came_in(origins.get((of, model))))


def _came_in(origin: Origin | None) -> bool:
    return origin is not None and origin.job_kind == IMPORT


async def imported_from(view: Reads, variant: str, file: str) -> str | None:
    """The model of *variant* that was once made from *file*, if it was; one of ours is the file itself."""
    children = await view.walk([file], False, SHOWN, (MODEL,))
    made = await view.origins([file, *children])
    mine = (one for one in made if one.kind == MODEL and one.variant == variant and (one.blob == file or _came_in(one)))
    return next((one.blob for one in mine), None)


# -- what may be done --------------------------------------------------------------------------------------------------


async def roll_back(tx: Tx, variant: str, to: str | None, reason: str, *, policy: Policy, hand: Hand) -> Step:
    """Let the line of *variant* go back to its earlier champion *to*, by default the last one.

    Raises UnknownName, which lists them, for one that never was its champion; InputError if there is none.
    """
    line = await line_of(tx, variant)
    step = rolled_back(line, _target(line, to), reason, hand.now)
    return await _done(tx, line, step, policy, hand)


def _target(line: Line, to: str | None) -> str:
    """The earlier champion of *line* that *to* is the beginning of."""
    earlier = [one.model for one in reversed(line.ancestors)]
    if not earlier:
        raise InputError(f"{line.variant} has no earlier champion to go back to")
    found = [model for model in earlier if to is not None and to and model.startswith(to)]
    if to is None:
        return earlier[0]
    if len(found) != 1:
        raise UnknownName(f"earlier champion of {line.variant}", to, [model[:PREFIX_SHOWN] for model in earlier])
    return found[0]


async def put_up(tx: Tx, found: Found, *, policy: Policy, hand: Hand) -> tuple[Verdict, Step | None]:
    """Let the model that was *found* be tested against the champion, if its line has time; what the gate says."""
    line = await line_of(tx, found.variant)
    verdict = may_put_up(line, found, hand.now)
    if not verdict.allowed:
        return verdict, None
    holders = await ledger.holders(tx, found.model)
    # How many trainings lie behind one from elsewhere nobody knows: it counts as the one that comes next.
    generation = line.generation + 1 if found.known is None else found.known.generation
    step = moves.vouch(line, Candidate(model=found.model, generation=generation), min(holders, default=""), hand.now)
    return verdict, await _done(tx, line, step, policy, hand)


def may_put_up(line: Line, found: Found, at: float) -> Verdict:
    """Whether *line* takes the model that was *found* for a candidate now."""
    state = found.known.state if found.known else None
    value, rule = 0.0, "copied, checked and tested against the champion like every candidate"
    if line.champion is None:
        rule = f"{line.variant} has no champion yet to test it against"
    elif found.model == line.champion:
        rule = "it is the champion"
    elif line.stage not in OPEN:
        rule = f"the line is {line.stage}; a model can be put up while it is {' or '.join(OPEN)}"
    elif state is None and not found.imported:
        rule = "it never was a candidate of this line; what is trained is tested by itself"
    elif state is not None and state not in AGAIN:
        rule = f"it is {state}"
    else:
        value = 1.0
    return Verdict(gate=GATE, allowed=value >= 1.0, rule=rule, value=value, limit=1.0, since=at)


async def check(tx: Tx, found: Found, *, hand: Hand) -> Asked:
    """Ask for a check of the model that was *found*: hash, format, shapes and what it says of some positions."""
    return await _asked(tx, Verify(variant=found.variant, model=found.model, priority=STAGE), hand)


async def take_in(tx: Tx, variant: str, file: str, *, hand: Hand) -> Asked:
    """Ask that *file*, a blob, is turned into a model of *variant*; for the same file again the same job."""
    await line_of(tx, variant)
    return await _asked(tx, Import(variant=variant, file=file, priority=STAGE), hand)


async def _asked(tx: Tx, job: Job, hand: Hand) -> Asked:
    newest = await tx.last(None, 1)
    await ask(tx, [job], hand.ids, hand.now, scribe=hand.scribe)
    return Asked(job=job, after=newest[-1].position if newest else 0)


async def _done(tx: Tx, line: Line, step: Step, policy: Policy, hand: Hand) -> Step:
    """Write *step*, which *line* takes; what it says last is the cause of all else."""
    step = concluded(line, step, policy, await account_of(tx, policy.budget))
    *others, cause = step.events
    [told] = await tx.append([hand.scribe.wrap(cause, source="cli")])
    await carry_out(tx, changed(step, events=tuple(others)), told, ids=hand.ids, scribe=hand.scribe)
    return step
