"""Events about failed deliveries."""

from ringrift.events.base import Event


class Changed(Event, tag="delivery.changed"):
    """Deliveries to one reader were parked, died, recovered on a retry or were discarded."""

    reader: str
    positions: tuple[int, ...]
    state: str  #: parked, dead, done or discarded.
    error: str = ""  #: Error of the first of them.
    timed_out: bool = False  #: Whether the first of them took too long.
