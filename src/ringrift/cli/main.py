"""The command ``ringrift``: parses the line, runs one command, and turns errors into a message and an exit code.

Names and descriptions of the commands are read without importing a module, so that ``ringrift --help`` is quick.
"""

import argparse
import math
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

from ringrift import __version__
from ringrift.kernel.errors import InputError, RingriftError, SettingsError, UnknownName, require_utf8

if TYPE_CHECKING:
    from ringrift.cli.command import Command

_EXIT_WRONG_INPUT, _EXIT_FAILED, _EXIT_INTERRUPTED = 2, 1, 130
_BAD_PLACES = (PermissionError, IsADirectoryError, NotADirectoryError)
_WRONG_INPUT = (InputError, UnknownName, SettingsError, *_BAD_PLACES)
_DESCRIPTION = """One loop that makes game-playing networks stronger: self-play, training, evaluation, promotion.
Start it with "ringrift run"; look at it with "ringrift status" and "ringrift why VARIANT"."""
_MODULES = sorted(Path(__file__).with_name("commands").glob("[!_]*.py"))
_COMMANDS = {file.stem: file.read_text("utf-8").partition("\n")[0].strip('"') for file in _MODULES}


def _load(name: str) -> "Command":
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
            child.register("type", int, _whole)
            child.register("type", float, _finite)
            command, text = _load(name), "one setting, e.g. --set work.slots=4; may be repeated"
            child.add_argument("--settings", metavar="FILE", help="TOML file (default: ringrift.toml in RINGRIFT_HOME)")
            child.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help=text)
            command.arguments(child)
            if command.json_help is not None:
                child.add_argument("--json", action="store_true", help=command.json_help)
    return top


def _whole(text: str) -> int:
    if not -(2**63) <= (number := int(text)) < 2**63:  # what a database can hold
        raise argparse.ArgumentTypeError(f"{text:.20} is too large")
    return number


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise argparse.ArgumentTypeError(f"{text:.20} is not a finite number")
    return number


def call(arguments: Sequence[str]) -> int:
    """Run one command; its exit code.  Raises RingriftError."""
    for word in arguments:
        require_utf8("argument", word)
    name = next((word for word in arguments if word in _COMMANDS), "")
    options = _parser(name).parse_args(arguments)
    from ringrift.cli.command import run  # not for --help

    return run(_load(options.command), options)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit: 0 done, 1 failed, 2 wrong input, 3 not proven, 130/143 stopped by a signal."""
    os.umask(0o077)  # logs, reports and what workers write are for their owner alone, as the store and blobs are
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that lacks a letter gets its code
    try:
        try:
            code = call(sys.argv[1:] if arguments is None else arguments)
        finally:
            sys.stdout.flush()  # here, so that a reader that has ended is noticed below
        sys.exit(code)
    except BrokenPipeError:  # the reader of our output has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(_EXIT_INTERRUPTED)
    except (RingriftError, *_BAD_PLACES) as error:
        place = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else error
        print(f"ringrift: {place}", file=sys.stderr)
        sys.exit(_EXIT_WRONG_INPUT if isinstance(error, _WRONG_INPUT) else _EXIT_FAILED)


if __name__ == "__main__":
    main()
