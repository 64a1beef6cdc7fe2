"""Events about durable readers of the log."""

from ringrift.events.base import Event


class Lapsed(Event, tag="reader.lapsed"):
    """A reader left events unread for too long: the log is compacted without it until it is forgotten."""

    reader: str
    position: int
    seconds: float  #: Age of the oldest event that it has not read.


class Forgotten(Event, tag="reader.forgotten"):
    """An operator deleted a reader: a reader of that name starts anew."""

    reader: str
