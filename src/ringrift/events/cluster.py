"""Events about the cluster as a whole."""

from ringrift.events.base import Event, for_people


@for_people
class RoleTaken(Event, tag="cluster.role_taken"):
    """A node took a role in a new term; the node that held it before is fenced off."""

    role: str
    node: str
    term: int
