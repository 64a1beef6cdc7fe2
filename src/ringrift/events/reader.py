"""What happened to durable readers of the log."""

from ringrift.events.base import Event


class Lapsed(Event, tag="reader.lapsed"):
    """A reader has left events waiting for too long: it holds the log no more, and must be forgotten to start anew."""

    reader: str
    position: int
    seconds: float
    """How long the oldest event it has not taken has waited."""


class Forgotten(Event, tag="reader.forgotten"):
    """A reader was forgotten by hand: one of that name starts anew."""

    reader: str
