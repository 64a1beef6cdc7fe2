"""Addresses of coordinators: ``http://HOST:PORT``, or ``https://`` where TLS is spoken."""

import ipaddress
import socket
from contextlib import suppress
from urllib.parse import urlsplit

from ringrift.kernel.errors import InputError
from ringrift.kernel.value import Value

_PORT = 8770  # of a coordinator that names none.


class Address(Value):
    """Where a coordinator is reached."""

    host: str
    port: int
    is_tls: bool = False

    @property
    def authority(self) -> str:
        """``HOST:PORT``, with brackets around an IPv6 address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{'https' if self.is_tls else 'http'}://{self.authority}"


def parse_address(text: str) -> Address:
    """The address that *text* names; without a scheme it is plain HTTP.  Raises InputError."""
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    is_bare = parts.path in ("", "/") and not (parts.query or parts.fragment or parts.username)
    if host is None or parts.scheme not in ("http", "https") or not is_bare or not host.isascii():
        raise InputError(f"address {text!r:.120} is not valid: use http://HOST:{_PORT} or https://HOST:{_PORT}")
    return Address(host=host, port=_PORT if port is None else port, is_tls=parts.scheme == "https")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach *host*."""
    ip = parse_ip(host)
    return host == "localhost" if ip is None else ip.is_loopback


def parse_ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address that *host* is, or None if it is a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def reachable_host(host: str) -> str:
    """The name under which other machines reach a server that is bound to *host*."""
    ip = parse_ip(host)
    if ip is None or not ip.is_unspecified:
        return host
    family, anywhere = (socket.AF_INET6, "2001:db8::1") if ip.version == 6 else (socket.AF_INET, "192.0.2.1")
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((anywhere, 9))  # sends nothing: it only chooses the address of this machine
        return str(probe.getsockname()[0])
    return socket.gethostname()
