"""The command ``ringrift``: parses the line, runs one command, and turns errors into a message and an exit code.

Names and descriptions of the commands are read without importing a module, so that ``ringrift --help`` is quick.
"""

import argparse
import errno
import math
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ringrift import __version__
from ringrift.kernel.errors import InputError, RingriftError, SettingsError, UnknownName
from ringrift.kernel.exit_codes import ExitCode
from ringrift.kernel.ids import require_utf8

if TYPE_CHECKING:
    from ringrift.cli.command import Command

_WRONG_INPUT = (InputError, UnknownName, SettingsError)
_BAD_PLACES = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)
_DESCRIPTION = """One loop that makes game-playing networks stronger: self-play, training, evaluation, promotion.
Start it with "ringrift run"; look at it with "ringrift status" and "ringrift why VARIANT"."""
_SLOW = ("run", "node", "coordinator", "join", "up")  # commands whose start takes long enough to wonder
_MODULES = sorted(Path(__file__).with_name("commands").glob("[!_]*.py"))
_COMMANDS = {file.stem.replace("_", "-"): file.read_text("utf-8").partition("\n")[0].strip('"') for file in _MODULES}


class _Parser(argparse.ArgumentParser):
    """A parser whose errors name what was probably intended; options may stand between arguments: ``logs -f JOB``."""

    _is_inside = False  # the parser of mixed arguments calls that of ordered ones, twice

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """The options; ends the process if there are unknown arguments."""
        if self._is_inside:
            return super().parse_known_args(args, namespace)
        self._is_inside = True
        try:
            is_top = self._subparsers is not None
            parse = super().parse_known_args if is_top else self.parse_known_intermixed_args
            options, rest = parse(args, namespace)
        finally:
            self._is_inside = False
        if rest:
            close = get_close_matches(rest[0].partition("=")[0], self._option_string_actions, 1)
            hint = "".join(f"; did you mean {word}?" for word in close)
            self.error(f"unrecognized arguments: {' '.join(rest):.200}{hint}")
        return options, rest

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise ArgumentError with the close ones unless *value* is one of the choices."""
        if action.choices is not None and value not in action.choices:
            kind = action.metavar if isinstance(action.metavar, str) else action.dest
            raise argparse.ArgumentError(None, str(UnknownName(kind.lower(), str(value), map(str, action.choices))))


def _load(name: str) -> "Command":
    command: Command = import_module(f"ringrift.cli.commands.{name.replace('-', '_')}").COMMAND
    return command


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """The parser of the command line; with *only*, just that command has its arguments."""
    top = _Parser(prog="ringrift", description=_DESCRIPTION)
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
        require_utf8("command line", word)
    name = next((word for word in arguments if word in _COMMANDS), "")
    if name in _SLOW and not {"-h", "--help"}.intersection(arguments):
        print(f"ringrift {__version__}: starting {name} …", flush=True)  # before a second of imports
    options = build_parser(name).parse_args(arguments)
    from ringrift.cli.command import run  # not for --help

    return run(_load(options.command), options)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit with one of :class:`ExitCode`."""
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
        sys.exit(ExitCode.INTERRUPTED)
    except RingriftError as error:
        print(f"ringrift: {error}", file=sys.stderr)
        sys.exit(ExitCode.WRONG_INPUT if isinstance(error, _WRONG_INPUT) else ExitCode.FAILED)
    except OSError as error:
        print(f"ringrift: {error.filename or 'the system'}: {error.strerror or error}", file=sys.stderr)
        sys.exit(ExitCode.WRONG_INPUT if error.errno in _BAD_PLACES else ExitCode.FAILED)


if __name__ == "__main__":
    main()
