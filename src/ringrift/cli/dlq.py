"""``ringrift dlq``: deliveries that went wrong: list, count and look at them, try one again, give one up."""

import argparse
import json
from collections.abc import Mapping

import msgspec

from ringrift.bus import dead_letters, letters
from ringrift.cli.events import as_tree
from ringrift.cli.show import clock, table
from ringrift.cli.store import answer, by_hand
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.errors import InputError, UnknownName
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


async def show(store: Store, reader: str, position: int) -> str:
    """One letter with the event it could not deliver.  Raises UnknownName."""
    async with store.read() as view:
        letter = await letters.find(view, reader, position)
        if letter is None:
            raise UnknownName("delivery", f"{reader}@{position}")
        found = await view.read(position - 1, 1)
    kept = as_tree(found[0]) if found and found[0].position == position else None
    return json.dumps(msgspec.to_builtins(letter) | {"event": kept}, indent=2)


async def do(store: Store, options: argparse.Namespace, node: str) -> str:
    """Do what is asked; what to print."""
    now = SystemClock().now()
    match options.verb:
        case "list":
            async with store.read() as view:
                found = list(await view.deliveries(("parked", "dead"), SHOWN_MAX))
            return json.dumps(msgspec.to_builtins(found), indent=2) if options.json else as_text(found)
        case "stats":
            counts = await dead_letters.stats(store)
            return json.dumps(counts) if options.json else table(("", "letters"), list(counts.items()))
        case "show":
            return await show(store, *parse(options.letter))
        case "retry":
            reader, position = parse(options.letter)
            await dead_letters.revive(store, reader, position, now)
            return done(options, reader, position, "parked", "will be tried again by whoever serves that reader")
    reader, position = parse(options.letter)
    await dead_letters.discard(store, by_hand(node), reader, position, options.reason, now)
    return done(options, reader, position, "discarded", f"is given up: {options.reason}")


def done(options: argparse.Namespace, reader: str, position: int, state: str, text: str) -> str:
    """What was done with a letter, for people or for programs."""
    if options.json:
        return json.dumps({"reader": reader, "position": position, "state": state})
    return f"{reader}@{position} {text}"


def main(options: argparse.Namespace, given: Mapping[str, object]) -> int:
    """Print what came of it; 0."""
    return answer(options, given, do)
