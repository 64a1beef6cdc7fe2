"""The command ``ringrift``: parses, calls one command, and turns errors into a line and an exit code."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from ringrift import __version__
from ringrift.cli.arguments import ARGUMENTS
from ringrift.kernel.errors import InputError, RingriftError, SettingsError, UnknownName

COMMANDS: dict[str, str] = {
    "run": "run the loop on this machine with live progress, then prove and report what was learnt",
    "play": "play against the champion of a variant in the terminal",
    "status": "show lines, jobs, nodes and what is wrong",
    "daemons": "list what the daemons of every node do and how they are; start, stop, restart or clear one",
    "health": "say how the cluster is, whether it lives and is ready, with reasons and an exit code",
    "alerts": "list what is wrong and since when, or clear an alert by hand",
    "why": "say which gate a variant waits on, with value, limit and since when",
    "models": "list, show, verify and import models, try one again, go back to an earlier champion",
    "promotions": "list every decision about a model with its evidence, also as if a node had never played",
    "elo": "show how strong each line is and how fast it gets stronger, with bounds",
    "match": "let two models play against each other",
    "gate": "simulate how often a gate errs and what it costs, and what a budget makes of a whole run",
    "lineage": "show what a model was made from: samples, batches, nodes, seeds, parents and code",
    "blast": "list the samples and models that have seen any game of a node",
    "quarantine": "list nodes whose results are not believed, shut one out, let one play again",
    "request": "ask for a stage of a variant out of turn and hear what its gate says",
    "events": "show the log: the last events and those to come, one, its story; deliver again; print schemas",
    "readers": "list who reads the log durably and how far behind, forget one",
    "dlq": "list, count and show deliveries that went wrong, try one again, give one up",
    "doctor": "check this machine and print the settings in force and where each comes from",
}
EXIT_WRONG_INPUT, EXIT_FAILED, EXIT_INTERRUPTED = 2, 1, 130


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
        ARGUMENTS[name](one)
    return top


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
    """Run one command and exit: 0 done, 1 failed, 2 wrong input, 3 not shown, 130/143 stopped by a signal."""
    options = parser().parse_args(arguments)
    try:
        command = import_module(f"ringrift.cli.{options.command}")
        sys.exit(command.main(options, given(options.set)))
    except BrokenPipeError:  # whoever read us has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:  # before or after what stops in good order
        sys.exit(EXIT_INTERRUPTED)
    except (InputError, UnknownName, SettingsError) as wrong:
        print(f"ringrift: {wrong}", file=sys.stderr)
        sys.exit(EXIT_WRONG_INPUT)
    except RingriftError as failed:
        print(f"ringrift: {failed}", file=sys.stderr)
        sys.exit(EXIT_FAILED)


if __name__ == "__main__":
    main()
