"""Show the log: the newest events, one event, its trace; deliver events again; print schemas."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from ringrift.bus import dead_letters
from ringrift.cli.command import Command, Context, Output, Parser, by_verb
from ringrift.cli.formats import parse_duration, short, timestamp
from ringrift.events import catalog
from ringrift.events.base import Envelope
from ringrift.kernel.errors import InputError, SettingsError, UnknownName, printable, require_name
from ringrift.store.follow import follow
from ringrift.store.ports import Store

_BODY_CHARACTERS_MAX = 160
_TRACE_EVENTS_MAX = 10_000
_BLOB = re.compile(r"\b[0-9a-f]{64}\b")
_JOB, _JOB_LETTERS = re.compile(r"\b[0-9A-HJKMNP-TV-Z]{24,26}\b"), 8  # their beginning is a time, alike in all
_TRACE_CHARACTERS_MAX = 100
_INDENTED_MAX = 20  # levels that are indented: a trace that goes round the loop for days would leave the screen
_NESTED_MAX = 100  # levels for programs, whose parsers have limits too: deeper events lie beside their ancestor's


def _arguments(parser: Parser) -> None:
    verbs = "tail: newest events; show: one event; trace: its causal tree; replay: print or deliver again; schema"
    choices = ("tail", "show", "trace", "replay", "schema")
    parser.add_argument("verb", nargs="?", default="tail", choices=choices, help=f"{verbs} (default: tail)")
    parser.add_argument("id", nargs="?", help="show: id of an event; trace: id of an event or a trace")
    parser.add_argument("--count", "-n", type=int, default=20, metavar="N", help="tail: number of events (default 20)")
    parser.add_argument("--names", metavar="A,B", help="only these events, e.g. model.promoted,training.finished")
    parser.add_argument("--follow", "-f", action="store_true", help="tail: go on with new events, until Ctrl-C")
    parser.add_argument("--after", type=int, metavar="POSITION", help="replay: events after this position")
    parser.add_argument("--since", metavar="MOMENT", help="replay: from then on: 90m, 2h, 7d or 2026-01-31T12:00")
    parser.add_argument("--reader", metavar="NAME", help="replay: deliver to this reader again (default: print)")
    parser.add_argument("--dry-run", action="store_true", help="replay: only count the events")
    parser.add_argument("--asyncapi", action="store_true", help="schema: as an AsyncAPI document")


def envelope_tree(envelope: Envelope) -> dict[str, Any]:
    """The envelope for programs, with its body decoded."""
    return msgspec.structs.asdict(envelope) | {"body": json.loads(envelope.body)}


def _fields(envelope: Envelope) -> str:
    """The fields of an event with ids shortened: of blobs to their beginning, of jobs to their end."""
    fields = json.loads(envelope.body).items()
    text = ", ".join(f"{key}={value}" for key, value in fields if key != "type")
    return _JOB.sub(lambda match: f"…{match[0][-_JOB_LETTERS:]}", _BLOB.sub(lambda match: short(match[0]), text))


def _print(context: Context, envelope: Envelope) -> None:
    text = printable(_fields(envelope), _BODY_CHARACTERS_MAX)
    start = f"{envelope.position:>8}  {timestamp(envelope.time)}  {envelope.node:<12}  {envelope.name:<26}"
    context.print(envelope_tree(envelope), f"{start}  {text}")


def _names(context: Context) -> list[str]:
    """The events that ``--names`` lists.  Raises UnknownName."""
    text = context.options.names
    names = [name.strip() for name in text.split(",")] if text else []
    for name in names:
        require_name("event", name, [event.name() for event in catalog.all_events()])
    return names


def parse_moment(text: str, now: float) -> float:
    """``90m`` as 90 minutes before *now*, or a date and time.  Raises InputError."""
    seconds = parse_duration(text)
    try:
        return datetime.fromisoformat(text).timestamp() if seconds is None else now - seconds
    except ValueError as error:
        raise InputError(f"not a time: {text!r:.40}; write 90m, 2h, 7d or 2026-01-31T12:00") from error


async def _tail(context: Context) -> None:
    """Print the newest events, and with --follow new ones until interrupted."""
    store, names, position = context.store, _names(context), context.store.position
    async with store.read() as view:
        newest = await view.last(None, context.options.count, names)
    for envelope in newest:
        _print(context, envelope)
        position = max(position, envelope.position)
    if context.options.follow:
        async for envelope in follow(store, position, names=names):
            _print(context, envelope)


async def _replay(context: Context) -> Output:
    """Print events again, or deliver them to a reader again.  Raises InputError, UnknownName."""
    options, store, now = context.options, context.store, context.clock.now()
    start = options.after or 0
    if options.since and options.after is None:
        async with store.read() as view:
            start = await view.position_before(parse_moment(options.since, now))
    positions = []
    async for envelope in follow(store, start, names=_names(context), until=store.position):
        positions.append(envelope.position)
        if options.reader is None and not options.dry_run:
            _print(context, envelope)
    count = len(positions)
    if options.dry_run or options.reader is None:
        return Output(value={"events": count}, text=f"{count} events")
    again = await dead_letters.replay(store, options.reader, positions, now)
    rest = "" if again == count else "; it has not read the others yet"
    text = f"reader {options.reader} gets {again} of {count} events again{rest}"
    return Output(value={"reader": options.reader, "events": count, "again": again}, text=text)


async def _show(context: Context) -> Output:
    async with context.store.read() as view:
        envelopes = await view.events_by_id([context.options.id or ""])
    if not envelopes:
        raise UnknownName("event id", context.options.id or "")
    tree = envelope_tree(envelopes[0])
    return Output(value=tree, text=json.dumps(tree, indent=2))


# -- trace: every event that came of one cause, as a tree --------------------------------------------------------------


@dataclass(frozen=True)
class _Trace:
    """The events of one trace in the order of the tree, each with its level."""

    trace: str
    event: str  # the id of the event that was looked up; "" if it was the trace
    steps: tuple[tuple[int, Envelope], ...]
    cut: bool = False  # whether there are more events


async def _find_trace(store: Store, id: str, limit: int = _TRACE_EVENTS_MAX) -> _Trace:
    """The trace of the event *id*, or the trace *id*.  Raises UnknownName if it is neither."""
    async with store.read() as view:
        events = await view.events_by_id([id])
        trace = events[0].trace if events else id
        envelopes = await view.events_of_trace(trace, limit + 1) if trace else events
    if not envelopes:
        raise UnknownName("event or trace", id)
    return _Trace(trace, id if events else "", tuple(_in_tree_order(envelopes[:limit])), len(envelopes) > limit)


def _in_tree_order(events: Sequence[Envelope]) -> Iterator[tuple[int, Envelope]]:
    """*events*, each behind the one that caused it and one level deeper; siblings by position."""
    ids = {event.id for event in events}
    children: dict[str, list[Envelope]] = {}
    for event in events:
        children.setdefault(event.cause if event.cause in ids else "", []).append(event)
    stack = [(0, event) for event in reversed(children.get("", []))]
    while stack:
        level, event = stack.pop()
        yield level, event
        stack += [(level + 1, child) for child in reversed(children.get(event.id, []))]


def _trace_text(trace: _Trace) -> str:
    """One line for each event: position, time, node, and its name indented by level."""
    nodes = dict.fromkeys(event.node for _, event in trace.steps)
    width = max(map(len, nodes))
    lines = [f"trace {trace.trace}: {len(trace.steps)} events on {', '.join(nodes)}"]
    for level, event in trace.steps:
        mark = ">" if event.id == trace.event else " "
        name = "  " * min(level, _INDENTED_MAX) + event.name
        fields = printable(_fields(event), _TRACE_CHARACTERS_MAX)
        start = f"{mark}{event.position:>8}  {timestamp(event.time)}  {event.node:<{width}}"
        lines.append(f"{start}  {name}  {fields}".rstrip())
    if trace.cut:
        lines.append(f"… there are more than these {len(trace.steps)}")
    return "\n".join(lines)


def _trace_tree(trace: _Trace) -> dict[str, Any]:
    """The same for programs: each event has those that it caused under *then*."""
    top: list[dict[str, Any]] = []
    path = [top]
    for level, event in trace.steps:
        node = envelope_tree(event) | {"level": level, "then": []}
        del path[min(level, _NESTED_MAX) + 1 :]
        path[-1].append(node)
        path.append(node["then"])
    return {"trace": trace.trace, "event": trace.event, "events": len(trace.steps), "cut": trace.cut, "then": top}


async def _trace(context: Context) -> Output:
    trace = await _find_trace(context.store, context.options.id or "")
    return Output(value=_trace_tree(trace), text=_trace_text(trace))


def _prepare(context: Context) -> Output | None:
    options = context.options
    if options.verb == "schema":
        from ringrift.events import schema  # only this verb needs it

        document = schema.asyncapi() if options.asyncapi else schema.json_schema()
        return Output(value=document, text=json.dumps(document, indent=2))
    if options.verb in ("show", "trace") and not options.id:
        raise InputError(f"name the event:  ringrift events {options.verb} ID  (ringrift events tail --json  has ids)")
    if options.count < 1:
        raise SettingsError("--count", options.count, "must be 1 or more")
    if options.after is not None and options.after < 0:
        raise SettingsError("--after", options.after, "must be 0 or more")
    _names(context)
    return None


_QUESTION = by_verb({"tail": _tail, "show": _show, "trace": _trace, "replay": _replay})
_JSON_HELP = "print JSON; tail and replay: one object a line"
COMMAND = Command(arguments=_arguments, prepare=_prepare, question=_QUESTION, json_help=_JSON_HELP, endless=True)
