"""``ringrift dlq``: deliveries that went wrong: list and count them, try one again, give one up."""

import argparse
import asyncio
import json
from collections.abc import Mapping

import msgspec

from ringrift.bus import dead_letters
from ringrift.cli.environment import effective
from ringrift.cli.show import clock, table
from ringrift.cli.store import existing
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import InputError
from ringrift.store.ports import Delivery, Store

SHOWN_MAX = 1000


def parse(letter: str | None) -> tuple[str, int]:
    """``pipeline@42`` as reader and position.  Raises InputError."""
    reader, at, position = (letter or "").partition("@")
    if not reader or not at or not position.isdecimal():
        raise InputError(f"a letter is named READER@POSITION, e.g. pipeline@42, not {letter!r}")
    return reader, int(position)


def as_text(letters: list[Delivery]) -> str:
    """The letters for people."""
    rows = [
        (f"{one.reader}@{one.position}", one.state, one.attempts, clock(one.first), clock(one.last), one.error)
        for one in letters
    ]
    return table(("letter", "state", "tries", "first", "last", "error"), rows) if rows else "no letters"


async def do(store: Store, options: argparse.Namespace) -> str:
    """Do what is asked; what to print."""
    now = SystemClock().now()
    match options.verb:
        case "list":
            async with store.read() as view:
                letters = list(await view.deliveries(("parked", "dead"), SHOWN_MAX))
            return json.dumps(msgspec.to_builtins(letters), indent=2) if options.json else as_text(letters)
        case "stats":
            counts = await dead_letters.stats(store)
            return json.dumps(counts) if options.json else table(("", "letters"), list(counts.items()))
        case "retry":
            reader, position = parse(options.letter)
            await dead_letters.revive(store, reader, position, now)
            return f"{reader}@{position} will be tried again by the running coordinator"
    reader, position = parse(options.letter)
    await dead_letters.discard(store, reader, position, options.reason, now)
    return f"{reader}@{position} is given up: {options.reason}"


def main(options: argparse.Namespace, given: Mapping[str, object]) -> int:
    """Print what came of it; 0."""
    found = effective(file=options.settings, given=given)

    async def run() -> str:
        async with existing(found.settings.store) as store:
            return await do(store, options)

    print(asyncio.run(run()))
    return 0
