"""Wrong command lines, generated from the parser: every command × every kind of bad value."""

import argparse
from collections.abc import Iterator

from ringrift.cli.main import build_parser

HUGE, LONG, BYTES = "1" + "0" * 400, "1" + "0" * 5000, "\udcff\udcfe"  # as Python reads bytes that are no UTF-8
FOR_ALL = (
    ("--bogus",),
    ("--set", "work.slots"),
    ("--set", "work.slot=3"),
    ("--set", "work.slots=many"),
    ("--set", f"work.slots={LONG}"),
    ("--set", "work=1", "--set", "work.slots=1"),
    ("--settings", "/nowhere/x.toml"),
    ("--settings", BYTES),
)
"""Bad arguments of every command."""
BAD_NUMBERS = {int: (HUGE, LONG, "1.5", "x", "", "nan"), float: ("1e400", "nan", "x", "")}


def _commands() -> dict[str, argparse.ArgumentParser]:
    actions = build_parser()._actions
    [choices] = [action.choices for action in actions if isinstance(action, argparse._SubParsersAction)]
    return dict(choices)


def _needed(parser: argparse.ArgumentParser) -> list[str]:
    """A word for every positional argument that a line must have."""
    positional = (action for action in parser._actions if not action.option_strings and action.nargs not in ("?", "*"))
    return [str(next(iter(action.choices))) if action.choices else "hex8_2p" for action in positional]


def generate() -> Iterator[list[str]]:
    """Every line; the bad value is its last word or close to it."""
    yield ["bogus"]
    yield [BYTES]
    yield []
    for name, parser in _commands().items():
        needed = _needed(parser)
        for bad in FOR_ALL:
            yield [name, *needed, *bad]
        yield [name, *needed, BYTES]
        for action in parser._actions:
            option = action.option_strings[-1:]
            values = next((bad for kind, bad in BAD_NUMBERS.items() if action.type is kind), ())
            for value in values if option else ():
                yield [name, *needed, *option, value]
            if action.choices and option:
                yield [name, *needed, *option, "bogus"]
            if option and action.nargs != 0:
                yield [name, *needed, *option]  # without its value
                yield [name, *needed, *option, BYTES]
