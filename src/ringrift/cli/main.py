"""The command ``ringrift``: parses, calls one command, and turns errors into a line and an exit code."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from ringrift import __version__
from ringrift.kernel.errors import InputError, RingriftError, SettingsError, UnknownName

COMMANDS: dict[str, str] = {
    "run": "run the loop on this machine until every line has its promotions, with live progress",
    "status": "show lines, jobs, nodes and what is wrong",
    "why": "say which gate a variant waits on, with value, limit and since when",
    "events": "show the log: the last events, those to come, or one with everything around it",
    "dlq": "list and count deliveries that went wrong, try one again, give one up",
    "doctor": "check this machine and print the settings in force and where each comes from",
}
EXIT_WRONG_INPUT, EXIT_FAILED = 2, 1


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = argparse.ArgumentParser(prog="ringrift", description="One loop that makes game-playing networks stronger.")
    top.add_argument("--version", action="version", version=f"ringrift {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, help in COMMANDS.items():
        one = commands.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
        one.add_argument("--settings", metavar="FILE", help="a TOML file (default: ringrift.toml in RINGRIFT_HOME)")
        one.add_argument(
            "--set", metavar="KEY=VALUE", action="append", default=[], help="one setting, e.g. --set work.slots=4"
        )
        _arguments(name, one)
    return top


def _arguments(name: str, one: argparse.ArgumentParser) -> None:
    match name:
        case "run":
            one.add_argument("--iterations", type=int, default=3, metavar="N",
                             help="promotions for each variant, then stop; 0 = go on for ever (default 3)")  # fmt: skip
            one.add_argument("--variants", metavar="A,B", help="which variants (default: those of the settings)")
            one.add_argument("--nodes", type=int, default=3, metavar="N", help="nodes of the local cluster (default 3)")
            one.add_argument("--plain", action="store_true", help="a line for each thing that happens, no live table")
            one.add_argument("--report", metavar="FILE", help="where the JSON report goes (default: report.json in "
                             "RINGRIFT_HOME)")  # fmt: skip
        case "status" | "doctor":
            one.add_argument("--json", action="store_true", help="print JSON")
        case "events":
            one.add_argument("verb", choices=("tail", "show"))
            one.add_argument("id", nargs="?", help="of the event to show")
            one.add_argument(
                "--count", "-n", type=int, default=20, metavar="N", help="how many of the last (default 20)"
            )
            one.add_argument("--names", metavar="A,B", help="only these, e.g. model.promoted,model.rejected")
            one.add_argument("--follow", "-f", action="store_true", help="go on with those that come")
            one.add_argument("--json", action="store_true", help="print JSON, one object a line")
        case "dlq":
            one.add_argument("verb", choices=("list", "stats", "retry", "discard"))
            one.add_argument("letter", nargs="?", help="READER@POSITION, as list shows it")
            one.add_argument("--reason", default="given up by hand", help="why it is discarded")
            one.add_argument("--json", action="store_true", help="print JSON")
        case "why":
            one.add_argument("variant", help="e.g. hex8_2p")
            one.add_argument("--json", action="store_true", help="print JSON")


def given(pairs: Sequence[str]) -> dict[str, object]:
    """``["work.slots=4"]`` as settings.  Raises SettingsError."""
    settings: dict[str, object] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise SettingsError("--set", pair, "must be KEY=VALUE")
        settings[key] = value
    return settings


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit: 0 done, 1 failed, 2 wrong input, 130/143 stopped by a signal."""
    options = parser().parse_args(arguments)
    try:
        command = import_module(f"ringrift.cli.{options.command}")
        sys.exit(command.main(options, given(options.set)))
    except BrokenPipeError:  # whoever read us has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (InputError, UnknownName, SettingsError) as wrong:
        print(f"ringrift: {wrong}", file=sys.stderr)
        sys.exit(EXIT_WRONG_INPUT)
    except RingriftError as failed:
        print(f"ringrift: {failed}", file=sys.stderr)
        sys.exit(EXIT_FAILED)


if __name__ == "__main__":
    main()
