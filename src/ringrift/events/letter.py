"""What happened to deliveries that went wrong."""

from ringrift.events.base import Event


class Changed(Event, tag="letter.changed"):
    """Deliveries to one reader failed, failed for the last time, were recovered or were given up by hand.

    *state* is parked, dead, done or discarded, as the store has it.
    """

    reader: str
    positions: tuple[int, ...]
    state: str
    error: str = ""
    """Of the first of them."""
