"""What happened to daemons."""

from ringrift.events.base import Event


class Failed(Event, tag="daemon.failed"):
    """A daemon failed more often than its restart budget allows, and rests until it is cleared by hand."""

    daemon: str
    node: str
    error: str
    times: int
    seconds: float
