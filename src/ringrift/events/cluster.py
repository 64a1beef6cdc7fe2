"""Events about the cluster as a whole."""

from ringrift.events.base import Event


class RoleTaken(Event, tag="cluster.role_taken", for_people=True):
    """A node took a role in a new term; the node that held it before is fenced off."""

    role: str
    node: str
    term: int
    before: str = ""  #: The node that stopped renewing it, if it was taken over from one.
    reason: str = ""  #: *first* (it never had a holder), *released* (it was free) or *expired* (not renewed in time).


class BackedUp(Event, tag="cluster.backed_up"):
    """The store and every file that could be read were copied to a place outside of the cluster."""

    place: str
    backup: str
    files: int
    bytes: int = 0  #: That were sent; what the place had is not sent again.
    missing: int = 0  #: Files that no node that is there has.


class Restored(Event, tag="cluster.restored"):
    """The store was restored from a backup and begins a new epoch; what happened after that backup is not in it."""

    backup: str
    epoch: int
    position: int  #: Of the last event in the backup.
    missing: int = 0  #: Files that were not in the backup.
