"""Line: what the loop remembers of one variant, and what must always be true of it."""

from collections.abc import Iterable
from enum import StrEnum

from ringrift.evaluation.blocks import Block
from ringrift.events.model import Evidence
from ringrift.jobs import Distribute, Export, Match, Sync, Train, Verify
from ringrift.kernel.settings import Gate
from ringrift.kernel.value import Value

KIND = "line"
DECISION, EVIDENCE = "decision", "evidence"
Held = Sync | Export | Train | Verify | Match | Distribute
"""A job that a line may keep until its stage is asked for."""
ANCESTORS_MAX = 8
"""Earlier champions that a line can go back to, and that are kept for it."""


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
    node: str = ""
    """Who played it."""


class Challenge(Value):
    """A sequential test between two models: what it is judged by, which blocks were asked for and what came of them."""

    opponent: str
    gate: Gate
    """With the alpha that the error budget gave it when it began."""
    seed: int
    dispatched: int = 0
    """Blocks asked for so far."""
    blocks: tuple[Block, ...] = ()


class Candidate(Value):
    """A model on its way to become champion."""

    model: str
    generation: int
    copied: bool = False
    verified: bool = False
    challenge: Challenge | None = None
    """Its match against the champion, once it has begun."""


class Review(Value):
    """A test of the champion itself: whether it is still as strong as one before it."""

    reason: str
    challenge: Challenge


class Ancestor(Value):
    """An earlier champion."""

    model: str
    generation: int


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
    ancestors: tuple[Ancestor, ...] = ()
    """Earlier champions, the last one last."""
    review: Review | None = None
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
    held: tuple[Held, ...] = ()
    """What waits until somebody asks for its stage, while auto-trigger is off."""
    counts: Counts = Counts()

    @property
    def previous(self) -> str | None:
        """The champion before this one, if it is known."""
        return self.ancestors[-1].model if self.ancestors else None


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
    kind: str = "promotion"
    """Or *rollback*: then *model* is the one that the line went back to, and *previous* the one that had to go."""
    gate: Gate | None = None
    """What the evidence was judged by."""
    seed: int = 0
    """Of the openings of its match."""
    id: str = ""
    """Its own; the ids of the blocks that it rests on are kept under it."""


def gains(decisions: Iterable[Decision], players: int) -> list[tuple[float, int, int]]:
    """What each promotion that still stands gained: score, blocks, and the players of the score's scale."""
    standing: list[tuple[str, tuple[float, int, int]]] = []
    for decision in decisions:
        found = decision.evidence
        if decision.kind == "rollback":
            while standing and standing[-1][0] != decision.model:
                standing.pop()
        elif decision.promoted and found is not None:
            standing.append((decision.model, (found.score, found.blocks, found.scale(players))))
    return [gain for _, gain in standing]


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
    assert len(line.ancestors) <= ANCESTORS_MAX
    assert len({job.key for job in line.held}) == len(line.held), "a job is held once"
    if line.review is not None:
        assert line.champion is not None
        _check_blocks(line.review.challenge)
    if line.candidate is not None and line.candidate.challenge is not None:
        assert line.stage is Stage.EVALUATING
        assert line.candidate.challenge.opponent == line.champion
        _check_blocks(line.candidate.challenge)


def _check_blocks(challenge: Challenge) -> None:
    numbers = [block.number for block in challenge.blocks]
    assert numbers == sorted(set(numbers))
    assert all(number < challenge.dispatched for number in numbers)


def needed(line: Line) -> dict[str, str]:
    """Blobs that the line still needs copies of, each with its kind."""
    earlier = [ancestor.model for ancestor in line.ancestors]
    models = [line.champion, *earlier, line.candidate.model if line.candidate else None]
    models.append(line.review.challenge.opponent if line.review else None)
    wanted = {batch.blob: "games" for batch in line.window}
    if line.samples is not None:
        wanted[line.samples] = "samples"
    return wanted | {model: "model" for model in models if model is not None}
