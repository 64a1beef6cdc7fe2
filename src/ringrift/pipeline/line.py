"""Line: what the loop remembers of one variant, what must always be true of it, and which self-play it can use."""

from enum import StrEnum

from ringrift.events.evaluation import Block
from ringrift.events.model import Evidence
from ringrift.jobs import ORDINARY, Distribute, Export, Match, Play, Sync, Train, Verify
from ringrift.kernel.errors import UnknownName
from ringrift.kernel.ids import seed_of
from ringrift.kernel.settings import Gate, Policy, StageLimits
from ringrift.kernel.value import Value, changed
from ringrift.kernel.verdict import Verdict
from ringrift.store.ports import Reads
from ringrift.store.records import Records

ManualJob = Sync | Export | Train | Verify | Match | Distribute  #: What may wait for a request, or room in a queue.
ANCESTORS_MAX = 8  #: Earlier champions that a line can go back to, and whose files are kept for it.
_SETBACK_SECONDS_MIN, _SETBACK_SECONDS_MAX, _SETBACKS_MAX = 2.0, 600.0, 32
FRESH_EXPORTS_MAX = 4  #: Exports' worth of games that may wait: more would only be older when they are used.


class Stage(StrEnum):
    """Where the loop of a variant stands.

    starting ─▶ verifying ─▶ distributing ─▶ collecting ─▶ exporting ─▶ training ─▶ verifying ─▶ evaluating ─▶ …
    """

    STARTING = "starting"
    COLLECTING = "collecting"
    EXPORTING = "exporting"
    TRAINING = "training"
    VERIFYING = "verifying"
    EVALUATING = "evaluating"
    DISTRIBUTING = "distributing"
    RESTING = "resting"


IDLE = (Stage.COLLECTING, Stage.RESTING)  #: When a line has time for a candidate that it did not train.


class Batch(Value):
    """A batch of finished games."""

    blob: str
    games: int
    rounds: int = 0  #: How often its copy has been given up and tried again.
    node: str = ""  #: The node that played it.


class Challenge(Value):
    """A sequential test between two models: its gate, the blocks that were dispatched and their results."""

    opponent: str
    gate: Gate  #: With the alpha that the error budget gave it when it began.
    seed: int
    dispatched: int = 0  #: Blocks dispatched so far.
    blocks: tuple[Block, ...] = ()


class Candidate(Value):
    """A model on its way to become champion."""

    model: str
    generation: int
    copied: bool = False
    verified: bool = False
    challenge: Challenge | None = None  #: Its match against the champion, once it has begun.


class Review(Value):
    """A test of the champion itself: whether it is still as strong as one before it."""

    reason: str
    challenge: Challenge


class Ancestor(Value, kw_only=False):
    """An earlier champion."""

    model: str
    generation: int


class _BatchCounts(Value):
    """Batches and games ever: played = pending + kept + lost, always."""

    batches: int = 0
    games: int = 0
    stored: int = 0
    games_kept: int = 0
    lost: int = 0
    games_lost: int = 0


class Line(Value):
    """The loop of one variant."""

    variant: str
    workload: str
    players: int
    stage: Stage = Stage.STARTING
    since: float = 0.0
    iteration: int = 0  #: Promotions on evidence so far.
    champion: str | None = None
    generation: int = -1
    ancestors: tuple[Ancestor, ...] = ()  #: Earlier champions, the last one last.
    review: Review | None = None
    plays: int = 0  #: Play jobs enqueued so far: each gets a seed of its own.
    tries: int = 0  #: Export, Train and Match rounds so far, likewise.
    setbacks: int = 0  #: Jobs that were given up since one last went well: the next ones wait the longer for it.
    fresh: int = 0  #: Games kept since the last export.
    pending: tuple[Batch, ...] = ()  #: Finished, but not yet copied.
    window: tuple[Batch, ...] = ()  #: Copied; the newest ones are what is exported.
    awaited_job: str | None = None  #: Key of the one job that the stage waits for: an earlier result is out of turn.
    samples: str | None = None
    candidate: Candidate | None = None
    manual_jobs: tuple[ManualJob, ...] = ()  #: Jobs that wait for room in their queue, or for an operator's request.
    counts: _BatchCounts = _BatchCounts()

    @property
    def previous(self) -> str | None:
        """The champion before this one, if there was one."""
        return self.ancestors[-1].model if self.ancestors else None

    @property
    def is_new(self) -> bool:
        """Whether it has not begun yet."""
        return self.stage is Stage.STARTING and self.tries == 0


LINES = Records("line", Line, id="variant", limit=1000)


async def require_line(view: Reads, variant: str) -> Line:
    """The line of *variant*.  Raises UnknownName."""
    line = await LINES.get(view, variant)
    if line is None:
        raise UnknownName("variant", variant, await LINES.scan(view))
    return line


class Decision(Value):
    """Why a model was promoted, rejected or rolled back.  Kept for ever."""

    variant: str
    model: str
    promoted: bool
    reason: str
    generation: int
    time: float
    previous: str | None = None
    evidence: Evidence | None = None
    kind: str = "promotion"  #: Or *rollback*: then the line went back to *model*, and *previous* had to go.
    gate: Gate | None = None  #: The gate that judged the evidence.
    seed: int = 0  #: Seed of the openings of its match.
    id: str = ""  #: Also that of its :data:`EVIDENCE`.


