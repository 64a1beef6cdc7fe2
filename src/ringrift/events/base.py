"""Event: something that happened; Envelope: the event as the log keeps it."""

from typing import ClassVar

from ringrift.kernel.value import Value


class Event(Value):
    """Something that happened, in the past participle.  Never an order.

    Wire rules: a new field has a default; a type never changes; a tag never changes; a retired event stays listed.
    """

    VERSION: ClassVar[int] = 1
    SCOPE: ClassVar[str] = "log"
    """*log*: durable, for everybody.  *memory*: skips the log and reaches those who listen in this process, now."""
    KEEP: ClassVar[str] = "story"
    """How long the log keeps it: *story* for long, *detail* for less."""

    @classmethod
    def name(cls) -> str:
        """The name on the wire: the domain, a dot, the snake-case class name."""
        tag = cls.__struct_config__.tag
        assert isinstance(tag, str)
        return tag


class LineEvent(Event):
    """An event of one variant's line."""

    variant: str


class MemoryEvent(Event):
    """An event that is worth nothing a moment later: heartbeats, progress."""

    SCOPE: ClassVar[str] = "memory"


class Unknown(Value):
    """An event whose name this version does not know, kept as it came."""

    wire_name: str
    raw: bytes


class Envelope(Value):
    """An event with everything around it.  *body* is stored as it came and never rewritten."""

    id: str
    name: str
    body: bytes
    version: int = 1
    position: int = 0
    time: float = 0.0
    node: str = ""
    source: str = ""
    origin: str = ""
    correlation: str = ""
    cause: str = ""
    trace: str = ""
    depth: int = 0
    """How many events in a row caused each other up to this one, without any work in between."""
