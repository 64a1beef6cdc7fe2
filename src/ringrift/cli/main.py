"""The command ``ringrift``: parses the line, runs one command, and turns errors into a message and an exit code."""

import os
import sys
from collections.abc import Sequence

from ringrift.cli.command_line import COMMANDS, load, parser
from ringrift.kernel.errors import InputError, RingriftError, SettingsError, UnknownName

_EXIT_WRONG_INPUT, _EXIT_FAILED, _EXIT_INTERRUPTED = 2, 1, 130


def call(arguments: Sequence[str]) -> int:
    """Run one command; its exit code.  Raises RingriftError."""
    name = next((word for word in arguments if word in COMMANDS), "")
    options = parser(name).parse_args(arguments)
    from ringrift.cli.command import run  # not for --help

    return run(load(options.command), options)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit: 0 done, 1 failed, 2 wrong input, 3 not proven, 130/143 stopped by a signal."""
    try:
        sys.exit(call(sys.argv[1:] if arguments is None else arguments))
    except BrokenPipeError:  # the reader of our output has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(_EXIT_INTERRUPTED)
    except (InputError, UnknownName, SettingsError) as error:
        print(f"ringrift: {error}", file=sys.stderr)
        sys.exit(_EXIT_WRONG_INPUT)
    except RingriftError as error:
        print(f"ringrift: {error}", file=sys.stderr)
        sys.exit(_EXIT_FAILED)


if __name__ == "__main__":
    main()
