"""Requests, replies and notes as HTTP: fields are headers, bodies are raw MessagePack, notes are server-sent events.

``POST /wire/VERB`` carries a request.  With ``accept: text/event-stream`` its answer is a stream of notes.  A reply
that is nothing but a body is that body; any other is the whole :class:`Reply`, told apart by its content type.
"""

import binascii
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping

import msgspec

from ringrift.kernel.errors import TooLarge
from ringrift.kernel.wire_errors import WireError
from ringrift.wire.ports import BODY_BYTES_MAX, NOTE_BYTES_MAX, Reply, Request

PATH = b"/wire/"
BODY_TYPE, REPLY_TYPE, STREAM_TYPE = b"application/x-msgpack", b"application/x-ringrift-reply", b"text/event-stream"
REPLY_BYTES_MAX = BODY_BYTES_MAX + 64 * 1024  #: A reply with its text and detail.
_COMPRESS_BYTES_MIN = 1024
_COMPRESS_BYTES_MAX = 256 * 1024  # larger ones are pieces of files, compressed already, and the loop would stand still.
BEACON = b":\n\n"  #: A comment in a stream: the coordinator is there, and nothing has happened.
NOTE_END = b"\n\n"
EVENT_BYTES_MAX = NOTE_BYTES_MAX * 4 // 3 + 64
_ERROR_EVENT, _DATA = b"event: error\n", b"data: "
_STATUS = {
    "KeyRefused": b"401 Unauthorized",
    "Forbidden": b"403 Forbidden",
    "UnknownName": b"404 Not Found",
    "TooLarge": b"413 Content Too Large",
    "WireTooOld": b"426 Upgrade Required",
    "Backpressure": b"429 Too Many Requests",
    "Busy": b"503 Service Unavailable",
}
_encode, _decode_reply = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(Reply).decode


def encode_request(authority: str, request: Request, *, is_stream: bool, compress: bool) -> bytes:
    """*request* as bytes to send to *authority*; with *compress* the answer may be compressed too."""
    body = request.body
    if len(body) > BODY_BYTES_MAX:
        raise TooLarge(len(body), BODY_BYTES_MAX)
    lines = [f"POST /wire/{request.verb} HTTP/1.1", f"host: {authority}"]
    if request.node:
        lines.append(f"x-ringrift-node: {request.node}")
    if request.session:
        lines.append(f"x-ringrift-session: {request.session}")
    if request.number:
        lines.append(f"x-ringrift-number: {request.number}")
    if request.signature:
        lines.append(f"x-ringrift-signature: {b64encode(request.signature).decode()}")
    if request.trace:
        lines.append(f"traceparent: {request.trace}")
    if is_stream:
        lines.append("accept: text/event-stream")
    if compress:
        lines.append("accept-encoding: deflate")
        body, is_smaller = _compressed(body)
        if is_smaller:
            lines.append("content-encoding: deflate")
    if not all(line.isascii() and line.isprintable() for line in lines):
        raise WireError("a field of a request has a character that a header cannot have; nothing was sent")
    return "\r\n".join((*lines, f"content-length: {len(body)}", "", "")).encode() + body


def decode_request(target: bytes, headers: Mapping[bytes, bytes], body: bytes) -> Request:
    """The request that a message carries.  Raises WireError or TooLarge if it is none of ours."""
    try:
        number = headers.get(b"x-ringrift-number", b"0")
        if not number.isdigit() or len(number) > 18:
            raise WireError("x-ringrift-number must be a number of up to 18 digits")
        return Request(
            verb=target.removeprefix(PATH).decode("ascii"),
            body=_content(headers, body, BODY_BYTES_MAX),
            node=headers.get(b"x-ringrift-node", b"").decode("ascii"),
            session=headers.get(b"x-ringrift-session", b"").decode("ascii"),
            number=int(number),
            signature=b64decode(headers.get(b"x-ringrift-signature", b""), validate=True),
            trace=headers.get(b"traceparent", b"").decode("ascii"),
        )
    except (UnicodeDecodeError, binascii.Error) as error:
        raise WireError("a header of the request is not valid") from error


