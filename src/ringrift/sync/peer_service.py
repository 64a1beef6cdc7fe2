"""What a node that serves answers its peers: pieces of the files that it has or is receiving, to whoever has a ticket.

It has no store and no list of keys.  The coordinator says whose tickets are valid, and a ticket says whose requests.
"""

import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import msgspec

from ringrift.blobs.ports import Blobs
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import TRANSIENT, Busy, InputError, InvalidPayload, NodeAway, RingriftError, UnknownName
from ringrift.kernel.ids import check_blob
from ringrift.kernel.wire_errors import KeyRefused, WireError
from ringrift.sync.blob_messages import BlobPiece, PeerRead
from ringrift.sync.remote_blobs import BlobCache
from ringrift.sync.shaper import Shaper
from ringrift.sync.tickets import Ticket, open_ticket
from ringrift.sync.wants import TransferClass
from ringrift.wire.keys import NOT_SIGNED, PublicKey
from ringrift.wire.ports import CHUNK_BYTES, Reply, Request, error_reply

_VERB = "blob.read"
_READS_MAX = 32  # at once
_BUSY_SECONDS = 0.5
_ISSUERS_SECONDS = 5.0  # after which the coordinator is asked again whose tickets are valid
_ISSUERS_SECONDS_MAX = 60.0  # how long its last answer counts while it is away
_ISSUERS_SECONDS_MIN = 0.5  # between two questions because of a ticket by a key that is not known yet
_TICKETS_MAX = 256
_ENCODER = msgspec.msgpack.Encoder()
log = logging.getLogger(__name__)


class PeerService:
    """The :class:`ringrift.wire.ports.Service` of *node*, which serves *blobs* and what its *cache* is fetching."""

    def __init__(
        self,
        node: str,
        blobs: Blobs,
        cache: BlobCache,
        clock: Clock,
        find: Callable[[], Awaitable[Sequence[bytes]]],
        shaper: Shaper | None = None,
    ) -> None:
        """*find* asks the coordinator whose tickets are valid."""
        self._node, self._blobs, self._cache, self._clock, self._find = node, blobs, cache, clock, find
        self._shaper = shaper
        self._issuers: Sequence[bytes] = ()
        self._asked_at = self._answered_at = float("-inf")
        self._tickets: OrderedDict[bytes, tuple[Ticket, PublicKey]] = OrderedDict()  # those that were found valid
        self._reads = 0
        self.bytes_sent = 0

    async def answer(self, request: Request) -> Reply:
        """Answer *request*.  Never raises: an error is a reply."""
        try:
            return await self._answer(request)
        except TRANSIENT as error:
            return error_reply(error, wait_seconds=_BUSY_SECONDS)
        except RingriftError as error:
            return error_reply(error)
        except Exception:  # a mistake of ours: the caller learns that, the log has the rest
            log.exception("a read of node %r failed", request.node[:80])
            return error_reply(WireError("the read failed: see the log of the node"))

    async def notes(self, request: Request) -> AsyncIterator[bytes]:
        """A peer has no streams."""
        raise UnknownName("stream", request.verb, ())
        yield b""

    async def _answer(self, request: Request) -> Reply:
        if request.verb != _VERB:
            raise UnknownName("verb of a peer", request.verb, (_VERB,))
        try:
            body = msgspec.msgpack.decode(request.body, type=PeerRead)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InvalidPayload(f"body of {_VERB}", str(error)) from error
        check_blob(body.blob)
        if body.offset < 0:
            raise InputError(f"a piece of {body.blob:.12} begins at {body.offset}: at 0 or later")
        await self._require_ticket(request, body)
        if self._reads >= _READS_MAX:
            raise Busy(f"node {self._node}", f"{_READS_MAX} peers read at once")
        self._reads += 1
        try:
            piece = await self._read(body.blob, body.offset, min(max(body.size, 0), CHUNK_BYTES))
            if self._shaper is not None:
                await self._shaper.pay(request.node, TransferClass.CHAMPION, len(piece.data), _READS_MAX)
        finally:
            self._reads -= 1
        self.bytes_sent += len(piece.data)
        return Reply(body=_ENCODER.encode(piece))

    async def _read(self, blob: str, offset: int, size: int) -> BlobPiece:
        """A piece of a file that is here, or of one that is on its way, once it has come."""
        piece = await self._cache.read_coming(blob, offset, size)
        if piece is not None:
            return piece
        data, total = await self._blobs.read_piece(blob, offset, size)
        return BlobPiece(data=data, total=total)

    async def _require_ticket(self, request: Request, body: PeerRead) -> None:
        """Raise KeyRefused unless *body* has a valid ticket of the node that has signed *request*, for this file."""
        tick = self._clock.tick()
        if tick - self._asked_at >= _ISSUERS_SECONDS:
            await self._ask_issuers(tick)
        checked = self._tickets.get(body.ticket)
        if checked is None:
            try:
                ticket = open_ticket(body.ticket, self._issuers)
            except KeyRefused:
                if tick - self._asked_at < _ISSUERS_SECONDS_MIN:
                    raise
                await self._ask_issuers(tick)
                ticket = open_ticket(body.ticket, self._issuers)
            checked = self._tickets[body.ticket] = ticket, PublicKey(ticket.public)
            if len(self._tickets) > _TICKETS_MAX:
                self._tickets.popitem(last=False)
        ticket, public = checked
        if (ticket.holder, ticket.reader, ticket.blob) != (self._node, request.node, body.blob):
            raise KeyRefused(request.node, "its ticket is for another file or node")
        if not public.has_signed(request):
            raise KeyRefused(request.node, NOT_SIGNED)

    async def _ask_issuers(self, tick: float) -> None:
        """Ask whose tickets are valid; while nobody answers, the last answer counts for a while."""
        self._asked_at = tick
        try:
            issuers = await self._find()
            self._answered_at = self._clock.tick()
        except NodeAway:
            issuers = self._issuers if tick - self._answered_at < _ISSUERS_SECONDS_MAX else ()
        if set(issuers) != set(self._issuers):
            self._tickets.clear()
        self._issuers = issuers
