"""Shaper: every transfer of a process asks it for a place and for its bytes; the arithmetic is in :mod:`.bandwidth`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import count

from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import TRANSIENT, Backpressure, Busy
from ringrift.kernel.transfer_settings import BandwidthSettings
from ringrift.sync.bandwidth import Links, Piece, Rates, Schedule, rank_of, total_rate

_WAITING_MAX = 1000
_REFRESH_SECONDS = 1.0  # between two looks at the timetable and at what programs have reserved
_Reserved = Callable[[], Awaitable[Mapping[str, float]]]  #: Bytes a second that others have reserved, by host.


class _Place:
    """The right of one transfer to move bytes.  It goes to others when it was not used for its time."""

    def __init__(self, shaper: "Shaper", host: str, transfer_class: str, number: int, tick: float) -> None:
        self.host, self.transfer_class, self.number = host, transfer_class, number
        self.used = tick  #: The tick of its last bytes.
        self.is_taking = False
        self.links: Links = (("total", ""), ("host", host), ("class", transfer_class), ("own", str(number)))
        self._shaper = shaper

    async def take(self, size: int) -> None:
        """Return when *size* more bytes may pass.  A place that has expired meanwhile is waited for again."""
        await self._shaper.pass_bytes(self, size)


class Shaper:
    """Places by class, so many for each host and in all, and the rates of *settings*, within which bytes pass."""

    def __init__(self, settings: BandwidthSettings, clock: Clock, reserved: _Reserved | None = None) -> None:
        self._settings, self._clock, self._reserved = settings, clock, reserved
        self._rates = Rates(settings, total_rate(settings, clock.now()))
        self._schedule, self._numbers = Schedule(self._rates), count(1)
        self._open: dict[int, _Place] = {}
        self._waiting: dict[int, tuple[_Place, asyncio.Future[None]]] = {}
        self._passing: dict[Piece, asyncio.Future[None]] = {}
        self._paying = 0  # pieces without a place
        self._timer: asyncio.TimerHandle | None = None
        self._refreshed = float("-inf")

    @asynccontextmanager
    async def place(self, host: str, transfer_class: str, rate_max: float = 0.0) -> AsyncIterator[_Place]:
        """Wait for a place to move files to or from *host*, at *rate_max* bytes a second; 0 is no limit.

        Raises Backpressure if too many wait already.
        """
        place = _Place(self, host, transfer_class, next(self._numbers), self._clock.tick())
        self._rates.own[str(place.number)] = rate_max
        try:
            await self._wait_for(place)
            yield place
        finally:
            self._open.pop(place.number, None)
            del self._rates.own[str(place.number)]
            self._schedule.drop(place.links[-1:])  # the others count for all
            self._grant()

    async def pay(self, host: str, transfer_class: str, size: int, waiting_max: int) -> None:
        """Return when a piece of a transfer that another process has begun may pass; it needs no place.

        Raises Busy if *waiting_max* others wait already.
        """
        await self._refresh()
        links = (("total", ""), ("host", host), ("class", transfer_class))
        if size and self._rates.limited(links):
            if self._paying >= waiting_max:
                raise Busy("bandwidth", f"{waiting_max} pieces of files wait for it")
            self._paying += 1
            try:
                await self._pass(Piece(transfer_class, links, size))
            finally:
                self._paying -= 1

    async def pass_bytes(self, place: _Place, size: int) -> None:
        """As :meth:`_Place.take`."""
        if place.number not in self._open:
            await self._wait_for(place)
        place.is_taking = True
        try:
            await self._refresh()
            for piece_size in self._rates.pieces(size, place.links):
                if self._rates.limited(place.links):
                    await self._pass(Piece(place.transfer_class, place.links, piece_size))
                    await self._refresh()
        finally:
            place.is_taking, place.used = False, self._clock.tick()

    async def _refresh(self) -> None:
        tick = self._clock.tick()
        if tick - self._refreshed < _REFRESH_SECONDS:
            return
        self._refreshed = tick
        self._rates.total = total_rate(self._settings, self._clock.now())
        limits = (self._rates.total, self._settings.host_bytes_per_second, *self._settings.hosts.values())
        if self._reserved is not None and any(limits):  # else there is nothing to share
            with suppress(*TRANSIENT):  # a store that is busy holds up no bytes; the next look reads it
                self._rates.reserved = await self._reserved()

    async def _pass(self, piece: Piece) -> None:
        passed = self._passing[piece] = asyncio.get_running_loop().create_future()
        self._schedule.add(piece, self._clock.tick())
        self._pump()
        try:
            await passed
        finally:
            del self._passing[piece]
            self._schedule.remove(piece)

    def _pump(self) -> None:
        """Start the pieces whose turn it is, and come back when the next can begin."""
        loop, tick = asyncio.get_running_loop(), self._clock.tick()
        for piece in self._schedule.start(tick):
            _resolve(self._passing[piece])
        if self._timer is not None:
            self._timer.cancel()
        next_tick = self._schedule.next_tick()
        # A rate may have grown meanwhile, so it looks again soon.
        delay = None if next_tick is None else min(max(next_tick - tick, 0.0), _REFRESH_SECONDS)
        self._timer = None if delay is None else loop.call_later(delay, self._pump)

    async def _wait_for(self, place: _Place) -> None:
        if len(self._waiting) >= _WAITING_MAX:
            raise Backpressure("transfers that wait for a place", _WAITING_MAX)
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[place.number] = place, granted
        try:
            while not granted.done():
                self._grant()
                # What is unused may expire while this waits.
                await asyncio.wait((granted,), timeout=self._expiry_delay())
        finally:
            del self._waiting[place.number]

    def _expiry_delay(self) -> float:
        used = min((place.used for place in self._open.values() if not place.is_taking), default=self._clock.tick())
        return max(used + self._settings.expiry_seconds - self._clock.tick(), 0.01)

    def _grant(self) -> None:
        """Give free places to those that wait: by class, and first those that wait longest."""
        tick = self._clock.tick()
        queue = sorted(self._waiting.values(), key=lambda row: (rank_of(row[0].transfer_class), row[0].number))
        for place, granted in queue:
            if not granted.done() and self._has_room(place.host, tick):
                place.used = tick
                self._open[place.number] = place
                granted.set_result(None)

    def _has_room(self, host: str, tick: float) -> bool:
        """Whether one more transfer may begin; a place that was not used for its time makes room if it is needed."""
        if self._is_free(host):
            return True
        limit = self._settings.expiry_seconds
        expired = [place for place in self._open.values() if not place.is_taking and tick - place.used >= limit]
        for place in expired:
            del self._open[place.number]
        return bool(expired) and self._is_free(host)

    def _is_free(self, host: str) -> bool:
        per_host = sum(place.host == host for place in self._open.values())
        return len(self._open) < self._settings.transfers_max and per_host < self._settings.transfers_per_host_max


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
