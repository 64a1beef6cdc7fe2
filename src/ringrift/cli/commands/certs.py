"""Make an authority of your own, and a certificate by which machines that join know this coordinator."""

import socket
from argparse import ArgumentTypeError
from pathlib import Path

from ringrift.cli.command import Command, Context, Output, Parser
from ringrift.kernel.errors import SettingsError
from ringrift.wire import tls
from ringrift.wire.address import reachable_host

_DAYS, _DAYS_MAX = 397, 3650


def _days(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= _DAYS_MAX:
        raise ArgumentTypeError(f"must be a number of days from 1 to {_DAYS_MAX}")
    return int(text)


def _arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("--name", action="append", default=[], metavar="HOST", help="a host name or IP address (may be repeated)")
    add("--days", type=_days, default=_DAYS, metavar="N", help="how long it is valid (default: %(default)s)")


def _names(typed: list[str]) -> list[str]:
    """*typed*, and the names under which this machine knows itself."""
    own = ["localhost", "127.0.0.1", "::1", socket.gethostname(), reachable_host("0.0.0.0")]
    return list(dict.fromkeys([*typed, *(name for name in own if name)]))


def _prepare(context: Context) -> Output:
    """Write the files; those of the authority only if there are none, so that workers go on trusting it."""
    folder, names = Path(context.effective.home, "certs"), _names(context.options.name)
    try:
        cert, end = tls.make_certificates(folder, names, context.clock.now(), context.options.days)
    except OSError as error:
        raise SettingsError("RINGRIFT_HOME", str(folder), str(error.strerror)) from error
    until = f"{end:%Y-%m-%d}"
    lines = (
        f"{cert}: a certificate for {', '.join(names)}, valid until {until}",
        f"{folder / 'ca.pem'}: the authority that signed it; workers learn it when they join, and trust it alone",
        f"{folder / 'ca.key'} can sign more of them: keep it secret.",
        "Start the coordinator again to use the certificate:  ringrift coordinator --bind 0.0.0.0",
    )
    value = {"cert": str(cert), "ca": str(folder / "ca.pem"), "names": names, "until": until}
    return Output(value=value, text="\n".join(lines))


COMMAND = Command(arguments=_arguments, prepare=_prepare)
