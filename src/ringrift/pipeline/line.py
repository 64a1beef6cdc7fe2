"""Line: what the loop remembers of one variant, and what must always be true of it."""

from enum import StrEnum

from ringrift.events.evaluation import Played
from ringrift.events.model import Evidence
from ringrift.kernel.value import Value

KIND = "line"
DECISION = "decision"


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


class Batch(Value):
    """A batch of finished games."""

    blob: str
    games: int
    rounds: int = 0
    """How often its copy has been given up and asked for again."""


class Candidate(Value):
    """A model on its way to become champion."""

    model: str
    generation: int
    copied: bool = False
    verified: bool = False
    dispatched: int = 0
    """Blocks asked for so far."""
    blocks: tuple[Played, ...] = ()


class Counts(Value):
    """Batches and games ever: played = pending + kept + lost, always."""

    batches: int = 0
    games: int = 0
    kept: int = 0
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
    iteration: int = 0
    """Promotions on evidence so far."""
    champion: str | None = None
    generation: int = -1
    previous: str | None = None
    plays: int = 0
    """Play jobs asked for so far: each gets a seed of its own."""
    tries: int = 0
    """Export, Train and Match rounds asked for so far, likewise."""
    fresh: int = 0
    """Games kept since the last export was asked for."""
    pending: tuple[Batch, ...] = ()
    """Finished, but not yet copied."""
    window: tuple[Batch, ...] = ()
    """Copied; the newest ones are what is exported."""
    asked: str | None = None
    """Key of the one job that the stage waits for: what comes of an earlier one is out of turn."""
    samples: str | None = None
    candidate: Candidate | None = None
    counts: Counts = Counts()


class Decision(Value):
    """Why a model was or was not promoted.  Kept for ever."""

    variant: str
    model: str
    promoted: bool
    reason: str
    generation: int
    time: float
    previous: str | None = None
    evidence: Evidence | None = None


def check(line: Line) -> None:
    """Assert what must be true of a line after every step."""
    counts = line.counts
    assert counts.batches == len(line.pending) + counts.kept + counts.lost
    assert counts.games == sum(b.games for b in line.pending) + counts.games_kept + counts.games_lost
    assert line.fresh >= 0
    blobs = [batch.blob for batch in (*line.pending, *line.window)]
    assert len(set(blobs)) == len(blobs), "a batch counts once"
    assert (line.champion is None) == (line.generation < 0)
    assert (line.stage in (Stage.VERIFYING, Stage.EVALUATING)) == (line.candidate is not None)
    if line.stage not in (Stage.STARTING, Stage.VERIFYING):
        assert line.champion is not None
    if line.candidate is not None:
        numbers = [block.number for block in line.candidate.blocks]
        assert numbers == sorted(set(numbers))
        assert all(number < line.candidate.dispatched for number in numbers)


def needed(line: Line) -> dict[str, str]:
    """Blobs that the line still needs copies of, each with its kind."""
    models = [line.champion, line.previous, line.candidate.model if line.candidate else None]
    wanted = {batch.blob: "games" for batch in line.window}
    if line.samples is not None:
        wanted[line.samples] = "samples"
    return wanted | {model: "model" for model in models if model is not None}
