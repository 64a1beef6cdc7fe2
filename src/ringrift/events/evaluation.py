"""Events about matches and ratings."""

from ringrift.events.base import LineEvent
from ringrift.kernel.value import Value


class Block(Value, omit_defaults=True):
    """One numbered block of a match: the candidate's share of first place from each seat.

    An event names node and match for all its blocks at once; a block that stands alone carries them itself.
    """

    number: int
    scores: tuple[float, ...]
    ranks: tuple[float, ...] = ()  #: Its share of opponents finished before, from each seat, where reported.
    node: str = ""
    match: str = ""
    time: float = 0.0  #: When it was recorded.
    era: int = 0  #: How often its node had been quarantined or released when it was recorded.

    @property
    def id(self) -> str:
        """Its name in evidence.  The same block played on two nodes is two."""
        return f"{self.match}/{self.number:06d}/{self.node}"


class BlocksPlayed(LineEvent, tag="evaluation.blocks_played", evidence=True):
    """A node played numbered blocks of a match between candidate and champion."""

    candidate: str
    champion: str
    blocks: tuple[Block, ...]
    node: str
    settings: str = ""  #: Search settings of both: the same model with other settings is another player.
    seed: int = 0  #: Seed of the openings.


class Finished(LineEvent, tag="evaluation.finished", evidence=True):
    """The match between a candidate and the champion is decided."""

    candidate: str
    champion: str
    blocks: int
    score: float
    elo: float  #: Elo of the candidate over the champion, estimated from the blocks.
    promoted: bool


class Reviewed(LineEvent, tag="evaluation.reviewed", evidence=True):
    """The champion was tested against an earlier one: it stays or is rolled back."""

    model: str
    opponent: str
    passed: bool
    blocks: int
    score: float
    elo: float
    reason: str  #: Why it was tested.


class WinRateFell(LineEvent, tag="evaluation.win_rate_fell"):
    """A champion's last blocks against an opponent went clearly worse than those of the champion before it."""

    model: str
    predecessor: str
    opponent: str  #: A model, or the name of a player that never trains.
    rate: float
    before: float
    blocks: int  #: Blocks that the rate is made of.


class Strength(Value):
    """How strong one player is: its Elo with 95 % bounds."""

    weights: str  #: A model, or the name of a player that never trains.
    settings: str
    elo: float
    lower: float
    upper: float
    blocks: int
    anchored: bool  #: Whether a chain of blocks leads to generation 0; else its Elo is relative to its own group.


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


class Rated(LineEvent, tag="evaluation.rated", evidence=True):
    """The strength of every player of a line was computed from all blocks that count."""

    report: str  #: The blob with every rating: equal blocks make equal reports.
    tally: str  #: The blob with the counts that the report was computed from.
    summary: Summary
    node: str


class VelocityChanged(LineEvent, tag="evaluation.velocity_changed", for_people=True):
    """The rate at which a line gains strength changed: *rising*, *steady* or *flat*."""

    trend: str
    before: str
    elo_per_hour: float
    champions: int  #: Rated champions that the estimate is based on.


class Plateaued(LineEvent, tag="evaluation.plateaued"):
    """Many candidates in a row were rejected: the line no longer gains strength."""

    rejections: int
    since: float
