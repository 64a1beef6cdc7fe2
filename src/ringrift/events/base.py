"""Event: something that happened; Envelope: the event as the log stores it."""

from typing import ClassVar, TypeVar

from ringrift.kernel.value import Value

E = TypeVar("E", bound="Event")


class Event(Value):
    """Something that happened, named with a past participle; never a request for something to happen.

    Wire rules: a new field has a default; types and tags never change; an event that is out of use stays declared.
    """

    VERSION: ClassVar[int] = 1
    SCOPE: ClassVar[str] = "log"
    """*log*: durable, for every process.  *memory*: not stored, only for subscribers of this process."""
    KEEP: ClassVar[str] = "story"  #: How long the log keeps it: *story* for long, *detail* for less.
    FOR_PEOPLE: ClassVar[bool] = False
    EVIDENCE: ClassVar[bool] = False

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
    """An event that has no value a moment later, such as progress."""

    SCOPE: ClassVar[str] = "memory"


def for_people(event: type[E]) -> type[E]:
    """Mark an event that is published only for people (status, event list, live view): no daemon reacts to it."""
    event.FOR_PEOPLE = True
    return event


def evidence(event: type[E]) -> type[E]:
    """Mark an event that decisions rest on: it counts only from work under a lease and from the loop itself."""
    event.EVIDENCE = True
    return event


class Unknown(Value):
    """An event whose name this version does not have, with its bytes unchanged."""

    wire_name: str
    raw: bytes


class Envelope(Value, kw_only=False):
    """An event with its metadata.  *body* is stored as it came and never rewritten.

    Its fields are the columns of the log, in their order.
    """

    id: str
    name: str
    body: bytes
    version: int = 1
    position: int = 0
    time: float = 0.0
    node: str = ""
    source: str = ""
    labels: str = ""  #: Free text of the publisher, stored and never interpreted.
    correlation: str = ""
    cause: str = ""
    trace: str = ""
    depth: int = 0  #: Events in a row that caused each other up to this one, without any work in between.
