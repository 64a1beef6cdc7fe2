"""RouterEvent: an event as the documents describe it, made from an envelope of ours."""

import hashlib
import re
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any

import msgspec

from ringrift.events import catalog, custom, model, old_names
from ringrift.events.base import Envelope, Event, Unknown
from ringrift.events.old_rows import WORDS


class EventSource(StrEnum):
    """Which of the documented views an event was given to; *router*: none of them, in this program."""

    DATA_BUS = "data_bus"
    STAGE_BUS = "stage_bus"
    CROSS_PROCESS = "cross_process"
    ROUTER = "router"


_TAG = "type"
"""Where the bytes of an event of ours have its name."""


@dataclass
class RouterEvent:
    """An event with the documented fields."""

    event_type: str
    payload: dict[str, Any] = field(default_factory=dict)
    timestamp: float = 0.0
    source: str = ""
    origin: EventSource = EventSource.ROUTER
    event_id: str = ""
    trace_id: str = ""
    correlation_id: str = ""
    parent_event_id: str = ""
    content_hash: str = ""

    @property
    def type(self) -> str:
        """The same as *event_type*."""
        return self.event_type

    @property
    def stage(self) -> str:
        """The same as *event_type*, as the stage bus calls it."""
        return self.event_type


def name_of(event_type: object) -> str:
    """The one spelling of an event's name, given as a member of an enumeration or as text."""
    text = event_type.name if isinstance(event_type, Enum) else str(event_type)
    return old_names.canonical(text)


def payload_of(event: Event, body: bytes, name: str = "") -> dict[str, Any]:
    """What the documents' subscribers find in *event*: as it was said, and our fields under their words too.

    Some words belong to its old *name* only.
    """
    if isinstance(event, custom.Said):
        return dict(event.payload)
    ours: dict[str, Any] = msgspec.to_builtins(event)
    # Fields that ours does not have are in the bytes, which are kept as they came; what skips the log has none.
    said: dict[str, Any] = msgspec.json.decode(body) if body else {}
    theirs: dict[str, Any] = {}
    for field_name, value in ours.items():
        theirs |= {word: value for word in WORDS.get(field_name, ())}
    row = old_names.resolve(name) if name else None
    if row is not None:
        theirs |= {word: ours[field_name] for word, field_name in row.same.items() if field_name in ours}
    if isinstance(event, model.Promoted):
        theirs["model_path"] = f"models/canonical_{event.variant}.pth"  # the link, below the home; it moves next
    return {name: value for name, value in (theirs | ours | said).items() if name != _TAG}


def told(
    event: Event | Unknown, envelope: Envelope, asked: str | None = None, origin: EventSource | None = None
) -> RouterEvent:
    """*envelope* in the documented shape, under the name that was *asked* for if it answers to it.

    Without an *origin* it is the one that its id tells.
    """
    if isinstance(event, Unknown):
        name, payload = old_names.canonical(event.wire_name), {}
    else:
        names = old_names.spoken(event)
        name = asked if asked in names else (names[0] if names else old_names.canonical(envelope.name))
        payload = payload_of(event, envelope.body, name)
    origin = origin or origin_marked(envelope) or EventSource.ROUTER
    return RouterEvent(
        event_type=name, payload=payload, timestamp=envelope.time, source=envelope.source, origin=origin,
        event_id=envelope.id, trace_id=envelope.trace, correlation_id=envelope.correlation,
        parent_event_id=envelope.cause, content_hash=hashlib.sha256(envelope.body).hexdigest(),
    )  # fmt: skip


def read(envelope: Envelope) -> RouterEvent:
    """*envelope* as it comes from the log."""
    return told(catalog.decode(envelope.name, envelope.body), envelope)


# Where an event may not be seen, and where it was given, travels at the end of its id: the only part of an envelope
# that whoever publishes may choose, and that every process sees.
_MARKS = {EventSource.DATA_BUS: "d", EventSource.STAGE_BUS: "s", EventSource.CROSS_PROCESS: "c"}
_GIVEN, _HIDDEN = "--o", "--x"
_END = re.compile(rf"(?:{_GIVEN}([dsc]))?(?:{_HIDDEN}([ds]+))?$")


def marked(id: str, origin: EventSource, hidden: frozenset[EventSource]) -> str:
    """*id* with a mark of where it was given and one of the views that must not show it."""
    given = f"{_GIVEN}{_MARKS[origin]}" if origin in _MARKS else ""
    away = "".join(_MARKS[view] for view in _MARKS if view in hidden)
    return f"{id}{given}{_HIDDEN + away if away else ''}"


def origin_marked(envelope: Envelope) -> EventSource | None:
    """Which view an event was given to, if its id says so."""
    mark = _marks(envelope)[0]
    return next((view for view, letter in _MARKS.items() if letter == mark), None)


def is_hidden(envelope: Envelope, view: EventSource) -> bool:
    """Whether *view* must not show the event."""
    return view in _MARKS and _MARKS[view] in _marks(envelope)[1]


def _marks(envelope: Envelope) -> tuple[str, str]:
    found = _END.search(envelope.id) if "--" in envelope.id else None
    return (found[1] or "", found[2] or "") if found is not None else ("", "")
