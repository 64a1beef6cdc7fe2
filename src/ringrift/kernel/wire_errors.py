"""Errors of links, and how every error of the tree travels over the wire: by name, with its text and its fields."""

import inspect
from collections.abc import Iterator, Mapping
from typing import NoReturn

from ringrift.kernel.errors import NodeAway, RingriftError, TransferError


class WireError(RingriftError):
    """A request over the wire was refused, or failed at the coordinator for a reason that only its log has."""


class Forbidden(WireError):
    """The key is valid, but it may not do this."""

    def __init__(self, verb: str, scope: str) -> None:
        self.verb, self.scope = verb, scope
        remedy, scopes = "join with a token that has it (ringrift nodes token --scope …)", " or ".join(scope.split())
        super().__init__(f"this key may not call {verb}: it lacks the scope {scopes}: {remedy}")


class LinkBroken(NodeAway):
    """The node cannot be reached by this transport, or the connection broke; by another it may be."""

    def __init__(self, node: str, transport: str, reason: str) -> None:
        self.node, self.transport, self.reason = node, transport, reason
        TransferError.__init__(self, f"node {node} cannot be reached by {transport}: {reason}")


class Stalled(LinkBroken):
    """The node sent nothing, or too little, for too long; the transfer was ended and can go on where it was."""


class PlaceAway(TransferError):
    """The place of backups cannot be reached, or its drive is not mounted; what it has may still exist."""

    def __init__(self, address: str, reason: str) -> None:
        self.address, self.reason = address, reason
        remedy = "mount its drive, or check the network, and try again"
        super().__init__(f"backups at {address} cannot be reached ({reason}): {remedy}")


class KeyRefused(WireError):
    """The coordinator does not accept the key or token: *reason* says why."""

    def __init__(
        self, node: str, reason: str, remedy: str = "join again (ringrift join URL --token-file FILE)"
    ) -> None:
        self.node, self.reason = node, reason
        super().__init__(f"{f'the key of node {node}' if node else 'the token'} was refused: {reason}: {remedy}")


class WireTooOld(WireError):
    """One side speaks a version of the wire that the other no longer understands."""

    def __init__(self, version: int, version_min: int, *, is_coordinator: bool = False) -> None:
        self.version, self.version_min = version, version_min
        side, other = ("the coordinator", "this machine") if is_coordinator else ("this machine", "the coordinator")
        remedy = f"upgrade {side}:  pip install --upgrade 'ringrift[cluster]'"
        super().__init__(f"{side} speaks wire version {version}, {other} needs {version_min} or later: {remedy}")


class InsecureBind(WireError):
    """An address that other machines can reach would be served without TLS."""

    def __init__(self, address: str) -> None:
        self.address = address
        remedy = "make certificates (ringrift certs), bind to 127.0.0.1, or accept plain text with --insecure"
        super().__init__(f"{address} can be reached from other machines, and there is no TLS: {remedy}")


_Detail = dict[str, str | int | float | list[str]]
"""The fields of an error as they travel."""


def detail_of(error: RingriftError) -> _Detail:
    """The fields of *error* that :func:`raise_from_reply` restores: text, numbers and lists of text."""
    detail: _Detail = {}
    for name, value in vars(error).items():
        if isinstance(value, tuple | list):
            detail[name] = [str(item) for item in value]
        elif isinstance(value, bool):
            detail[name] = int(value)
        elif isinstance(value, str | int | float):
            detail[name] = value
    return detail


def raise_from_reply(name: str, text: str, detail: Mapping[str, str | int | float | list[str]]) -> NoReturn:
    """Raise the error of the tree that is called *name* with *text* and *detail*; a WireError if there is none such."""
    type = next((leaf for leaf in _tree(RingriftError) if leaf.__name__ == name), WireError)
    error = type.__new__(type, text)  # its __init__ would make another text
    for field in list(inspect.signature(type.__init__).parameters)[1:]:
        if field not in ("args", "kwargs"):
            setattr(error, field, None)  # fields of that side that do not travel
    for field, value in detail.items():
        setattr(error, field, tuple(value) if isinstance(value, list) else value)
    raise error


def _tree(root: type[RingriftError]) -> Iterator[type[RingriftError]]:
    yield root
    for branch in root.__subclasses__():
        yield from _tree(branch)
