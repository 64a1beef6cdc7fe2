"""The catalog: every event class, and the conversion between an event and its bytes."""

import importlib
import math
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from ringrift import events
from ringrift.events.base import Event, Unknown
from ringrift.kernel.errors import InvalidPayload, TooLarge

SIZE_MAX = 64 * 1024  #: Bytes of an event.
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
_SURROGATE = re.compile("[\ud800-\udfff]")
_WITHOUT_EVENTS = ("base", "catalog", "schema")


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
        check_scalars(msgspec.to_builtins(event))
    if len(body) > SIZE_MAX:
        raise TooLarge(len(body), SIZE_MAX)
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


def check_scalars(value: Any, path: str = "$") -> None:
    """Raise InvalidPayload for a float, integer or text anywhere inside *value* that JSON or a reader cannot carry."""
    match value:
        case str() if _SURROGATE.search(value):
            raise InvalidPayload(path, "has a lone surrogate")
        case float() if not math.isfinite(value):
            raise InvalidPayload(path, f"{value} is not a finite number")
        case int() if not _INT_MIN <= value <= _INT_MAX:
            raise InvalidPayload(path, "does not fit 64 bits")
        case dict():
            for key, item in value.items():
                check_scalars(key, path)
                check_scalars(item, f"{path}.{key}")
        case list() | tuple():
            for index, item in enumerate(value):
                check_scalars(item, f"{path}[{index}]")
