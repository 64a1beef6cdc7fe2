"""The ssh command of a link: only allow-listed words reach it, and a host is known by pinned keys or not at all."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from ringrift.cluster.hosts import FOLDER, HOST_KEY, KEY_FILE
from ringrift.kernel.errors import InvalidId
from ringrift.kernel.ids import check_id
from ringrift.kernel.transfer_settings import LinkSettings
from ringrift.sync.transports.ports import Endpoint

# No option of ssh, nothing that a shell reads, and no second host.
_ADDRESS = re.compile(r"([A-Za-z0-9_.][A-Za-z0-9_.-]{0,63}@)?[A-Za-z0-9_.:][A-Za-z0-9_.:%-]{0,254}")
_ALIVE_MAX = 3  # questions without an answer within the time that a link may be silent
_OPTIONS = (
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "UpdateHostKeys=no",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "RequestTTY=no",
    "EscapeChar=none",
    "Compression=no",
    "ControlPath=none",  # a connection of its own: killing it ends it, and no other
    f"ServerAliveCountMax={_ALIVE_MAX}",
)


def check_endpoint(endpoint: Endpoint) -> None:
    """Raise InvalidId unless every word of *endpoint* may reach a command line."""
    check_id("node", endpoint.node)
    for address in endpoint.addresses:
        _check(_ADDRESS, "address", address, "must be [user@]host, a name or an IP address")
    for key in endpoint.host_keys:
        _check(HOST_KEY, "host key", key, "must be as in a known_hosts file: ssh-ed25519 AAAA…")
    _check(FOLDER, "folder", endpoint.folder, "must begin with / or ~/")
    if endpoint.identity:
        _check(KEY_FILE, "key file", endpoint.identity, "must be a path without quotes and %")
    if not 0 <= endpoint.port <= 65_535:
        raise InvalidId("port", str(endpoint.port), "must be between 1 and 65535, 0 for that of ssh")


def _check(pattern: re.Pattern[str], what: str, value: str, rule: str) -> None:
    if not pattern.fullmatch(value):
        raise InvalidId(what, value, rule)


def make_ssh(links: LinkSettings, endpoint: Endpoint) -> list[str]:
    """ssh and its options for *endpoint*, which is valid, without the host."""
    connect = f"ConnectTimeout={round(links.connect_seconds_max)}"
    alive = f"ServerAliveInterval={max(round(links.silence_seconds_max / _ALIVE_MAX), 1)}"
    options = [*_OPTIONS, connect, alive, *pin_options(endpoint.node, endpoint.host_keys)]
    words = [*shlex.split(links.ssh), *(word for option in options for word in ("-o", option))]
    words += ["-p", str(endpoint.port)] if endpoint.port else []
    if endpoint.identity:
        words += ["-o", "IdentitiesOnly=yes", "-i", str(Path(endpoint.identity).expanduser())]
    return words


def pin_options(node: str, host_keys: Sequence[str]) -> Sequence[str]:
    """Options by which only *host_keys* are known, under the name of the node, whatever its address is."""
    if not host_keys:
        return ()  # the user's own known_hosts
    keys = " ".join(f"{node} {key}" for key in host_keys)
    return (
        f"HostKeyAlias={node}",
        "UserKnownHostsFile=/dev/null",
        "GlobalKnownHostsFile=/dev/null",
        "CheckHostIP=no",
        f'KnownHostsCommand=/usr/bin/printf "%%s %%s %%s\\n" {keys}',
    )


def remote_command(script: str, *arguments: object) -> str:
    """*script* with *arguments* as one word that the shell at the other end reads."""
    return shlex.join(["sh", "-c", script, "sh", *map(str, arguments)])
