"""The catalog: every event class, and the conversion between an event and its bytes.

Other packages declare events in a module of their own, named by an entry point of the group ``ringrift.events``.  They
are loaded when a name or a class is met that is not ours; a module that cannot be used is left out, with its reason.
"""

import importlib
import math
import pkgutil
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

import msgspec

from ringrift import events
from ringrift.events.base import Event, Unknown
from ringrift.kernel.errors import InputError, InvalidPayload, TooLarge, printable
from ringrift.kernel.foreign import attempt_sync
from ringrift.kernel.ids import check_name

SIZE_MAX = 64 * 1024  #: Bytes of an event.
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
_SURROGATE = re.compile("[\ud800-\udfff]")
_WITHOUT_EVENTS = ("base", "catalog", "schema")
_GROUP = "ringrift.events"
_REASON_CHARACTERS_MAX = 300


def _collect() -> Iterator[type[Event]]:
    """Every event class declared in a module of this package, by module and in the order of declaration."""
    for module in pkgutil.iter_modules(events.__path__):
        if module.name not in _WITHOUT_EVENTS:
            yield from _declared_in(importlib.import_module(f"{events.__name__}.{module.name}"))


def _declared_in(module: ModuleType) -> Iterator[type[Event]]:
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Event) and value.__module__ == module.__name__:
            yield value


EVENTS = tuple(_collect())
FOR_PEOPLE = frozenset(event for event in EVENTS if event.FOR_PEOPLE)
EVIDENCE = frozenset(event for event in EVENTS if event.EVIDENCE)
MEMORY_NAMES = {event.name() for event in EVENTS if event.SCOPE == "memory"}

BY_NAME = {event.name(): event for event in EVENTS}
_DECODERS = {name: msgspec.json.Decoder(event) for name, event in BY_NAME.items()}
_ENCODER = msgspec.json.Encoder()
# Anchored where a number can begin: blob ids are full of digits, and every publish passes here.
_MANY_DIGITS = re.compile(rb"[:,\[]-?\d{19}")


def encode(event: Event) -> bytes:
    """Encode *event*.  Raises TooLarge, or InvalidPayload for what JSON cannot carry: NaN, lone surrogates.

    Raises InputError for an event that is not in the catalog: no reader could decode it.
    """
    require_listed(type(event))
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
    if name not in _DECODERS:
        load_installed()
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


def has(name: str) -> bool:
    """Whether the catalog has an event of this name."""
    if name not in BY_NAME:
        load_installed()
    return name in BY_NAME


def all_events() -> tuple[type[Event], ...]:
    """Every event class: ours, and those of other packages."""
    load_installed()
    return tuple(BY_NAME.values())


def require_listed(event: type[Event]) -> None:
    """Raise InputError unless *event* is the class that the catalog has under its name."""
    tag = event.__struct_config__.tag
    if BY_NAME.get(str(tag)) is not event and event not in all_events():
        remedy = f"declare its module under the entry point group {_GROUP}, or publish a custom.Published"
        raise InputError(f"event {event.__qualname__} ({tag}) is not in the catalog: {remedy}")


@cache
def load_installed() -> dict[str, str]:
    """Add the events of other packages to the catalog, once; entry point → why its module is left out."""
    classes, broken = find_installed(entry_points(group=_GROUP))
    for event in classes:
        BY_NAME[event.name()], _DECODERS[event.name()] = event, msgspec.json.Decoder(event)
        MEMORY_NAMES.update([event.name()] if event.SCOPE == "memory" else [])
    return broken


def find_installed(entries: Iterable[EntryPoint]) -> tuple[list[type[Event]], dict[str, str]]:
    """The event classes of *entries*, and why some of these are left out.

    A name that two packages declare is refused to both, and one of ours to the other: neither could tell whose an event
    in the log is.
    """
    declared, broken = dict[str, list[type[Event]]](), dict[str, str]()
    for entry in entries:
        label = f"{entry.name} ({entry.value})"
        classes, error = attempt_sync(_load, entry)
        declared[label] = classes or []
        if error is not None:
            broken[label] = printable(f"{type(error).__name__}: {error}", _REASON_CHARACTERS_MAX)
    counts = Counter(event.name() for classes in declared.values() for event in classes)
    counts.update(event.name() for event in EVENTS)
    for label, classes in list(declared.items()):
        if doubled := [event.name() for event in classes if counts[event.name()] > 1]:
            broken[label] = f"another package declares {', '.join(doubled)} too: rename it in one of them"
            del declared[label]
    return [event for classes in declared.values() for event in classes], broken


def _load(entry: EntryPoint) -> list[type[Event]]:
    module = entry.load()
    if not isinstance(module, ModuleType):
        raise InputError(f"{entry.value} must be a module that declares events")
    classes = [event for event in _declared_in(module) if event.__struct_config__.tag is not None]
    for event in classes:
        check_name("event", event.name())
        msgspec.json.Decoder(event)
    return classes


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
