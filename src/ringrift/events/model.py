"""What happened to models."""

from ringrift.events.base import LineEvent
from ringrift.kernel.value import Value


class Evidence(Value):
    """What a decision about a model rests on: the blocks of the completed prefix, in dispatch order."""

    blocks: int
    score: float
    llr: float
    lower: float
    upper: float
    rule: str
    ranked: bool = False
    """Whether the score is a rank score: then its scale is that of two players, however many there are."""
    alpha: float = 0.0
    """The chance of passing by luck that the error budget gave this test; 0 where there was none."""

    def scale(self, players: int) -> int:
        """The number of players whose scale the score has."""
        return 2 if self.ranked else players


class Verified(LineEvent, tag="model.verified"):
    """Hash, format and weights of a model were checked, and it can be used."""

    model: str
    node: str


class Imported(LineEvent, tag="model.imported"):
    """A model that comes from elsewhere was taken in and checked.  It is nobody's champion by that."""

    model: str
    source: str
    """The blob of the file that it came in."""
    node: str


class Promoted(LineEvent, tag="model.promoted"):
    """The candidate is the champion now, on this evidence.  Generation 0 needs none."""

    model: str
    generation: int
    previous: str | None = None
    evidence: Evidence | None = None


class Rejected(LineEvent, tag="model.rejected"):
    """The candidate is not promoted, on this evidence or for this reason."""

    model: str
    reason: str
    evidence: Evidence | None = None


class RolledBack(LineEvent, tag="model.rolled_back"):
    """The line went back from *model* to an earlier champion."""

    model: str
    to: str
    generation: int
    """Of the one it went back to."""
    reason: str
    level: str = ""
    """How bad it was, if evidence says: minor, moderate, severe or critical."""
    evidence: Evidence | None = None


class Distributed(LineEvent, tag="model.distributed"):
    """Every node that plays has a verified copy of the champion."""

    model: str
    nodes: tuple[str, ...]
