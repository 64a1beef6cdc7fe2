"""Events about the cluster as a whole."""

from ringrift.events.base import Event


class RoleTaken(Event, tag="cluster.role_taken", for_people=True):
    """A node took a role in a new term; the node that held it before is fenced off."""

    role: str
    node: str
    term: int
    before: str = ""  #: The node that stopped renewing it, if it was taken over from one.
    reason: str = ""  #: *first* (it never had a holder), *released* (it was free) or *expired* (not renewed in time).
