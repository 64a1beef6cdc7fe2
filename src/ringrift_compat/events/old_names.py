"""Old names: what the documents and the earlier system call events, and what each one is here.

Every name is *true* (one of our events means the same), *not yet* there, or *retired*.  A name is published and
subscribed through the same row.  A subscription to ``TRAINING_STARTED`` gets every ``work.started`` that has the row's
fixed fields.  A payload that has every field of the event becomes that event; one that has less becomes
``custom.published``, because the missing fields must not be invented; so does everything under a name that is not true.
Either way ``canonical(name) in names_of(event)`` says whether a subscription to *name* gets the event.
"""

from collections.abc import Collection, Iterator, Mapping
from enum import Enum
from typing import Any

import msgspec

from ringrift.bus.filters import EventFilter
from ringrift.events import custom
from ringrift.events.base import Envelope, Event
from ringrift.events.catalog import EVENTS, EVIDENCE, check_scalars
from ringrift.kernel.errors import InvalidPayload, UnknownName
from ringrift.kernel.ids import check_name
from ringrift_compat.events import edge
from ringrift_compat.events.not_yet import not_yet
from ringrift_compat.events.old_rows import TABLE, WORDS, Row
from ringrift_compat.events.retired import retired

# One idea with three endings in the documents, and sometimes with two of them for one event.
_ENDINGS = ("_COMPLETE", "_COMPLETION")
_END = "_COMPLETED"


def _key(name: str) -> str:
    """The key that all spellings of *name* share."""
    upper = name.upper().replace(".", "_")
    ending = next((ending for ending in _ENDINGS if upper.endswith(ending)), None)
    return upper.removesuffix(ending) + _END if ending else upper


def _entries() -> Iterator[tuple[str, str, Row]]:
    """Every word, the old name it stands for, and the row."""
    for row, groups in TABLE:
        for group in groups:
            yield from _spelled(group, row)
    for group, brings in not_yet().items():
        yield from _spelled(group, Row(not_yet=brings))
    for name, reason in retired().items():
        yield name, name, Row(retired=reason)


def _spelled(group: str, row: Row) -> Iterator[tuple[str, str, Row]]:
    first, *others = group.split("=")
    return ((word, first, row) for word in (first, *others))


_ROWS: dict[str, tuple[str, Row]] = {_key(word): (name, row) for word, name, row in _entries()}
_OWN: dict[str, Row] = {event.name(): Row(event=event) for event in EVENTS}
_BY_KEY = _ROWS | {_key(own): (_key(own), row) for own, row in _OWN.items() if _key(own) not in _ROWS}


def _rows_of(event: type[Event]) -> tuple[tuple[str, Row], ...]:
    """The names of *event*; those with most conditions first: TRAINING_STARTED says more than WORK_STARTED."""
    rows = {name: row for name, row in _BY_KEY.values() if event in row.events}
    return tuple(sorted(rows.items(), key=lambda item: -_weight(item[1], event)))


def _weight(row: Row, event: type[Event]) -> int:
    """How much a row says about *event*: an event that is only one of several of its row says least."""
    return -1 if row.also else len(row.fixed) + (row.check is not None)


_ROWS_OF = {event: _rows_of(event) for event in EVENTS}


def names() -> Mapping[str, Row]:
    """Every old name, in its one spelling, with its row, in the order of the table."""
    return dict(_ROWS.values())


def words() -> tuple[str, ...]:
    """Every word for an old name that the table has, the one that counts before its others."""
    return tuple(word for word, _, _ in _entries())


def resolve(name: str) -> Row | None:
    """The row of *name*, in any spelling and case, ours or old; None if it is unknown."""
    return _OWN.get(name) or _BY_KEY.get(_key(name), (name, None))[1]


def canonical(name: object) -> str:
    """The one spelling of *name*, text or a member of an enumeration; one that is unknown, in upper case."""
    text = name.name if isinstance(name, Enum) else str(name)
    return _BY_KEY.get(_key(text), (text.upper(),))[0]


