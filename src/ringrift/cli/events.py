"""``ringrift events``: the log, as it was and as it grows."""

import argparse
import asyncio
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from ringrift.cli.environment import effective
from ringrift.cli.show import clock
from ringrift.cli.store import existing
from ringrift.events import catalog
from ringrift.events.base import Envelope
from ringrift.kernel.errors import SettingsError, UnknownName, told
from ringrift.store.ports import Store

READ_AT_ONCE = 500
LOOKED_AT_MAX = 100_000
"""How far back the last events of certain names are looked for."""
POLL_SECONDS = 0.5
BODY_CHARACTERS_MAX = 160


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


async def tail(store: Store, names: tuple[str, ...], count: int, *, follow: bool, machine: bool) -> None:
    """Print the last *count* events, and with *follow* those that come until interrupted."""
    async with store.read() as view:
        found: list[Envelope] = []
        place = max(store.position - (LOOKED_AT_MAX if names else count), 0)
        while more := await view.read(place, READ_AT_ONCE, names):
            found, place = [*found, *more][-count:], more[-1].position
    for envelope in found:
        print(line(envelope, machine=machine), flush=True)
    while follow:
        await store.wait(place, POLL_SECONDS)
        async with store.read() as view:
            fresh = await view.read(place, READ_AT_ONCE, names)
        for envelope in fresh:
            place = envelope.position
            print(line(envelope, machine=machine), flush=True)


async def show(store: Store, id: str) -> str:
    """One event with everything around it.  Raises UnknownName."""
    async with store.read() as view:
        found = await view.envelopes([id])
    if not found:
        raise UnknownName("event id", id)
    return json.dumps(as_tree(found[0]), indent=2)


def main(options: argparse.Namespace, given: Mapping[str, object]) -> int:
    """Print; 0, also when interrupted while following."""
    found = effective(file=options.settings, given=given)
    if options.count < 1:
        raise SettingsError("--count", options.count, "must be 1 or more")
    names = tuple(options.names.split(",")) if options.names else ()
    for name in names:
        if name not in catalog.names():
            raise UnknownName("event", name, catalog.names())

    async def run() -> None:
        async with existing(found.settings.store) as store:
            if options.verb == "show":
                print(await show(store, options.id or ""))
            else:
                await tail(store, names, options.count, follow=options.follow, machine=options.json)

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        return 0
    return 0
