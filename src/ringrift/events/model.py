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


class Verified(LineEvent, tag="model.verified"):
    """Hash, format and weights of a model were checked, and it can be used."""

    model: str
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


class Distributed(LineEvent, tag="model.distributed"):
    """Every node that plays has a verified copy of the champion."""

    model: str
    nodes: tuple[str, ...]
