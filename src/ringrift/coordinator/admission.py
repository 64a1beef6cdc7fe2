"""Admission: how many requests run and wait at once, and that urgent ones go first."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ringrift.kernel.errors import Backpressure

_WAIT_SECONDS_MIN, _WAIT_SECONDS_MAX = 0.1, 10.0
_WEIGHT = 0.1  # of the latest request in the mean time that one takes


class Admission:
    """Lets *running_max* requests run; up to *waiting_max* wait, of which half are for urgent ones alone.

    A quarter of the places to run are for urgent ones alone, so that slow claims never hold up a heartbeat.
    """

    def __init__(self, running_max: int, waiting_max: int) -> None:
        self._running_max, self._waiting_max = running_max, waiting_max
        self._ordinary_max = max(1, running_max * 3 // 4)
        self._running = self._ordinary = 0
        self._urgent_waiting: deque[asyncio.Future[None]] = deque()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._seconds = 0.001  # that one request takes, at the rate at which they end

    @property
    def wait_seconds(self) -> float:
        """How long a caller should wait before it asks again: until those that wait now have been answered."""
        seconds = self._seconds * (len(self._waiting) + len(self._urgent_waiting)) / self._running_max
        return min(max(seconds, _WAIT_SECONDS_MIN), _WAIT_SECONDS_MAX)

    @asynccontextmanager
    async def admit(self, *, urgent: bool) -> AsyncIterator[None]:
        """Run the body when there is a place for it.  Raises Backpressure if too many wait already."""
        await self._enter(urgent)
        begun = asyncio.get_running_loop().time()
        try:
            yield
        finally:
            self._seconds += _WEIGHT * (asyncio.get_running_loop().time() - begun - self._seconds)
            self._leave(urgent)

    async def _enter(self, urgent: bool) -> None:
        if self._has_place(urgent):
            self._take(urgent)
            return
        queue = self._urgent_waiting if urgent else self._waiting
        if len(queue) >= self._waiting_max // 2:
            raise Backpressure("requests at the coordinator", self._waiting_max // 2)
        place = asyncio.get_running_loop().create_future()
        queue.append(place)
        try:
            await place  # whoever leaves has taken the place for it
        except asyncio.CancelledError:
            if not place.cancelled():  # it was given a place just before
                self._leave(urgent)
            elif place in queue:
                queue.remove(place)
            raise

    def _has_place(self, urgent: bool) -> bool:
        if urgent:
            return self._running < self._running_max and not self._urgent_waiting
        return self._can_run_ordinary() and not (self._waiting or self._urgent_waiting)

    def _can_run_ordinary(self) -> bool:
        return self._running < self._running_max and self._ordinary < self._ordinary_max

    def _take(self, urgent: bool) -> None:
        self._running += 1
        self._ordinary += not urgent

    def _leave(self, urgent: bool) -> None:
        self._running -= 1
        self._ordinary -= not urgent
        while self._urgent_waiting and self._running < self._running_max:
            self._pass(self._urgent_waiting, urgent=True)
        while self._waiting and self._can_run_ordinary():
            self._pass(self._waiting, urgent=False)

    def _pass(self, queue: deque[asyncio.Future[None]], *, urgent: bool) -> None:
        place = queue.popleft()
        if not place.done():
            place.set_result(None)
            self._take(urgent)
