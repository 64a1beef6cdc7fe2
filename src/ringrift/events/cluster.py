"""What happened to the cluster as a whole."""

from ringrift.events.base import Event


class RoleTaken(Event, tag="cluster.role_taken"):
    """A node took a role in a new term; whoever held it before is fenced off."""

    role: str
    node: str
    term: int
