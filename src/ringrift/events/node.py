"""What happened to nodes."""

from ringrift.events.base import Event


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
