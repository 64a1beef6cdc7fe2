"""What workers, the coordinator and peers ask each other about files."""

from ringrift.kernel.value import Value
from ringrift.wire.ports import CHUNK_BYTES

BLOBS_MAX = 64  #: Files in one question: those that are there are read and hashed.
SMALL_BYTES_MAX = CHUNK_BYTES // 4  #: The largest file that comes with others.


class HaveBlobs(Value):
    """`blob.have`: which of *blobs* the coordinator has."""

    blobs: tuple[str, ...]


class PresentBlobs(Value):
    """Those that it has."""

    blobs: tuple[str, ...] = ()


class ReadBlob(Value):
    """`blob.read`: up to *size* bytes of *blob* from *offset* on, at most CHUNK_BYTES.  Raises NoRoute."""

    blob: str
    offset: int
    size: int


class BlobPiece(Value):
    """A piece of a blob; a piece without data is behind its end."""

    data: bytes
    total: int  #: Bytes of the whole blob.


class ReadBlobs(Value):
    """`blob.read_many`: *blobs* whole, where they are small."""

    blobs: tuple[str, ...]


class BlobFiles(Value):
    """The *files* among the first *count* of those that were asked for; the others come by `blob.read`."""

    files: tuple[tuple[str, bytes], ...]  #: Names and bytes.
    count: int


class WriteBlob(Value):
    """`blob.write`: append *data*, which begins at *offset*, to what the node that asks has uploaded of *blob*.

    With the last piece the whole is hashed and stored durably.  Raises Corrupt, and then the upload begins anew.
    """

    blob: str
    total: int
    offset: int
    data: bytes


class BlobReceipt(Value):
    """How many bytes have been received: the next piece begins there.  *done*: verified and durable."""

    offset: int
    done: bool = False


class ReadyBlobs(Value):
    """`blob.ready`: the files that the node has verified, and where it serves them to peers, if it does."""

    blobs: tuple[str, ...] = ()
    address: str = ""
    ca: str = ""


class WantedBlobs(Value):
    """The models that the node should have before a job names them, the rarest first."""

    blobs: tuple[str, ...] = ()


class FindIssuers(Value):
    """`blob.issuers`: whose tickets are valid."""


class Issuers(Value):
    """Public keys of the coordinator."""

    keys: tuple[bytes, ...] = ()


class FindBlob(Value):
    """`blob.find`: from where the node should read *blob*; *failed* are peers that did not send it."""

    blob: str
    failed: tuple[str, ...] = ()


class BlobSource(Value):
    """A peer and a ticket for it; without a *node* the coordinator itself, or, with *wait_seconds*, to ask again."""

    node: str = ""
    address: str = ""
    ca: str = ""
    ticket: bytes = b""
    wait_seconds: float = 0.0


class PeerRead(Value):
    """`blob.read` of a peer: up to *size* bytes of *blob* from *offset* on, by a ticket.  Its answer is a BlobPiece."""

    blob: str
    offset: int
    size: int
    ticket: bytes
