"""The connection of a worker, which knows for how long nobody has answered, and when it has to end."""

import asyncio
from typing import Any, TypeVar

from ringrift.kernel.clock import Clock
from ringrift.kernel.value import Value
from ringrift.kernel.wire_errors import KeyRefused
from ringrift.wire.connection import Connection

_STOP_SECONDS_MAX = 0.5  # how long one that stops waits for an answer, if there was none to the last request
T = TypeVar("T", bound=Value)


class WorkerConnection(Connection):
    """A :class:`Connection` for as long as its worker runs."""

    def __init__(self, clock: Clock, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._clock, self._answered_at = clock, clock.tick()
        self.is_stopping = False  #: Then nobody waits for a coordinator that is away.
        self.has_left = False  #: Whether a coordinator has heard its goodbye.
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Fails when the coordinator refuses its key."""
        self.ended.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # it may interest nobody

    async def call(self, verb: str, body: Value, answer: type[T], *, seconds_max: float = 10.0) -> T:
        """As of every connection; and a key that is refused ends the worker."""
        if self.is_stopping and not self.ready:
            seconds_max = min(seconds_max, _STOP_SECONDS_MAX)
        try:
            value = await super().call(verb, body, answer, seconds_max=seconds_max)
        except KeyRefused as error:
            if not self.ended.done():
                self.ended.set_exception(error)
            raise
        self._answered_at = self._clock.tick()
        return value

    def is_silent(self, seconds: float) -> bool:
        """Whether no coordinator has answered for *seconds*."""
        return self._clock.tick() - self._answered_at >= seconds
