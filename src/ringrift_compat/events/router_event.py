"""RouterEvent: an event with the documented fields, made from an envelope of ours.

What the documented views need beside the event itself is in the labels of its envelope: the view that it was given to,
the views that must not show it, and which program published it under an id of the user's choice.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from ringrift.events import catalog, custom, model
from ringrift.events.base import Envelope, Event, Unknown
from ringrift_compat.embedded_node import HOST, EmbeddedNode
from ringrift_compat.events import old_names
from ringrift_compat.events.old_rows import WORDS

_TAG = "type"
"""Where the bytes of an event of ours have its name."""
_MAKER = slice(10, 18)
"""The part of an id that all ids of one process have in common, and no others."""


class EventSource(StrEnum):
    """Which of the documented views an event was given to; *router*: none of them, in this program."""

    DATA_BUS = "data_bus"
    STAGE_BUS = "stage_bus"
    CROSS_PROCESS = "cross_process"
    ROUTER = "router"


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


class Origins:
    """Tells the events of this program, since its node was opened, from those of other processes."""

    def __init__(self, node: EmbeddedNode) -> None:
        self._node = node
        self.maker = node.ids.next()[_MAKER]
        self._host: Any = None
        self._makers = {self.maker}

    def origin_of(self, envelope: Envelope) -> EventSource:
        """The view that an event was given to, anywhere; else *router* for ours and *cross_process* for others."""
        labels = _read_labels(envelope)
        if "view" in labels:
            return EventSource(labels["view"])
        host = self._node.extensions.get(HOST)
        if host is not None and host is not self._host:
            self._host = host
            self._makers.add(host[0].ids.next()[_MAKER])
        is_own = labels.get("by", envelope.id[_MAKER]) in self._makers
        return EventSource.ROUTER if is_own else EventSource.CROSS_PROCESS

    def router_event(self, event: Event | Unknown, envelope: Envelope, name: str | None = None) -> RouterEvent:
        """The event in the documented shape, under *name* if that is one of its names, else under the closest one."""
        if isinstance(event, Unknown):
            name, payload = old_names.canonical(event.wire_name), {}
        else:
            names = old_names.names_of(event)
            if name not in names:
                name = names[0] if names else old_names.canonical(envelope.name)
            payload = payload_of(event, envelope.body, name)
        return RouterEvent(
            name, payload, envelope.time, envelope.source, self.origin_of(envelope), envelope.id, envelope.trace,
            envelope.correlation, envelope.cause, hashlib.sha256(envelope.body).hexdigest(),
        )  # fmt: skip

    def read(self, envelope: Envelope) -> RouterEvent:
        """The event of an envelope from the log."""
        return self.router_event(catalog.decode(envelope.name, envelope.body), envelope)


def _read_labels(envelope: Envelope) -> Mapping[str, str]:
    """The labels of *envelope* by name."""
    return dict(part.split("=", 1) for part in envelope.labels.split(";") if "=" in part)


def is_hidden(envelope: Envelope, view: EventSource) -> bool:
    """Whether *view* must not show the event."""
    return view.value in _read_labels(envelope).get("hide", "").split(",")


def payload_of(event: Event, body: bytes, name: str = "") -> dict[str, Any]:
    """The payload of *event* for documented subscribers: the published fields, and ours under the documented words too.

    Some words belong to its old *name* only.
    """
    if isinstance(event, custom.Published):
        return dict(event.payload)
    ours: dict[str, Any] = msgspec.to_builtins(event)
    # Fields that ours does not have are in the bytes, which are stored as they came; what skips the log has none.
    published: dict[str, Any] = msgspec.json.decode(body) if body else {}
    theirs: dict[str, Any] = {}
    for field_name, value in ours.items():
        theirs |= {word: value for word in WORDS.get(field_name, ())}
    row = old_names.resolve(name) if name else None
    if row is not None:
        theirs |= {word: ours[field_name] for word, field_name in row.same.items() if field_name in ours}
    if isinstance(event, model.Promoted):
        theirs["model_path"] = f"models/canonical_{event.variant}.pth"  # the link, below the home; it moves next
    return {key: value for key, value in (theirs | ours | published).items() if key != _TAG}
