"""The interface of every transport: bytes of one blob, from an offset on, from a node that has it.

A transport moves bytes and judges none of them: the receiver hashes what has arrived and gives it its name.  So a
transport may break off anywhere, and the next one goes on at the same offset.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from ringrift.kernel.value import Value

CHUNK_BYTES_MAX = 1024 * 1024  #: The largest chunk that a transport yields.
BATCH_BLOB_BYTES_MAX = CHUNK_BYTES_MAX  #: The largest blob that goes with others in one stream.
OnBytes = Callable[[int], None]  #: Gets how many more bytes have arrived: progress, and a sign of life.
Source = Callable[[int], AsyncIterator[bytes]]  #: The bytes of a blob from an offset on, here.


class Endpoint(Value):
    """Where the files of *node* can be reached by *transport*."""

    node: str
    transport: str  #: ``local``, ``ssh``, ``rsync``, ``base64``, ``http`` or ``s3``.
    addresses: tuple[str, ...] = ()  #: In the order in which they are tried: a host, ``user@host``, or a URL.
    folder: str = ""  #: The blob folder there, for a transport that reads files by their path; empty: not needed.
    port: int = 0  #: That of ssh; 0: its default.
    identity: str = ""  #: The file of the private key to use; empty: the transport's default.
    host_keys: tuple[str, ...] = ()  #: The only public keys that the machine may show; empty: the transport's default.


@runtime_checkable
class Transport(Protocol):
    """One way to get bytes from a node.  Used from one event loop; nothing in it blocks the loop.

    Every verb raises NodeAway (or LinkBroken, Stalled, which are) if the node cannot be reached or the connection
    breaks, and NoRoute only if the node itself answers that it does not have the blob: the ledger forgets it then.
    """

    @property
    def name(self) -> str:
        """What it is called in plans, receipts and breakers."""

    def read(self, endpoint: Endpoint, blob: str, offset: int) -> AsyncIterator[bytes]:
        """The bytes of *blob* from *offset* on, in chunks of at most CHUNK_BYTES_MAX.  Not verified.

        Ends where the blob ends: a stream that was cut raises, it does not end.  Closing the iterator ends the
        connection.  Wrap it in :func:`ringrift.sync.stall.watch`.
        """


@runtime_checkable
class BatchTransport(Transport, Protocol):
    """A transport that sends many small blobs in one stream."""

    def read_batch(self, endpoint: Endpoint, blobs: Sequence[str]) -> AsyncIterator[tuple[str, bytes]]:
        """Each of *blobs* whole, in their order, one at a time in memory; those that are not there are left out.

        None may be larger than BATCH_BLOB_BYTES_MAX.  Not verified.
        """


@runtime_checkable
class FileTransport(Protocol):
    """A transport that writes the file itself: by the kernel, or by a program."""

    @property
    def name(self) -> str:
        """What it is called in plans, receipts and breakers."""

    async def append(self, endpoint: Endpoint, blob: str, part: Path, on_bytes: OnBytes) -> None:
        """Complete *part*, a file that has the first bytes of *blob* or none, and is no one else's meanwhile.

        Not verified, not flushed.  If it raises, *part* still holds a beginning of what was sent.
        """


@runtime_checkable
class PushTransport(Protocol):
    """A transport that can bring a blob to a node which runs nothing of ours but a server for it."""

    @property
    def name(self) -> str:
        """What it is called in plans, receipts and breakers."""

    async def push(self, endpoint: Endpoint, blob: str, size: int, source: Source, on_bytes: OnBytes) -> int:
        """Store *blob* there and return how many bytes were sent; goes on where an earlier push broke off.

        The other side hashes, flushes and renames before this returns.  Raises Corrupt if what arrived is not *blob*,
        and nothing has its name then; NoRoom if the disk there is full.
        """


@runtime_checkable
class CheckTransport(Protocol):
    """A transport that can ask the node to hash its copy: damage on the way is not damage of the copy."""

    async def is_good(self, endpoint: Endpoint, blob: str) -> bool:
        """Whether the copy of *blob* there matches its name.  Raises NoRoute if there is none."""


class LinkHealth(Protocol):
    """The breakers of links, one for each node and transport; a link whose breaker is open is not tried."""

    async def allows(self, node: str, transport: str) -> bool:
        """Whether a transfer may begin; while a breaker is half open, any of them may."""

    async def report(self, node: str, transport: str, error: str | None) -> None:
        """A transfer ended: None if the bytes arrived, otherwise why they did not."""


AnyTransport = Transport | FileTransport | PushTransport


class Endpoints(Protocol):
    """The ways to nodes.  A transfer tries pairs of a holder and a transport in order, and reports how each ended."""

    @property
    def transports(self) -> Mapping[str, AnyTransport]:
        """By name."""

    @property
    def health(self) -> LinkHealth:
        """The breaker of each pair."""

    async def find(self, node: str) -> Sequence[Endpoint]:
        """Where *node* can be reached, the best way first; empty: nowhere but by its folder."""

    def hubs(self) -> Sequence[str]:
        """The machines that hold copies and run nothing of ours."""
