"""Requests that come close together wait a moment for each other, so that one commit makes all of them durable."""

import asyncio

_SECONDS = 0.04


class Together:
    """A gate that opens every _SECONDS at most: whoever comes alone passes at once."""

    def __init__(self) -> None:
        self._opened = float("-inf")
        self._next: asyncio.Future[None] | None = None

    async def wait(self) -> None:
        """Return at the next opening."""
        loop = asyncio.get_running_loop()
        if self._next is None:
            if loop.time() - self._opened >= _SECONDS:
                self._opened = loop.time()
                return
            self._next = loop.create_future()
            loop.call_at(self._opened + _SECONDS, self._open, self._next)
        await asyncio.wait((self._next,))  # not awaited itself: whoever is cancelled leaves it to the others

    def _open(self, waited: "asyncio.Future[None]") -> None:
        self._opened, self._next = asyncio.get_running_loop().time(), None
        waited.set_result(None)
