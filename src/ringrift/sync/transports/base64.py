"""Streams over ssh as text, for links that change or drop bytes which are not."""

from binascii import Error, a2b_base64, b2a_base64
from collections.abc import AsyncIterator

from ringrift.kernel.wire_errors import LinkBroken
from ringrift.sync.transports.ports import CHUNK_BYTES_MAX, Endpoint
from ringrift.sync.transports.programs import Program
from ringrift.sync.transports.ssh import SshTransport

_LINE_BYTES = 57 * 1024  # a multiple of 3, so that no padding is inside, and of what a line of 76 characters holds


class Base64Transport(SshTransport):
    """The verbs of :class:`SshTransport`, a third more bytes, and not one that is not text."""

    name, _code = "base64", "base64"

    async def _decode(self, program: Program, endpoint: Endpoint, left: int) -> AsyncIterator[bytes]:
        text = b""
        while left > 0 and (piece := await program.output.read(CHUNK_BYTES_MAX)):
            text += piece.translate(None, b"\r\n")
            whole = min(len(text) // 4, -(-left // 3)) * 4  # what comes behind the end is not of the file
            try:
                chunk = a2b_base64(text[:whole], strict_mode=True)
            except Error as error:
                raise LinkBroken(endpoint.node, self.name, "the link changed bytes of the stream") from error
            text = text[whole:]
            left -= len(chunk)
            if chunk:
                yield chunk

    def _encode(self, chunk: bytes) -> bytes:
        pieces = (chunk[start : start + _LINE_BYTES] for start in range(0, len(chunk), _LINE_BYTES))
        return b"".join(map(b2a_base64, pieces))
