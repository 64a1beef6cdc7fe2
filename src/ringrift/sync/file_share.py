"""What a worker shares: it reports which files it has, fetches the models that it will need, and serves its peers."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from ringrift.blobs.ports import Blobs
from ringrift.cluster.peers import READY_MAX
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import TRANSIENT, TransferError, UnknownName
from ringrift.kernel.wire_errors import Forbidden
from ringrift.sync.blob_messages import FindIssuers, Issuers, ReadyBlobs, WantedBlobs
from ringrift.sync.peer_service import PeerService
from ringrift.sync.remote_blobs import BlobCache
from ringrift.sync.shaper import Shaper
from ringrift.sync.wants import TransferClass
from ringrift.wire.connection import Connection
from ringrift.wire.ports import Wire

_SECONDS = 5.0  # between two reports if nothing has changed, and two signs of life
_ISSUERS_SECONDS_MAX = 3.0  # a peer waits for the answer


class FileShare:
    """The share of one worker in the files of all."""

    def __init__(
        self, connection: Connection, blobs: Blobs, cache: BlobCache, clock: Clock, shaper: Shaper | None = None
    ) -> None:
        self._connection, self._cache = connection, cache
        self._address, self._ca = "", ""
        self._models: Sequence[str] = ()
        self._news = asyncio.Event()
        self.service = PeerService(connection.node, blobs, cache, clock, self._find_issuers, shaper)

    async def _find_issuers(self) -> Sequence[bytes]:
        ask, seconds = FindIssuers(), _ISSUERS_SECONDS_MAX
        return (await self._connection.call("blob.issuers", ask, Issuers, seconds_max=seconds)).keys

    async def report(self) -> None:
        """Report what is ready here, and learn what should be."""
        blobs = self._cache.ready(READY_MAX)
        body = ReadyBlobs(blobs=blobs, address=self._address, ca=self._ca)
        try:
            models = (await self._connection.call("blob.ready", body, WantedBlobs)).blobs
        except UnknownName:  # a coordinator of an earlier version
            return
        if set(models) != set(self._models):
            self._news.set()
        self._models = models

    async def run(self, alive: Callable[[], None]) -> None:
        """Report for ever, at once when something has changed."""
        while True:
            alive()
            self._cache.changed.clear()
            with suppress(*TRANSIENT):
                await self.report()
            await _wait(self._cache.changed, _SECONDS)

    async def prefetch(self, alive: Callable[[], None]) -> None:
        """Fetch what is wanted, for ever; meanwhile jobs go on with what they have."""
        while True:
            alive()
            self._news.clear()
            for blob in self._models:
                with suppress(TransferError, Forbidden, *TRANSIENT):  # it is not wanted any more, or later
                    await self._cache.fetch([blob], alive, TransferClass.CHAMPION)
            await _wait(self._news, _SECONDS)

    async def serve(self, wire: Wire, address: str, ca: str, alive: Callable[[], None]) -> None:
        """Serve peers at *address* until cancelled; *ca* is the authority that they trust there."""
        async with wire.serve(address, self.service) as reachable:
            self._address, self._ca = reachable, ca
            self._cache.changed.set()
            try:
                while True:
                    alive()
                    await asyncio.sleep(_SECONDS)
            finally:
                self._address = ""
                self._cache.changed.set()


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
