"""What happened to daemons."""

from ringrift.events.base import Event, MemoryEvent


class Started(MemoryEvent, tag="daemon.started"):
    """A daemon began its duty, for the first time or again after a failure."""

    daemon: str
    node: str
    failures: int = 0
    """Recent ones, within its restart budget."""


class Stopped(MemoryEvent, tag="daemon.stopped"):
    """A daemon ended, because it was asked to or with an error after which it is started again."""

    daemon: str
    node: str
    error: str = ""


class Failed(Event, tag="daemon.failed"):
    """A daemon failed more often than its restart budget allows, and rests until it is cleared by hand."""

    daemon: str
    node: str
    error: str
    times: int
    seconds: float


class Cleared(Event, tag="daemon.cleared"):
    """A daemon that had been given up was started again by hand."""

    daemon: str
    node: str


class Ordered(Event, tag="daemon.ordered"):
    """Somebody wants a daemon of a node to start, stop, start again, or be cleared; the node carries it out."""

    daemon: str
    node: str
    action: str
    by: str


class Obeyed(Event, tag="daemon.obeyed"):
    """A node has carried out an order, or could not."""

    order: str
    """The id of the event that gave it."""
    daemon: str
    node: str
    action: str
    error: str = ""
    """Why it could not."""
