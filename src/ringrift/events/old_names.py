"""Old names: what the documents and the earlier system call events, and what each one is here.

A name is heard and said through the same row.  Heard: a listener to ``TRAINING_STARTED`` is told of every
``work.started`` that has the row's fixed fields.  Said: a payload that holds everything the event needs becomes that
event; one that holds less is kept as ``custom.said``, for what it does not tell us we must not invent.  Either way
``canonical(name) in spoken(event)`` says whether a listener to *name* is meant.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ringrift.events import custom, edge
from ringrift.events.base import Event
from ringrift.events.catalog import EVENTS, EVIDENCE
from ringrift.events.old_rows import TABLE, WORDS, Row
from ringrift.events.retired import retired
from ringrift.kernel.errors import InvalidPayload, UnknownName
from ringrift.kernel.ids import check_name

__all__ = ["Row", "canonical", "convert", "matches", "names", "resolve", "spoken", "words"]

# One idea with three endings in the documents, and sometimes with two of them for one event.
_ENDINGS = ("_COMPLETE", "_COMPLETION")
_END = "_COMPLETED"


def _key(name: str) -> str:
    """What all spellings of *name* have in common."""
    upper = name.upper().replace(".", "_")
    ending = next((ending for ending in _ENDINGS if upper.endswith(ending)), None)
    return upper.removesuffix(ending) + _END if ending else upper


def _entries() -> Iterator[tuple[str, str, Row]]:
    """Every word, the old name it stands for, and the row."""
    for row, groups in TABLE:
        for group in groups:
            first, *others = group.split("=")
            yield from ((word, first, row) for word in (first, *others))
    for name, reason in retired().items():
        yield name, name, Row(event=None, retired=reason)


_ROWS: dict[str, tuple[str, Row]] = {_key(word): (name, row) for word, name, row in _entries()}
_OWN: dict[str, Row] = {event.name(): Row(event=event) for event in EVENTS}
_FOUND = _ROWS | {_key(own): (_key(own), row) for own, row in _OWN.items() if _key(own) not in _ROWS}


def _spoken(event: type[Event]) -> tuple[tuple[str, Row], ...]:
    """The names of *event*; those with most fields fixed first: TRAINING_STARTED says more than WORK_STARTED."""
    found = {name: row for name, row in _FOUND.values() if row.event is event}
    return tuple(sorted(found.items(), key=lambda item: -len(item[1].fixed)))


_SPOKEN = {event: _spoken(event) for event in EVENTS}


def names() -> Mapping[str, Row]:
    """Every old name, in its one spelling, with its row, in the order of the table."""
    return dict(_ROWS.values())


def words() -> tuple[str, ...]:
    """Every word for an old name that the table has, the one that counts before its others."""
    return tuple(word for word, _, _ in _entries())


def resolve(name: str) -> Row | None:
    """What *name* is, in any spelling and case, ours or old; None if nobody ever called anything so."""
    return _OWN.get(name) or _FOUND.get(_key(name), (name, None))[1]


def canonical(name: str) -> str:
    """The one spelling of *name*; one that is unknown stays as it is, in upper case."""
    return _FOUND.get(_key(name), (name.upper(),))[0]


def matches(row: Row, event: Event) -> bool:
    """Whether *event* is what *row* stands for."""
    return type(event) is row.event and all(getattr(event, field) == value for field, value in row.fixed.items())


def spoken(event: Event) -> tuple[str, ...]:
    """Every name that *event* answers to, the closest one first.  What somebody said answers to what it was called."""
    said = (canonical(event.event),) if isinstance(event, custom.Said) else ()
    known = (name for name, row in _SPOKEN.get(type(event), ()) if matches(row, event))
    return tuple(dict.fromkeys((*said, *known)))


def convert(name: str, payload: Mapping[str, Any], *, strict: bool = False, evidence: bool = True) -> Event:
    """The event that *payload* under *name* is: one of ours if it holds everything ours needs, else what was said.

    Without *evidence* what the loop would act on is only what was said, too.  Raises InvalidId or another InputError
    for what cannot be published, and with *strict* UnknownName for a name that nobody ever used.
    """
    check_name("event", name)
    plain = _plain(payload)
    row = resolve(name)
    if row is None and strict:
        raise UnknownName("event", name, _OWN)
    typed = None if row is None or (row.event in EVIDENCE and not evidence) else _typed(row, plain)
    return custom.Said(event=canonical(name), payload=plain) if typed is None else typed


def _plain(payload: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of *payload* as JSON has it.  Raises InputError for what JSON cannot carry."""
    try:
        plain = msgspec.to_builtins(dict(payload), str_keys=True)
        raw = msgspec.json.encode(plain)
    except (TypeError, ValueError, RecursionError) as bad:
        raise InvalidPayload("$", f"is not JSON: {bad}") from bad
    edge.check(raw)
    # Encoding has turned NaN into null, so the values themselves are looked at too.
    edge.check_scalars(plain)
    assert isinstance(plain, dict)
    return plain


def _typed(row: Row, plain: Mapping[str, Any]) -> Event | None:
    """The event of *row* with the fields that *plain* has for it; None if it does not hold enough."""
    if row.event is None or (row.event is custom.Said and row.fixed):
        return None
    found = {ours: _value(ours, row, plain) for ours in row.event.__struct_fields__}
    told = {ours: value for ours, value in found.items() if value is not None}
    try:
        return msgspec.convert(told | dict(row.fixed), row.event, strict=True)
    except msgspec.ValidationError:
        return None


def _value(ours: str, row: Row, plain: Mapping[str, Any]) -> Any:
    """What *plain* says for the field *ours*, under that name or another one; None if nothing."""
    words = (ours, *(theirs for theirs, meant in row.same.items() if meant == ours), *WORDS.get(ours, ()))
    return next((plain[word] for word in words if plain.get(word) is not None), None)
