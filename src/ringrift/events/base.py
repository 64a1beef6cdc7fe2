"""Event: something that happened; Envelope: the event as the log stores it."""

from typing import Any, ClassVar

from ringrift.kernel.value import Value, ValueType


class _EventType(ValueType):
    """Puts the marks of an event, which stand beside its tag, into the class."""

    def __new__(mcls, name: str, bases: tuple[type, ...], ns: dict[str, Any], **kw: Any) -> ValueType:
        marks = {mark.upper(): kw.pop(mark) for mark in ("evidence", "for_people", "keep") if mark in kw}
        return super().__new__(mcls, name, bases, ns | marks, **kw)


class Event(Value, metaclass=_EventType):
    """Something that happened, named with a past participle; never a request for something to happen.

    Wire rules: a new field has a default; types and tags never change; an event that is out of use stays declared.
    """

    VERSION: ClassVar[int] = 1
    SCOPE: ClassVar[str] = "log"  #: Or *memory*: not stored, only for subscribers of this process.
    KEEP: ClassVar[str] = "story"  #: How long the log keeps it: *story* for long, *detail* for less.
    FOR_PEOPLE: ClassVar[bool] = False  #: Published only for status, event list and live view: no daemon reacts to it.
    EVIDENCE: ClassVar[bool] = False  #: Decisions rest on it: it counts only from work under a lease and from the loop.

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


class JobEvent(MemoryEvent):
    """An event of one job at a node."""

    job: str
    kind: str
    variant: str
    node: str
    purpose: str = ""


class Unknown(Value):
    """An event whose name this version does not have, with its bytes unchanged."""

    wire_name: str
    raw: bytes


class Envelope(Value, kw_only=False):
    """An event with its metadata, the columns of the log; *body* is stored as it came and never rewritten."""

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
