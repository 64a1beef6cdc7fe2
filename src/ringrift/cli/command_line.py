"""Command line: the parser of ``ringrift``, made from the modules of ``ringrift.cli.commands``.

Names and descriptions are read without importing a module, so that ``ringrift --help`` is quick.
"""

import argparse
import os
from importlib import import_module
from typing import TYPE_CHECKING

from ringrift import __version__

if TYPE_CHECKING:
    from ringrift.cli.command import Command

_FOLDER = os.path.join(os.path.dirname(__file__), "commands")
_DESCRIPTION = """One loop that makes game-playing networks stronger: self-play, training, evaluation, promotion.
Start it with "ringrift run"; look at it with "ringrift status" and "ringrift why VARIANT"."""


def _descriptions() -> dict[str, str]:
    """Command → its description, the first line of its module."""
    names = sorted(file.removesuffix(".py") for file in os.listdir(_FOLDER) if file[:1] != "_" and file.endswith(".py"))
    descriptions = {}
    for name in names:
        with open(os.path.join(_FOLDER, f"{name}.py"), encoding="utf-8") as source:
            descriptions[name] = source.readline().strip().strip('"')
    return descriptions


COMMANDS = _descriptions()


def load(name: str) -> "Command":
    """The command *name*."""
    command: Command = import_module(f"ringrift.cli.commands.{name}").COMMAND
    return command


def parser(only: str | None = None) -> argparse.ArgumentParser:
    """The parser of the command line; with *only*, just that command has its arguments."""
    top = argparse.ArgumentParser(prog="ringrift", description=_DESCRIPTION)
    top.add_argument("--version", action="version", version=f"ringrift {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, description in COMMANDS.items():
        summary = description[0].lower() + description[1:].removesuffix(".")
        child = commands.add_parser(name, help=summary, description=description)
        if only in (None, name):
            command, text = load(name), "one setting, e.g. --set work.slots=4; may be repeated"
            child.add_argument("--settings", metavar="FILE", help="TOML file (default: ringrift.toml in RINGRIFT_HOME)")
            child.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help=text)
            command.arguments(child)
            if command.json_help is not None:
                child.add_argument("--json", action="store_true", help=command.json_help)
    return top
