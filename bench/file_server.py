"""A node that serves files to peers, as a process of its own: ``python -m bench.file_server FOLDER ISSUER [CERT]``.

It prints its address, and ends with its standard input.  ISSUER is the public key, in hex, whose tickets are valid.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

from ringrift.blobs.folder import FolderBlobs
from ringrift.kernel.clock import SystemClock
from ringrift.kernel.settings import WireSettings
from ringrift.sync.blob_messages import BlobSource
from ringrift.sync.peer_service import PeerService
from ringrift.sync.remote_blobs import BlobCache
from ringrift.sync.tickets import Ticket, TicketIssuer
from ringrift.sync.transports.http import PeerReader
from ringrift.wire.connection import Connection
from ringrift.wire.keys import SigningKey
from ringrift.wire.open import open_wire
from ringrift.wire.tls import make_certificates

NODE, READER = "far", "here"
_NOWHERE = "127.0.0.1:1"


@contextmanager
def open_peer(root: Path, blob: str, certs: Path | None) -> Iterator[tuple[PeerReader, BlobSource]]:
    """A reader, and where it may read *blob* of the folder *root*; with *certs* over TLS."""
    key, issuer = SigningKey.make(READER, Random(1)), TicketIssuer(SystemClock(), Random(2))
    [public] = issuer.public_keys(0)
    command = [sys.executable, "-m", "bench.file_server", str(root), public.hex()]
    authority = ""
    if certs is not None:
        cert, _ = make_certificates(certs, ["127.0.0.1"], SystemClock().now(), 1)
        authority = (certs / "ca.pem").read_text()
        command.append(str(cert))
    ticket = issuer.issue(Ticket(holder=NODE, reader=READER, public=key.public, blob=blob), 0)
    with ExitStack() as stack:
        server = stack.enter_context(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        assert server.stdin is not None
        assert server.stdout is not None
        stack.callback(server.stdin.close)
        address = server.stdout.readline().strip()
        reader = PeerReader(READER, key.sign, lambda ca: open_wire(WireSettings(), authority=ca))
        yield reader, BlobSource(node=NODE, address=address, ca=authority, ticket=ticket)


async def _serve(root: str, issuer: bytes, cert: str) -> None:
    own = {"cert": cert, "key": f"{cert.removesuffix('.pem')}.key"} if cert else {}
    wire, clock, blobs = open_wire(WireSettings(**own)), SystemClock(), FolderBlobs(root, NODE)
    connection = Connection(wire, [_NOWHERE], SigningKey.make(NODE, Random(3)), Random(4), boot="b")

    async def find() -> Sequence[bytes]:
        return [issuer]

    service = PeerService(NODE, blobs, BlobCache(connection, blobs, clock), clock, find)
    async with wire.serve("127.0.0.1:0", service) as address:
        print(address, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], bytes.fromhex(sys.argv[2]), "".join(sys.argv[3:])))
