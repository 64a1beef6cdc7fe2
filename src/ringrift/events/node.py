"""Events about nodes."""

from typing import ClassVar

from ringrift.events.base import Event, LineEvent, evidence
from ringrift.events.evaluation import Block


class Joined(Event, tag="node.joined"):
    """A node started and is ready for work."""

    node: str
    profile: str


class Left(Event, tag="node.left"):
    """A node shut down in good order; it holds no leases."""

    node: str


class Lost(Event, tag="node.lost"):
    """A node missed several heartbeats."""

    node: str
    seconds: float


class Recovered(Event, tag="node.recovered"):
    """A lost node sends heartbeats again."""

    node: str


@evidence
class CanaryPlayed(LineEvent, tag="node.canary_played"):
    """A node played blocks whose outcome is the same on every sound machine."""

    KEEP: ClassVar[str] = "detail"

    seed: int
    blocks: tuple[Block, ...]
    node: str


@evidence
class Quarantined(Event, tag="node.quarantined"):
    """A node gives wrong results: it gets no more games to play, and its results are not evidence."""

    node: str
    reason: str
    by: str = ""  #: The operator, if it was done by hand.


@evidence
class Released(Event, tag="node.released"):
    """A quarantined node may play again."""

    node: str
    by: str = ""
