"""The catalog: every event class, and the conversion between an event and its bytes."""

import importlib
import pkgutil
import re
from collections.abc import Iterator

import msgspec

from ringrift import events
from ringrift.events import edge
from ringrift.events.base import Event, Unknown
from ringrift.kernel.errors import InvalidPayload, TooLarge

_WITHOUT_EVENTS = ("base", "catalog", "edge", "schema")


def _collect() -> Iterator[type[Event]]:
    """Every event class declared in a module of this package, by module and in the order of declaration."""
    for module in pkgutil.iter_modules(events.__path__):
        if module.name not in _WITHOUT_EVENTS:
            name = f"{events.__name__}.{module.name}"
            for value in vars(importlib.import_module(name)).values():
                if isinstance(value, type) and issubclass(value, Event) and value.__module__ == name:
                    yield value


EVENTS = tuple(_collect())
FOR_PEOPLE = frozenset(event for event in EVENTS if event.FOR_PEOPLE)
EVIDENCE = frozenset(event for event in EVENTS if event.EVIDENCE)
MEMORY_NAMES = frozenset(event.name() for event in EVENTS if event.SCOPE == "memory")

BY_NAME = {event.name(): event for event in EVENTS}
_DECODERS = {name: msgspec.json.Decoder(event) for name, event in BY_NAME.items()}
_ENCODER = msgspec.json.Encoder()
# Anchored where a number can begin: blob ids are full of digits, and every publish passes here.
_MANY_DIGITS = re.compile(rb"[:,\[]-?\d{19}")


def encode(event: Event) -> bytes:
    """Encode *event*.  Raises TooLarge, or InvalidPayload for what JSON cannot carry: NaN, lone surrogates."""
    try:
        body = _ENCODER.encode(event)
    except UnicodeEncodeError as bad:
        raise InvalidPayload("$", "has a lone surrogate") from bad
    # msgspec writes NaN as null, and integers beyond 64 bits as they are: the only signs, rare enough to look closer.
    if b"null" in body or _MANY_DIGITS.search(body):
        edge.check_scalars(msgspec.to_builtins(event))
    if len(body) > edge.SIZE_MAX:
        raise TooLarge(len(body), edge.SIZE_MAX)
    # msgspec does not check a struct on creation: an event that no reader can decode must not get into the log.
    decode(event.name(), body)
    return body


def decode(name: str, body: bytes) -> Event | Unknown:
    """Decode the event *name*; Unknown if this version has no such event.  Raises InvalidPayload."""
    decoder = _DECODERS.get(name)
    if decoder is None:
        return Unknown(wire_name=name, raw=body)
    try:
        return decoder.decode(body)
    except UnicodeDecodeError as bad:
        raise InvalidPayload("$", "is not UTF-8") from bad
    except msgspec.DecodeError as bad:
        reason, _, path = str(bad).partition(" - at `")
        raise InvalidPayload(path.rstrip("`") or "$", reason) from bad
