"""What happened to nodes."""

from typing import ClassVar

from ringrift.events.base import Event, LineEvent
from ringrift.events.evaluation import Played


class Joined(Event, tag="node.joined"):
    """A node started and is ready for work."""

    node: str
    profile: str


class Left(Event, tag="node.left"):
    """A node stopped in good order; it holds no lease any more."""

    node: str


class Lost(Event, tag="node.lost"):
    """A node has not been heard of for several beats."""

    node: str
    seconds: float


class Recovered(Event, tag="node.recovered"):
    """A node that was given up for lost is heard of again."""

    node: str


class CanaryPlayed(LineEvent, tag="node.canary_played"):
    """A node played blocks whose outcome is the same on every sound machine."""

    KEEP: ClassVar[str] = "detail"
    seed: int
    blocks: tuple[Played, ...]
    node: str


class Quarantined(Event, tag="node.quarantined"):
    """A node gives wrong results: it plays no more, and what it reported is no evidence."""

    node: str
    reason: str
    by: str = ""
    """Who says so, if it was a person."""


class Released(Event, tag="node.released"):
    """A node that was quarantined may play again."""

    node: str
    by: str = ""
