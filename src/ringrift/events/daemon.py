"""Events about daemons."""

from ringrift.events.base import Event, MemoryEvent


class Started(MemoryEvent, tag="daemon.started"):
    """A daemon started, for the first time or again after a failure."""

    daemon: str
    node: str
    failures: int = 0  #: Recent failures, within its restart budget.


class Stopped(MemoryEvent, tag="daemon.stopped"):
    """A daemon stopped, on request or with an error after which it is restarted."""

    daemon: str
    node: str
    error: str = ""
    cause: str = "request"  #: *request*, *error*, *hang* (no progress), *no_room* (disk full) or *busy* (store).
    ready: bool = True  #: Whether it had made any progress since it was started.


class Stalled(MemoryEvent, tag="daemon.stalled"):
    """The event loop of a node was blocked; *daemon* blocked it, where that is known."""

    node: str
    daemon: str
    place: str
    seconds: float


class Failed(Event, tag="daemon.failed"):
    """A daemon used up its restart budget: it rests until an operator clears it, or for long if the loop needs it."""

    daemon: str
    node: str
    error: str
    times: int
    seconds: float
    cause: str = "budget"  #: *budget*, *final* (an error after which it never starts), *hang* or *group*.


class Cleared(Event, tag="daemon.cleared"):
    """A daemon whose restart budget was used up works again: an operator cleared it, or its rest was over."""

    daemon: str
    node: str


class CommandIssued(Event, tag="daemon.command_issued"):
    """An operator asked for a daemon of a node to start, stop, restart or be cleared; the node carries it out."""

    daemon: str
    node: str
    action: str
    by: str


class CommandDone(Event, tag="daemon.command_done", for_people=True):
    """A node carried out a command, or failed to."""

    command: str  #: Id of the event that issued it.
    daemon: str
    node: str
    action: str
    error: str = ""  #: Why it failed, if it did.
