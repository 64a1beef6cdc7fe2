"""Events about matches and ratings."""

from ringrift.events.base import LineEvent, evidence, for_people
from ringrift.kernel.value import Value


class Block(Value, omit_defaults=True):
    """One numbered block of a match: the candidate's share of first place from each seat.

    An event names node and match for all its blocks at once; a block that stands alone carries them itself.
    """

    number: int
    scores: tuple[float, ...]
    ranks: tuple[float, ...] = ()
    """The share of its opponents that it finished before, from each seat, where the workload reports it."""
    node: str = ""
    match: str = ""
    time: float = 0.0  #: When it was recorded.
    era: int = 0  #: How often its node had been quarantined or released when it was recorded.

    @property
    def id(self) -> str:
        """Its name in evidence.  The same block played on two nodes is two."""
        return f"{self.match}/{self.number:06d}/{self.node}"


@evidence
class BlocksPlayed(LineEvent, tag="evaluation.blocks_played"):
    """A node played numbered blocks of a match between candidate and champion."""

    candidate: str
    champion: str
    blocks: tuple[Block, ...]
    node: str
    settings: str = ""  #: Search settings of both: the same model with other settings is another player.
    seed: int = 0  #: Seed of the openings.


@evidence
class Finished(LineEvent, tag="evaluation.finished"):
    """The match between a candidate and the champion is decided."""

    candidate: str
    champion: str
    blocks: int
    score: float
    elo: float  #: Elo of the candidate over the champion, estimated from the blocks.
    promoted: bool


@evidence
class Reviewed(LineEvent, tag="evaluation.reviewed"):
    """The champion was tested against an earlier one: it stays or is rolled back."""

    model: str
    opponent: str
    passed: bool
    blocks: int
    score: float
    elo: float
    reason: str  #: Why it was tested.


class Strength(Value):
    """How strong one player is: its Elo with 95 % bounds."""

    weights: str  #: A model, or the name of a player that never trains.
    settings: str
    elo: float
    lower: float
    upper: float
    blocks: int
    anchored: bool
    """Whether a chain of blocks leads to generation 0; otherwise the Elo is relative to another player of its group."""


class Pair(Value):
    """Two players, by their weights, between whom another block would be informative."""

    one: str
    other: str


class Summary(Value):
    """The main results of a computation of ratings; the report has all of them."""

    players: int
    blocks: int
    settings: str = ""  #: Search settings of the players below.
    strengths: tuple[Strength, ...] = ()
    pairs: tuple[Pair, ...] = ()


@evidence
class Rated(LineEvent, tag="evaluation.rated"):
    """The strength of every player of a line was computed from all blocks that count."""

    report: str  #: The blob with every rating: equal blocks make equal reports.
    tally: str  #: The blob with the counts that the report was computed from.
    summary: Summary
    node: str


@for_people
class VelocityChanged(LineEvent, tag="evaluation.velocity_changed"):
    """The rate at which a line gains strength changed: *rising*, *steady* or *flat*."""

    trend: str
    before: str
    elo_per_hour: float
    champions: int  #: Rated champions that the estimate is based on.


class Plateaued(LineEvent, tag="evaluation.plateaued"):
    """Many candidates in a row were rejected: the line no longer gains strength."""

    rejections: int
    since: float
