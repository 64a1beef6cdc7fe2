"""The command ``ringrift``: parses the line, runs one command, and turns errors into a message and an exit code.

Names and descriptions of the commands are read without importing a module, so that ``ringrift --help`` is quick.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from ringrift import __version__
from ringrift.kernel.errors import InputError, RingriftError, SettingsError, UnknownName

if TYPE_CHECKING:
    from ringrift.cli.command import Command

_EXIT_WRONG_INPUT, _EXIT_FAILED, _EXIT_INTERRUPTED = 2, 1, 130
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


_COMMANDS = _descriptions()


def _load(name: str) -> "Command":
    """The command *name*."""
    command: Command = import_module(f"ringrift.cli.commands.{name}").COMMAND
    return command


def _parser(only: str | None = None) -> argparse.ArgumentParser:
    """The parser of the command line; with *only*, just that command has its arguments."""
    top = argparse.ArgumentParser(prog="ringrift", description=_DESCRIPTION)
    top.add_argument("--version", action="version", version=f"ringrift {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, description in _COMMANDS.items():
        summary = description[0].lower() + description[1:].removesuffix(".")
        child = commands.add_parser(name, help=summary, description=description)
        if only in (None, name):
            command, text = _load(name), "one setting, e.g. --set work.slots=4; may be repeated"
            child.add_argument("--settings", metavar="FILE", help="TOML file (default: ringrift.toml in RINGRIFT_HOME)")
            child.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help=text)
            command.arguments(child)
            if command.json_help is not None:
                child.add_argument("--json", action="store_true", help=command.json_help)
    return top


def call(arguments: Sequence[str]) -> int:
    """Run one command; its exit code.  Raises RingriftError."""
    name = next((word for word in arguments if word in _COMMANDS), "")
    options = _parser(name).parse_args(arguments)
    from ringrift.cli.command import run  # not for --help

    return run(_load(options.command), options)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit: 0 done, 1 failed, 2 wrong input, 3 not proven, 130/143 stopped by a signal."""
    try:
        sys.exit(call(sys.argv[1:] if arguments is None else arguments))
    except BrokenPipeError:  # the reader of our output has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(_EXIT_INTERRUPTED)
    except RingriftError as error:
        print(f"ringrift: {error}", file=sys.stderr)
        sys.exit(_EXIT_WRONG_INPUT if isinstance(error, InputError | UnknownName | SettingsError) else _EXIT_FAILED)


if __name__ == "__main__":
    main()
