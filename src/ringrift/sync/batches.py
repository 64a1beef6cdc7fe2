"""Fetches many small blobs in few streams, which become packs: a file for each would cost more than its bytes."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence

from ringrift.kernel.errors import TransferError
from ringrift.kernel.transfer_settings import LinkSettings
from ringrift.kernel.wire_errors import Stalled
from ringrift.sync.receive import Take
from ringrift.sync.transports.ports import BATCH_BLOB_BYTES_MAX, BatchTransport, Endpoint, OnBytes

BATCH_MIN = 8  #: Fewer blobs of one holder are fetched one by one.
_BATCH_MAX, _BATCH_BYTES_MAX = 4096, 256 * 1024 * 1024  # of one stream


def group(blobs: Iterable[str], copies: Mapping[str, tuple[Sequence[str], int]], here: str) -> dict[str, list[str]]:
    """Those of *blobs* that are small, by the holder that has most of them; *copies* has their holders and sizes."""
    small = {blob: copies[blob][0] for blob in blobs if 0 < copies[blob][1] <= BATCH_BLOB_BYTES_MAX}
    counts = dict[str, int]()
    for holders in small.values():
        for holder in holders:
            counts[holder] = counts.get(holder, 0) + 1
    groups = dict[str, list[str]]()
    for blob, holders in small.items():
        usual = max((node for node in holders if node != here), key=lambda node: (counts[node], node), default="")
        if usual:
            groups.setdefault(usual, []).append(blob)
    return {holder: names for holder, names in groups.items() if len(names) >= BATCH_MIN}


def split(blobs: Sequence[str], sizes: Mapping[str, int]) -> list[list[str]]:
    """*blobs* in streams that are neither too many nor too large."""
    streams, size = list[list[str]](), 0
    for blob in blobs:
        if not streams or len(streams[-1]) == _BATCH_MAX or size + sizes[blob] > _BATCH_BYTES_MAX:
            streams.append([])
            size = 0
        streams[-1].append(blob)
        size += sizes[blob]
    return streams


class Stream:
    """Some blobs of one holder in one stream.  If it breaks it ends, and *error* tells why: what has come counts."""

    def __init__(self, transport: BatchTransport, endpoint: Endpoint, place: Take, limits: LinkSettings) -> None:
        self._transport, self._endpoint, self._place, self._limits = transport, endpoint, place, limits
        self.error: TransferError | None = None

    async def read(self, blobs: Sequence[str], on_bytes: OnBytes) -> AsyncIterator[tuple[str, bytes]]:
        """*blobs* as they come, not verified."""
        items = self._transport.read_batch(self._endpoint, blobs)
        try:
            while (item := await self._next(items)) is not None:
                await self._place.take(len(item[1]))
                on_bytes(len(item[1]))
                yield item
        except TransferError as error:
            self.error = error
        finally:
            if isinstance(items, AsyncGenerator):
                await items.aclose()

    async def _next(self, items: AsyncIterator[tuple[str, bytes]]) -> tuple[str, bytes] | None:
        seconds = self._limits.silence_seconds_max
        try:
            async with asyncio.timeout(seconds):
                return await anext(items, None)
        except TimeoutError as error:
            raise Stalled(self._endpoint.node, self._endpoint.transport, f"no bytes for {seconds:g} s") from error
