"""The catalog: every event there is, and the way between an event and its bytes."""

import re

import msgspec

from ringrift.events import (
    alert,
    cluster,
    custom,
    daemon,
    data,
    edge,
    evaluation,
    health,
    letter,
    model,
    node,
    pipeline,
    reader,
    selfplay,
    training,
    work,
)
from ringrift.events.base import Event, Unknown
from ringrift.kernel.errors import InvalidPayload, TooLarge
from ringrift.kernel.ids import check_name

EVENTS: tuple[type[Event], ...] = (
    pipeline.Opened,
    pipeline.Moved,
    pipeline.Requested,
    pipeline.Overdue,
    selfplay.BatchFinished,
    data.Synced,
    data.Lost,
    data.Corrupted,
    data.Exported,
    training.Finished,
    evaluation.BlocksPlayed,
    evaluation.Tried,
    evaluation.Finished,
    evaluation.Reviewed,
    evaluation.Rated,
    evaluation.VelocityChanged,
    evaluation.Plateaued,
    model.Verified,
    model.Imported,
    model.Promoted,
    model.Rejected,
    model.RolledBack,
    model.Distributed,
    work.Enqueued,
    work.Started,
    work.Progressed,
    work.Finished,
    work.Failed,
    work.Buried,
    work.Rescued,
    work.PressureChanged,
    node.Joined,
    node.Left,
    node.Lost,
    node.Recovered,
    node.CanaryPlayed,
    node.Quarantined,
    node.Released,
    cluster.RoleTaken,
    daemon.Started,
    daemon.Stopped,
    daemon.Failed,
    daemon.Cleared,
    daemon.Ordered,
    daemon.Obeyed,
    health.Changed,
    letter.Changed,
    reader.Lapsed,
    reader.Forgotten,
    alert.Raised,
    alert.Cleared,
    custom.Said,
)

# Said for people: shown by `ringrift status`, `ringrift events` and the live view of `ringrift run`; no part of ours
# reacts to them.
FOR_PEOPLE: frozenset[type[Event]] = frozenset({
    cluster.RoleTaken, custom.Said, daemon.Obeyed, evaluation.Tried, evaluation.VelocityChanged, model.Imported,
    model.Rejected, work.Enqueued, work.Rescued,
})  # fmt: skip

# What the loop acts on or what decisions rest on.  It counts only from work under a lease and from the loop itself:
# whoever says it from outside, by name, is heard by those who listen to that name and moves nothing.
EVIDENCE: frozenset[type[Event]] = frozenset({
    selfplay.BatchFinished, data.Synced, data.Lost, data.Exported, training.Finished, evaluation.BlocksPlayed,
    evaluation.Finished, evaluation.Reviewed, evaluation.Rated, model.Verified, model.Imported, model.Promoted,
    model.Rejected, model.RolledBack, model.Distributed, work.Buried,
    work.PressureChanged, pipeline.Moved, node.CanaryPlayed, node.Quarantined, node.Released,
})  # fmt: skip

_BY_NAME = {event.name(): event for event in EVENTS}
_DECODERS = {name: msgspec.json.Decoder(event) for name, event in _BY_NAME.items()}
_ENCODER = msgspec.json.Encoder()
# Anchored where a number can begin: blob ids are full of digits, and every publish passes here.
_MANY_DIGITS = re.compile(rb"[:,\[]-?\d{19}")


def names() -> tuple[str, ...]:
    """Every name in the catalog."""
    return tuple(_BY_NAME)


def encode(event: Event) -> bytes:
    """The bytes of *event*.  Raises TooLarge, or InvalidPayload for what JSON cannot carry: NaN, lone surrogates."""
    try:
        body = _ENCODER.encode(event)
    except UnicodeEncodeError as bad:
        raise InvalidPayload("$", "has a lone surrogate") from bad
    # msgspec writes NaN as null, and integers beyond 64 bits as they are: the only signs, rare enough to look closer.
    if b"null" in body or _MANY_DIGITS.search(body):
        edge.check_scalars(msgspec.to_builtins(event))
    if len(body) > edge.SIZE_MAX:
        raise TooLarge(len(body), edge.SIZE_MAX)
    # msgspec does not check a struct when it is made: what no reader could decode must not get into the log.
    decode(event.name(), body)
    return body


def decode(name: str, body: bytes) -> Event | Unknown:
    """The event that *body* is under *name*; Unknown if this version has no such event.  Raises InvalidPayload."""
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


def admit(name: str, raw: bytes) -> Event | Unknown:
    """The event that bytes from outside are.  Raises an InputError and changes nothing if they are not one."""
    check_name("event", name)
    edge.check(raw)
    return decode(name, raw)