_INDEX = ("variant", "model")
DECISIONS = Records("decision", Decision, id="id", index=_INDEX, order=("time",), limit=100_000, checked=True)
EVIDENCE = Records[tuple[str, ...]]("evidence", tuple[str, ...], checked=True)
"""By decision: ids of the blocks that it rests on."""


def check(line: Line) -> None:
    """Assert what must be true of a line after every step."""
    counts = line.counts
    assert counts.batches == len(line.pending) + counts.stored + counts.lost
    assert counts.games == sum(b.games for b in line.pending) + counts.games_kept + counts.games_lost
    assert line.fresh >= 0
    blobs = [batch.blob for batch in (*line.pending, *line.window)]
    assert len(set(blobs)) == len(blobs), "a batch counts once"
    assert (line.champion is None) == (line.generation < 0)
    assert (line.stage in (Stage.VERIFYING, Stage.EVALUATING)) == (line.candidate is not None)
    assert line.champion is not None or (line.stage in (Stage.STARTING, Stage.VERIFYING) and line.review is None)
    assert len(line.ancestors) <= ANCESTORS_MAX
    assert len({job.key for job in line.manual_jobs}) == len(line.manual_jobs), "a job is held once"
    if line.review is not None:
        _check_blocks(line.review.challenge)
    if line.candidate is not None and line.candidate.challenge is not None:
        assert line.stage is Stage.EVALUATING
        assert line.candidate.challenge.opponent == line.champion
        _check_blocks(line.candidate.challenge)


def _check_blocks(challenge: Challenge) -> None:
    numbers = [block.number for block in challenge.blocks]
    assert numbers == sorted(set(numbers))
    assert all(number < challenge.dispatched for number in numbers)


def needed_models(line: Line) -> set[str]:
    """Models that the line still needs copies of."""
    candidate = line.candidate.model if line.candidate else None
    opponent = line.review.challenge.opponent if line.review else None
    models = (line.champion, candidate, opponent, *(ancestor.model for ancestor in line.ancestors))
    return {model for model in models if model is not None}


def needed_blobs(line: Line) -> dict[str, str]:
    """Blobs that the line still needs copies of, each with its kind."""
    blobs = {batch.blob: "games" for batch in line.window}
    if line.samples is not None:
        blobs[line.samples] = "samples"
    return blobs | dict.fromkeys(sorted(needed_models(line)), "model")


class _Stay(Value):
    """One stay of a line in a stage; its delay is published once."""

    stage: str
    since: float


STAYS = Records("overdue", _Stay)  #: By variant: the last stay whose delay was published.


def stay(line: Line) -> _Stay:
    """The stay that *line* is in."""
    return _Stay(stage=line.stage, since=line.since)


def overdue(line: Line, now: float, limits: StageLimits) -> Verdict | None:
    """The verdict on a stay that takes too long."""
    # The wall clock may jump: a false alarm costs an operator a look, and nothing else depends on it.
    limit: float | None = getattr(limits, f"{line.stage}_seconds_max", None)
    seconds = now - line.since
    # A line that holds its jobs waits for an operator, who may take all the time.
    if line.manual_jobs or limit is None or seconds <= limit:
        return None
    return Verdict("overdue", False, f"seconds in the stage {line.stage}", seconds, limit, line.since)


def may_play(line: Line, policy: Policy, at: float) -> Verdict:
    """Whether *line* can use more self-play."""
    if line.champion is None:
        return Verdict("fill", False, "a champion to play with", 0, 1, at)
    if line.stage is Stage.RESTING:
        return Verdict("fill", False, "the line rests", line.iteration, policy.iterations_max or 0, at)
    waiting = line.fresh + sum(batch.games for batch in line.pending)
    limit = FRESH_EXPORTS_MAX * policy.games_per_export
    return Verdict("fill", waiting < limit, "games that wait for export", waiting, limit, at)


def setback_seconds(line: Line) -> float:
    """How long the next job of *line* waits because others were given up: doubling, from a few seconds on."""
    doublings = min(line.setbacks, _SETBACKS_MAX) - 1
    return 0.0 if doublings < 0 else min(_SETBACK_SECONDS_MIN * 2.0**doublings, _SETBACK_SECONDS_MAX)


def top_up(line: Line, live: int, policy: Policy) -> tuple[Line, tuple[Play, ...]]:
    """The line and the Play jobs that bring the *live* ones to the policy's number."""
    assert line.champion is not None
    blank = Play(variant=line.variant, model=line.champion, games=policy.games_per_batch, priority=ORDINARY)
    blank = changed(blank, pause_seconds=setback_seconds(line))
    numbers = range(line.plays + 1, line.plays + 1 + max(policy.play_jobs_open - live, 0))
    jobs = [changed(blank, seed=seed_of(policy.seed, line.variant, "play", number)) for number in numbers]
    return changed(line, plays=line.plays + len(jobs)), tuple(jobs)
