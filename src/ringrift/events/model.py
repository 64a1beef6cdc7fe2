"""Events about models."""

from ringrift.events.base import LineEvent
from ringrift.kernel.value import Value


class Evidence(Value):
    """The basis of a decision about a model: the blocks of the completed prefix, in dispatch order."""

    blocks: int
    score: float
    llr: float
    lower: float
    upper: float
    rule: str
    ranked: bool = False  #: Whether it is a rank score: its scale is that of two players, however many there are.
    alpha: float = 0.0  #: The chance of passing by luck that the error budget gave this test; 0 where there was none.

    def scale(self, players: int) -> int:
        """The number of players whose scale the score has."""
        return 2 if self.ranked else players


class Verified(LineEvent, tag="model.verified", evidence=True):
    """Hash, format and weights of a model were checked: it can be used."""

    model: str
    node: str


class Imported(LineEvent, tag="model.imported", evidence=True, for_people=True):
    """A model from elsewhere was imported and checked.  Importing does not make it a champion."""

    model: str
    source: str  #: Blob of the imported file.
    node: str


class Promoted(LineEvent, tag="model.promoted", evidence=True):
    """The candidate became the champion, on this evidence.  Generation 0 needs none."""

    model: str
    generation: int
    previous: str | None = None
    evidence: Evidence | None = None


class Rejected(LineEvent, tag="model.rejected", evidence=True, for_people=True):
    """The candidate is not promoted, on this evidence or for this reason."""

    model: str
    reason: str
    evidence: Evidence | None = None


class RolledBack(LineEvent, tag="model.rolled_back", evidence=True):
    """The line went back from *model* to an earlier champion."""

    model: str
    to: str
    generation: int  #: Generation of the earlier champion.
    reason: str
    level: str = ""  #: Severity, if there is evidence for it: minor, moderate, severe or critical.
    evidence: Evidence | None = None


class Missing(LineEvent, tag="model.missing"):
    """No holder of the champion answers.  Nothing is given up: the line waits for one of *nodes*."""

    model: str
    nodes: tuple[str, ...]


class Returned(LineEvent, tag="model.returned", evidence=True):
    """A holder of the champion answers again; with *generation* a lost model has turned up, and is tested again."""

    model: str
    node: str = ""  #: A node that has it, of a model that was lost.
    generation: int | None = None


class Distributed(LineEvent, tag="model.distributed", evidence=True):
    """Every node that plays and could be reached has a verified copy of the champion."""

    model: str
    nodes: tuple[str, ...]
    missed: tuple[str, ...] = ()  #: Nodes that play and could not be reached; each fetches it when it needs it.
