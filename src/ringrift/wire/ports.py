"""The interface of every wire engine: it carries a request to an address and its reply back, and streams notes.

An engine knows nothing of what it carries: signatures, sessions and scopes are in the request and are checked above it
(:mod:`ringrift.wire.connection` signs, :mod:`ringrift.coordinator.gate` checks), so that every engine has them and the
simulated network tests them.  A request may arrive twice, late or never, and so may its reply: "timed out" means that
the outcome is unknown, and whoever asked sends the same request again.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from ringrift.kernel.errors import RingriftError
from ringrift.kernel.value import Value
from ringrift.kernel.wire_errors import detail_of

WIRE_VERSION = 1  #: Of requests and bodies that this code sends.
WIRE_VERSION_MIN = 1  #: The oldest that it understands.
BODY_BYTES_MAX = 4 * 1024 * 1024  #: Of a request or a reply; files travel in pieces.
CHUNK_BYTES = 1024 * 1024  #: Of a piece of a file.
NOTE_BYTES_MAX = 256 * 1024


class Request(Value):
    """One question to a coordinator."""

    verb: str
    body: bytes = b""
    node: str = ""  #: Who asks, by the id of its key; empty only for those verbs that need no key.
    session: str = ""
    number: int = 0  #: Within the session.  A number is answered once, then only repeated.
    signature: bytes = b""  #: Of everything above, by the key of *node*.
    trace: str = ""  #: W3C traceparent.


class Reply(Value):
    """The answer.  A caller raises *error* again, by its name in the tree of errors, with *detail* as its fields."""

    body: bytes = b""
    error: str = ""
    text: str = ""  #: What the error says to people.
    detail: dict[str, str | int | float | list[str]] = {}
    wait_seconds: float = 0.0  #: How long the caller should wait before it asks again, where that can help.


def error_reply(error: RingriftError, *, wait_seconds: float = 0.0) -> Reply:
    """*error* as a reply."""
    return Reply(error=type(error).__name__, text=str(error), detail=detail_of(error), wait_seconds=wait_seconds)


class Service(Protocol):
    """What a coordinator does with what an engine brings."""

    async def answer(self, request: Request) -> Reply:
        """Answer *request*.  Never raises: an error is a reply."""

    def notes(self, request: Request) -> AsyncIterator[bytes]:
        """The stream that *request* asks for, until its reader goes.  Raises a typed error before the first note."""


class Wire(Protocol):
    """An engine."""

    async def request(self, address: str, request: Request, seconds_max: float) -> Reply:
        """Carry *request* to *address*.  Raises NodeAway if no reply comes within *seconds_max*: outcome unknown."""

    def subscribe(self, address: str, request: Request) -> AsyncIterator[bytes]:
        """The notes that *address* streams for *request*.  Raises NodeAway when the stream breaks."""

    def serve(self, address: str, service: Service) -> AbstractAsyncContextManager[str]:
        """Serve *service* at *address* while the body runs; yields the address under which it can be reached."""

    def close(self) -> None:
        """End the connections that rest; the wire can be used again."""
