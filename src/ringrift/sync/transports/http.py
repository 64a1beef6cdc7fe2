"""Files over the wire in pieces, some of which are asked for ahead, so that a link with a long way is full.

Between peers TLS trusts the authority of that one peer, as the coordinator named it, and a ticket says what is read.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from functools import partial
from typing import Any

import msgspec

from ringrift.kernel.errors import NoRoute, RingriftError
from ringrift.kernel.wire_errors import LinkBroken, raise_from_reply
from ringrift.sync.blob_messages import BlobPiece, BlobSource, PeerRead
from ringrift.wire.ports import CHUNK_BYTES, Request, Wire

_NAME = "http"
_AHEAD = 4  # pieces that are asked for at once
_PIECE_SECONDS_MAX = 30.0  # a link that is slower than a piece in that time is given up: another peer may be faster
_WIRES_MAX = 32  # authorities of peers whose connections are kept
_ENCODER = msgspec.msgpack.Encoder()


async def read_pieces(
    node: str, ask: Callable[[int], Coroutine[Any, Any, BlobPiece]], offset: int
) -> AsyncGenerator[BlobPiece, None]:
    """The pieces of a file of *node* from *offset* on, in order, not verified; *ask* gets the one at an offset.

    Raises LinkBroken if they do not fit together.
    """
    first = await ask(offset)
    yield first
    offset += len(first.data)
    loop, pending = asyncio.get_running_loop(), deque[asyncio.Task[BlobPiece]]()
    ahead = offset
    try:
        while first.data and offset < first.total:
            while len(pending) < _AHEAD and ahead < first.total:
                pending.append(loop.create_task(ask(ahead), name=f"piece:{ahead}"))
                ahead += CHUNK_BYTES
            piece = await pending.popleft()
            if not piece.data or piece.total != first.total:
                raise LinkBroken(node, _NAME, "it sent less than the file has")
            offset += len(piece.data)
            if len(piece.data) < CHUNK_BYTES and offset < first.total:
                await _cancel(pending)  # it had no more yet: what was asked for ahead is not what follows
                ahead = offset
            yield piece
    finally:
        await _cancel(pending)


class PeerReader:
    """Reads from peers as the node whose key *sign* uses; *open_wire* makes a wire that trusts one authority."""

    def __init__(self, node: str, sign: Callable[[Request], Request], open_wire: Callable[[str], Wire]) -> None:
        self._node, self._sign, self._open_wire = node, sign, open_wire
        self._wires: OrderedDict[str, Wire] = OrderedDict()  # by authority

    def pieces(self, source: BlobSource, blob: str, offset: int) -> AsyncGenerator[BlobPiece, None]:
        """The pieces of *blob* from *offset* on, in order, not verified.  Raises LinkBroken, NoRoute from the peer."""
        return read_pieces(source.node, partial(self._ask, source, blob), offset)

    async def _ask(self, source: BlobSource, blob: str, offset: int) -> BlobPiece:
        body = _ENCODER.encode(PeerRead(blob=blob, offset=offset, size=CHUNK_BYTES, ticket=source.ticket))
        request = self._sign(Request(verb="blob.read", body=body, node=self._node, number=offset + 1))
        try:
            reply = await self._wire(source.ca).request(source.address, request, _PIECE_SECONDS_MAX)
            if reply.error:
                raise_from_reply(reply.error, reply.text, reply.detail)
            piece = msgspec.msgpack.decode(reply.body, type=BlobPiece)
        except NoRoute:
            raise
        except (RingriftError, msgspec.MsgspecError) as error:
            raise LinkBroken(source.node, _NAME, str(error)) from error
        if len(piece.data) > CHUNK_BYTES or not 0 <= offset + len(piece.data) <= max(piece.total, offset):
            raise LinkBroken(source.node, _NAME, "its answer does not fit the question")
        return piece

    def _wire(self, ca: str) -> Wire:
        if ca not in self._wires:
            self._wires[ca] = self._open_wire(ca)
            if len(self._wires) > _WIRES_MAX:
                self._wires.popitem(last=False)[1].close()
        self._wires.move_to_end(ca)
        return self._wires[ca]

    def close(self) -> None:
        """End the connections that rest."""
        for wire in self._wires.values():
            wire.close()
        self._wires.clear()


async def _cancel(tasks: "deque[asyncio.Task[BlobPiece]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    tasks.clear()
