"""Events about models."""

from ringrift.events.base import LineEvent, evidence, for_people
from ringrift.kernel.value import Value


class Evidence(Value):
    """The basis of a decision about a model: the blocks of the completed prefix, in dispatch order."""

    blocks: int
    score: float
    llr: float
    lower: float
    upper: float
    rule: str
    ranked: bool = False
    """Whether the score is a rank score: then its scale is that of two players, however many there are."""
    alpha: float = 0.0  #: The chance of passing by luck that the error budget gave this test; 0 where there was none.

    def scale(self, players: int) -> int:
        """The number of players whose scale the score has."""
        return 2 if self.ranked else players


@evidence
class Verified(LineEvent, tag="model.verified"):
    """Hash, format and weights of a model were checked: it can be used."""

    model: str
    node: str


@evidence
@for_people
class Imported(LineEvent, tag="model.imported"):
    """A model from elsewhere was imported and checked.  Importing does not make it a champion."""

    model: str
    source: str  #: Blob of the imported file.
    node: str


@evidence
class Promoted(LineEvent, tag="model.promoted"):
    """The candidate became the champion, on this evidence.  Generation 0 needs none."""

    model: str
    generation: int
    previous: str | None = None
    evidence: Evidence | None = None


@evidence
@for_people
class Rejected(LineEvent, tag="model.rejected"):
    """The candidate is not promoted, on this evidence or for this reason."""

    model: str
    reason: str
    evidence: Evidence | None = None


@evidence
class RolledBack(LineEvent, tag="model.rolled_back"):
    """The line went back from *model* to an earlier champion."""

    model: str
    to: str
    generation: int  #: Generation of the earlier champion.
    reason: str
    level: str = ""  #: Severity, if there is evidence for it: minor, moderate, severe or critical.
    evidence: Evidence | None = None


@evidence
class Distributed(LineEvent, tag="model.distributed"):
    """Every node that plays has a verified copy of the champion."""

    model: str
    nodes: tuple[str, ...]
