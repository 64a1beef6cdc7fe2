"""Hubs: machines that hold copies and run nothing of ours; a transport tells whether one is there, and its room."""

import asyncio
from collections.abc import Mapping
from math import inf
from typing import Protocol, runtime_checkable

from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import TransferError
from ringrift.sync.transports.ports import Endpoint, Endpoints

_MEASURED_SECONDS = 20.0  # how long a measurement counts: a job for each file must not ask each time


@runtime_checkable
class _RoomTransport(Protocol):
    """A transport that can ask how much room there is."""

    async def room(self, endpoint: Endpoint) -> int:
        """Free bytes of the disk there.  Raises NodeAway."""


class Hubs:
    """The hubs that *endpoints* know."""

    def __init__(self, endpoints: Endpoints | None, clock: Clock) -> None:
        self._endpoints, self._clock = endpoints, clock
        self._rooms, self._tick = dict[str, int | None](), -inf
        self._lock = asyncio.Lock()

    async def rooms(self) -> Mapping[str, int | None]:
        """The free bytes of each hub; None if it cannot be reached."""
        async with self._lock:
            if self._endpoints is not None and self._clock.tick() - self._tick >= _MEASURED_SECONDS:
                names = self._endpoints.hubs()
                rooms = await asyncio.gather(*(self._room(self._endpoints, name) for name in names))
                self._rooms, self._tick = dict(zip(names, rooms, strict=True)), self._clock.tick()
            return self._rooms

    async def _room(self, endpoints: Endpoints, hub: str) -> int | None:
        for endpoint in await endpoints.find(hub):
            transport = endpoints.transports[endpoint.transport]
            if isinstance(transport, _RoomTransport):
                try:
                    return await transport.room(endpoint)
                except TransferError:
                    continue  # the next way may work
        return None
