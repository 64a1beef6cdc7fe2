"""What happened to nodes."""

from ringrift.events.base import Event


class Joined(Event, tag="node.joined"):
    """A node started and is ready for work."""

    node: str
    profile: str


class Left(Event, tag="node.left"):
    """A node stopped in good order; it holds no lease any more."""

    node: str