def _matches(row: Row, event: Event) -> bool:
    """Whether *event* is what *row* stands for."""
    if type(event) is not row.event:
        return type(event) in row.also
    fixed = all(_is_one_of(getattr(event, name), allowed) for name, allowed in row.fixed.items())
    return fixed and (row.check is None or row.check(event))


def _is_one_of(value: object, allowed: object) -> bool:
    return value in allowed if isinstance(allowed, tuple) else value == allowed


def names_of(event: Event) -> tuple[str, ...]:
    """Every name that *event* has, the closest one first.  A custom event has the name that it was published under."""
    custom_names = (canonical(event.event),) if isinstance(event, custom.Published) else ()
    rows = (name for name, row in _ROWS_OF.get(type(event), ()) if _matches(row, event))
    return tuple(dict.fromkeys((*custom_names, *rows)))


def make_event(name: str, plain: Mapping[str, Any], *, strict: bool = False, evidence: bool = True) -> Event:
    """The event that *plain*, a payload as JSON has it, is under *name*: ours if it has every field, else a custom one.

    Without *evidence* an event that the loop would act on is a custom one, too.  Raises InvalidId, and with *strict*
    UnknownName for a name that is unknown.
    """
    check_name("event", name)
    row = resolve(name)
    if row is None and strict:
        raise UnknownName("event", name, _OWN)
    typed = None if row is None or (row.event in EVIDENCE and not evidence) else _typed(row, plain)
    return custom.Published(event=canonical(name), payload=dict(plain)) if typed is None else typed


def to_plain(payload: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of *payload* as JSON has it.  Raises InputError for what JSON cannot carry."""
    try:
        plain = msgspec.to_builtins(dict(payload), str_keys=True)
        raw = msgspec.json.encode(plain)
    except (TypeError, ValueError, RecursionError) as bad:
        raise InvalidPayload("$", f"is not JSON: {bad}") from bad
    edge.check(raw)
    # Encoding has turned NaN into null, so the values themselves are checked too.
    check_scalars(plain)
    assert isinstance(plain, dict)
    return plain


def _typed(row: Row, plain: Mapping[str, Any]) -> Event | None:
    """The event of *row* with the fields that *plain* has for it; None if it does not hold enough."""
    if row.event is None or (row.event is custom.Published and row.fixed):
        return None
    values = {ours: _value(ours, row, plain) for ours in row.event.__struct_fields__}
    fields = {ours: value for ours, value in values.items() if value is not None}
    try:
        event = msgspec.convert(fields | _fixed(row, fields), row.event, strict=True)
    except msgspec.ValidationError:
        return None
    return event if _matches(row, event) else None


def _fixed(row: Row, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that follow from the name; one that may have several values keeps its own if it is one of them."""
    fixed = dict(row.fixed)
    for name, allowed in fixed.items():
        if isinstance(allowed, tuple):
            fixed[name] = fields[name] if fields.get(name) in allowed else allowed[0]
    return fixed


def _value(ours: str, row: Row, plain: Mapping[str, Any]) -> Any:
    """The value of *plain* for the field *ours*, under that name or another one; None if there is none."""
    words = (ours, *(theirs for theirs, field in row.same.items() if field == ours), *WORDS.get(ours, ()))
    return next((plain[word] for word in words if plain.get(word) is not None), None)


def make_filter(names: str | Collection[str] | None) -> EventFilter:
    """The filter for these names in any spelling, ours or old; None selects every event.  Raises InvalidId.

    A name also selects what was published under it with too little in it to become an event of ours.
    """
    if names is None:
        return EventFilter()
    checked = [check_name("event", name) for name in ([names] if isinstance(names, str) else names)]
    rows = [row for name in checked if (row := resolve(name)) is not None]
    custom_names = frozenset(map(canonical, checked))
    own = {event.name() for row in rows for event in row.events}
    every_custom = custom.Published.name() in own

    def check(event: Event, _: Envelope) -> bool:
        custom_match = isinstance(event, custom.Published) and event.event in custom_names
        return custom_match or any(_matches(row, event) for row in rows)

    named = frozenset() if every_custom else custom_names
    return EventFilter(names=frozenset(own | {custom.Published.name()}), check=check, custom_names=named)
