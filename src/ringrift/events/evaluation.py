"""What happened in evaluation."""

from ringrift.events.base import LineEvent
from ringrift.kernel.value import Value


class Played(Value):
    """One numbered block: the candidate's score from each seat."""

    number: int
    scores: tuple[float, ...]
    ranks: tuple[float, ...] = ()
    """The share of its opponents that it finished before, from each seat, where the workload says so."""


class BlocksPlayed(LineEvent, tag="evaluation.blocks_played"):
    """A node played numbered blocks of a match between candidate and champion."""

    candidate: str
    champion: str
    blocks: tuple[Played, ...]
    node: str
    settings: str = ""
    """How both searched: the same model is another player with other settings."""
    seed: int = 0
    """Of the openings."""


class Tried(LineEvent, tag="evaluation.tried"):
    """A vector of numbers was tried: the higher its fitness, the better."""

    vector: tuple[float, ...]
    fitness: float
    node: str
    job: str = ""


class Finished(LineEvent, tag="evaluation.finished"):
    """The match between a candidate and the champion is decided."""

    candidate: str
    champion: str
    blocks: int
    score: float
    elo: float
    """Of the candidate over the champion, as the blocks say."""
    promoted: bool


class Reviewed(LineEvent, tag="evaluation.reviewed"):
    """The champion was tested against an earlier one, and either stays or has to go."""

    model: str
    opponent: str
    passed: bool
    blocks: int
    score: float
    elo: float
    reason: str
    """Why it was tested."""


class Strength(Value):
    """How strong one player is: its Elo with 95 % bounds."""

    weights: str
    """A model, or the name of a player that never trains."""
    settings: str
    elo: float
    lower: float
    upper: float
    blocks: int
    anchored: bool
    """Whether a chain of blocks leads to generation 0; else it is the Elo over another one of its group."""


class Pair(Value):
    """Two players of whom another block would tell much, by their weights."""

    one: str
    other: str


class Summary(Value):
    """What a computation of ratings tells at once; the whole is in its report."""

    players: int
    blocks: int
    settings: str = ""
    """How the players below searched."""
    strengths: tuple[Strength, ...] = ()
    pairs: tuple[Pair, ...] = ()


class Rated(LineEvent, tag="evaluation.rated"):
    """The strength of every player of a line was computed from all blocks that count."""

    report: str
    """The blob with every rating: equal blocks make equal reports."""
    tally: str
    """The blob with the counts that it was computed from."""
    summary: Summary
    node: str


class VelocityChanged(LineEvent, tag="evaluation.velocity_changed"):
    """A line gains strength at another pace than before: *rising*, *steady* or *flat*."""

    trend: str
    before: str
    elo_per_hour: float
    matches: int
    """Decided matches that this rests on."""


class Plateaued(LineEvent, tag="evaluation.plateaued"):
    """Many candidates in a row were rejected: the line no longer gets stronger by itself."""

    rejections: int
    since: float
