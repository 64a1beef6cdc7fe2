"""Addresses of coordinators: what people write, what is reached, and what only this machine can reach."""

import pytest

from ringrift.kernel.errors import InputError
from ringrift.wire.address import Address, is_loopback, parse_address, reachable_host


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("http://host:1234", Address(host="host", port=1234)),
        ("https://host", Address(host="host", port=8770, is_tls=True)),
        ("host", Address(host="host", port=8770)),
        ("host:0", Address(host="host", port=0)),
        ("HTTP://Host/", Address(host="host", port=8770)),
        ("[::1]:80", Address(host="::1", port=80)),
        ("http://[fe80::1]", Address(host="fe80::1", port=8770)),
    ],
)
def test_what_people_write_is_an_address(text: str, address: Address) -> None:
    """With or without scheme, port and brackets; written out it is the same again."""
    assert parse_address(text) == address
    assert parse_address(str(address)) == address


NO_HOSTS = ("", "http://", "host:port", "host:99999", "http://[::1", "hôst")
NO_ROOTS = ("ftp://host", "http://host/path", "http://host?q", "http://host#f", "http://user@host")


@pytest.mark.parametrize("text", [*NO_HOSTS, *NO_ROOTS])
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    """A path, a user, another scheme, a port that is none."""
    with pytest.raises(InputError, match="use http://HOST:8770 or https://HOST:8770"):
        parse_address(text)


def test_only_loopback_is_loopback() -> None:
    """A name that may be resolved to anything is not."""
    assert [is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost")] == [True] * 4
    others = ("0.0.0.0", "::", "192.0.2.1", "localhost.example", "host", "::ffff:127.0.0.1")
    assert [is_loopback(host) for host in others] == [False] * 6


def test_a_wildcard_is_reached_by_an_address_of_this_machine() -> None:
    """Any other host by its own name."""
    assert reachable_host("192.0.2.7") == "192.0.2.7"
    assert reachable_host("host") == "host"
    assert reachable_host("0.0.0.0") not in ("0.0.0.0", "")
    assert reachable_host("::") not in ("::", "")
