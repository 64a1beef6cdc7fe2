"""``ringrift events``: the log, as it was and as it grows; the story of an event; events delivered again; schemas."""

import argparse
import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from ringrift.bus import history
from ringrift.bus.wants import Wants, wants
from ringrift.cli.environment import effective
from ringrift.cli.show import clock
from ringrift.cli.store import existing
from ringrift.cli.trace import tree
from ringrift.events import catalog, old_names
from ringrift.events.base import Envelope, Unknown
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import InputError, SettingsError, UnknownName, told
from ringrift.store.ports import Store

POLL_SECONDS = 0.5
BODY_CHARACTERS_MAX = 160
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def as_tree(envelope: Envelope) -> dict[str, Any]:
    """The envelope for programs, its body as what it says."""
    tree: dict[str, Any] = msgspec.structs.asdict(envelope)
    return tree | {"body": json.loads(envelope.body)}


def line(envelope: Envelope, *, machine: bool) -> str:
    """One event on one line."""
    if machine:
        return json.dumps(as_tree(envelope))
    fields = {key: value for key, value in json.loads(envelope.body).items() if key != "type"}
    said = told(", ".join(f"{key}={value}" for key, value in fields.items()), BODY_CHARACTERS_MAX)
    return f"{envelope.position:>8}  {clock(envelope.time)}  {envelope.node:<12}  {envelope.name:<26}  {said}"


def wanted(names: str | None) -> Wants:
    """What ``--names`` asks for, in any spelling.  Raises UnknownName, or InputError for a name that is retired."""
    asked = [name.strip() for name in names.split(",")] if names else []
    for name in asked:
        row = old_names.resolve(name)
        if row is None:
            raise UnknownName("event", name, catalog.names())
        if row.event is None:
            raise InputError(f"event {name} is retired: {row.retired}")
    return wants(asked or None)


def moment(text: str, now: float) -> float:
    """``90m`` as so long before *now*, or a date and time.  Raises InputError."""
    number, unit = text[:-1], text[-1:]
    try:
        if unit in _UNITS:
            return now - float(number) * _UNITS[unit]
        return datetime.fromisoformat(text).timestamp()
    except ValueError as bad:
        raise InputError(f"the moment {text!r:.40} is neither like 90m, 2h, 7d nor like 2026-01-31T12:00") from bad


def fits(envelope: Envelope, asked: Wants) -> bool:
    """Whether the event is one of those asked for."""
    if asked.names is not None and envelope.name not in asked.names:
        return False
    event = catalog.decode(envelope.name, envelope.body)
    return not isinstance(event, Unknown) and asked.has(event, envelope) if asked.check is not None else True


async def tail(store: Store, asked: Wants, count: int, *, follow: bool, machine: bool) -> None:
    """Print the last *count* events, and with *follow* those that come until interrupted."""
    place = store.position
    for envelope in await history.recent(store, count, asked.names or (), lambda one: fits(one, asked)):
        print(line(envelope, machine=machine), flush=True)
    while follow:
        await store.wait(place, POLL_SECONDS)
        async for envelope in history.past(store, after=place):
            place = envelope.position
            if fits(envelope, asked):
                print(line(envelope, machine=machine), flush=True)


async def show(store: Store, id: str) -> str:
    """One event with everything around it.  Raises UnknownName."""
    async with store.read() as view:
        found = await view.envelopes([id])
    if not found:
        raise UnknownName("event id", id)
    return json.dumps(as_tree(found[0]), indent=2)


async def replay(store: Store, asked: Wants, options: argparse.Namespace) -> str:
    """Print events again, or have a reader take them again; what to say at the end.  Raises InputError, UnknownName."""
    now = SystemClock().now()
    since = moment(options.since, now) if options.since else None
    again: AsyncIterator[Envelope] = history.past(store, after=options.after, since=since)
    positions = []
    async for envelope in again:
        if fits(envelope, asked):
            positions.append(envelope.position)
            if options.reader is None and not options.dry_run:
                print(line(envelope, machine=options.json), flush=True)
    if options.dry_run or options.reader is None:
        return json.dumps({"events": len(positions)}) if options.json else f"{len(positions)} events"
    count = await history.replay(store, options.reader, positions, now)
    if options.json:
        return json.dumps({"reader": options.reader, "events": len(positions), "again": count})
    return f"{options.reader} gets {count} of {len(positions)} events again; it has not come to the others yet"


def schema(*, asyncapi: bool) -> str:
    """Every event as JSON Schema, or as an AsyncAPI document."""
    from ringrift.events import schema as schemas  # only this command needs it

    return json.dumps(schemas.asyncapi() if asyncapi else schemas.json_schema(), indent=2)


def main(options: argparse.Namespace, given: Mapping[str, object]) -> int:
    """Print; 0, also when interrupted while following."""
    if options.verb == "schema":
        print(schema(asyncapi=options.asyncapi))
        return 0
    found = effective(file=options.settings, given=given)
    if options.count < 1:
        raise SettingsError("--count", options.count, "must be 1 or more")
    asked = wanted(options.names)

    async def run() -> None:
        async with existing(found.settings.store) as store:
            match options.verb:
                case "show":
                    print(await show(store, options.id or ""))
                case "trace":
                    print(await tree(store, options.id or "", machine=options.json))
                case "replay":
                    print(await replay(store, asked, options))
                case _:
                    await tail(store, asked, options.count, follow=options.follow, machine=options.json)

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        return 0
    return 0
