"""``ringrift readers``: who reads the log durably, how far behind each is, and letting one start anew."""

import argparse
import json
from collections.abc import Mapping, Sequence

import msgspec

from ringrift.cli.show import clock, table
from ringrift.cli.store import answer, by_hand
from ringrift.events.reader import Forgotten
from ringrift.kernel.errors import InputError
from ringrift.store.ports import BEHIND_MAX, ReaderRow, Store


def as_text(readers: Sequence[ReaderRow]) -> str:
    """The readers for people."""
    rows = [
        (
            one.reader,
            one.position,
            one.behind if one.behind < BEHIND_MAX else f"{BEHIND_MAX} or more",
            clock(one.since) if one.since is not None else "",
            "lapsed" if one.lapsed else "reading" if one.behind else "level",
        )
        for one in readers
    ]
    return table(("reader", "position", "behind", "waiting since", "state"), rows) if rows else "no readers"


async def forget(store: Store, reader: str, node: str) -> int:
    """Forget *reader* and its letters, and say so; how many letters that were.  Raises UnknownName."""
    async with store.begin() as tx:
        letters = await tx.forget(reader)
        await tx.append([by_hand(node).wrap(Forgotten(reader=reader), source="cli")])
    return letters


async def do(store: Store, options: argparse.Namespace, node: str) -> str:
    """Do what is asked; what to print."""
    if options.verb == "list":
        async with store.read() as view:
            found = await view.readers()
        return json.dumps(msgspec.to_builtins(found), indent=2) if options.json else as_text(found)
    if not options.reader:
        raise InputError("which reader?  ringrift readers list  shows them")
    letters = await forget(store, options.reader, node)
    if options.json:
        return json.dumps({"reader": options.reader, "letters": letters})
    return f"{options.reader} is forgotten, with {letters} letters: one of that name starts anew"


def main(options: argparse.Namespace, given: Mapping[str, object]) -> int:
    """Print what came of it; 0."""
    return answer(options, given, do)
