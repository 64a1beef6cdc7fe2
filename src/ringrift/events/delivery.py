"""Events about failed deliveries."""

from ringrift.events.base import Event


class Changed(Event, tag="delivery.changed"):
    """Deliveries to one reader were parked, died, recovered on a retry or were discarded.

    *state* is parked, dead, done or discarded.
    """

    reader: str
    positions: tuple[int, ...]
    state: str
    error: str = ""  #: Error of the first of them.
    timed_out: bool = False  #: Whether the first of them took too long.