def encode_reply(reply: Reply, *, compress: bool = False, status: bytes = b"", close: bool = False) -> bytes:
    """*reply* as bytes; *status* replaces that of its error."""
    type, body = BODY_TYPE, reply.body
    if reply.error or reply.wait_seconds:
        type, body = REPLY_TYPE, _encode(reply)
    extra = b"connection: close\r\n" if close else b""
    if compress:
        body, is_smaller = _compressed(body)
        if is_smaller:
            extra += b"content-encoding: deflate\r\n"
    status = status or (_STATUS.get(reply.error, b"400 Bad Request") if reply.error else b"200 OK")
    head = b"HTTP/1.1 %b\r\ncontent-type: %b\r\ncontent-length: %d\r\ncache-control: no-store\r\n%b\r\n"
    return head % (status, type, len(body), extra) + body


def decode_reply(headers: Mapping[bytes, bytes], body: bytes | bytearray) -> Reply | None:
    """The reply that a message carries, or None if it comes from something else than a coordinator."""
    type = headers.get(b"content-type", b"")
    if type == BODY_TYPE:
        return Reply(body=_content(headers, body, BODY_BYTES_MAX))
    if type == REPLY_TYPE:
        return _decode_reply(_content(headers, body, REPLY_BYTES_MAX))
    return None


_STREAM_LINES = ("content-type: text/event-stream", "cache-control: no-store", "transfer-encoding: chunked")
STREAM_HEAD = "\r\n".join(("HTTP/1.1 200 OK", *_STREAM_LINES, "", "")).encode()


def encode_chunk(event: bytes) -> bytes:
    """*event* as a piece of a stream; an empty one ends it."""
    return b"%x\r\n%b\r\n" % (len(event), event)


def encode_note(note: bytes) -> bytes:
    """*note* as an event.  Raises TooLarge."""
    if len(note) > NOTE_BYTES_MAX:
        raise TooLarge(len(note), NOTE_BYTES_MAX)
    return _DATA + b64encode(note) + NOTE_END


def encode_failure(reply: Reply) -> bytes:
    """The error *reply* as the last event of a stream."""
    return _ERROR_EVENT + _DATA + b64encode(_encode(reply)) + NOTE_END


def decode_event(event: bytes) -> bytes | Reply | None:
    """The note in *event*, or the error that ends the stream, or None for a beacon."""
    is_failure = event.startswith(_ERROR_EVENT)
    data = event.removeprefix(_ERROR_EVENT).removeprefix(_DATA)
    if event.startswith(b":"):
        return None
    payload = b64decode(data, validate=True)
    return _decode_reply(payload) if is_failure else payload


def _compressed(body: bytes) -> tuple[bytes, bool]:
    """*body*, compressed where that pays, and whether it was."""
    if _COMPRESS_BYTES_MIN <= len(body) <= _COMPRESS_BYTES_MAX:
        smaller = zlib.compress(body, 1)
        if len(smaller) < len(body) * 0.9:
            return smaller, True
    return body, False


def _content(headers: Mapping[bytes, bytes], body: bytes | bytearray, bytes_max: int) -> bytes:
    """The content of *body*, of which no more than *bytes_max* is ever unpacked.  Raises WireError, TooLarge."""
    encoding = headers.get(b"content-encoding", b"")
    if not encoding:
        return bytes(body)
    if encoding != b"deflate":
        raise WireError(f"content-encoding {encoding[:40]!r} is not supported: use deflate or none")
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(body, bytes_max + 1)
    except zlib.error as error:
        raise WireError(f"the body does not unpack: {error}") from error
    if len(content) > bytes_max:
        raise TooLarge(len(content), bytes_max)
    if not unpacker.eof or unpacker.unused_data:
        raise WireError("the compressed body is cut off, or something follows it")
    return content
