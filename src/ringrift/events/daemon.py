"""Events about daemons."""

from ringrift.events.base import Event, MemoryEvent, for_people


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


class Failed(Event, tag="daemon.failed"):
    """A daemon failed more often than its restart budget allows; it stays stopped until an operator clears it."""

    daemon: str
    node: str
    error: str
    times: int
    seconds: float


class Cleared(Event, tag="daemon.cleared"):
    """An operator restarted a daemon whose restart budget was used up."""

    daemon: str
    node: str


class CommandIssued(Event, tag="daemon.command_issued"):
    """An operator asked for a daemon of a node to start, stop, restart or be cleared; the node carries it out."""

    daemon: str
    node: str
    action: str
    by: str


@for_people
class CommandDone(Event, tag="daemon.command_done"):
    """A node carried out a command, or failed to."""

    command: str  #: Id of the event that issued it.
    daemon: str
    node: str
    action: str
    error: str = ""  #: Why it failed, if it did.
