"""Requests that come close together wait a moment for each other, so that one commit makes all of them durable."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Generic, TypeVar

_SECONDS = 0.04
_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")


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


class _Batch(Generic[_Item, _Answer]):
    def __init__(self) -> None:
        self.items: list[_Item] = []
        self.run: asyncio.Task[_Answer] | None = None


class Batches(Generic[_Item, _Answer]):
    """Items that pass one opening of *gate* are carried out by one call, whose answer all of them get."""

    def __init__(self, gate: Together) -> None:
        self._gate = gate
        self._batch = _Batch[_Item, _Answer]()

    async def run(self, item: _Item, carry_out: Callable[[Sequence[_Item]], Coroutine[Any, Any, _Answer]]) -> _Answer:
        """The answer of *carry_out* to *item* and those that came with it.  Raises what it raises, to all of them."""
        batch = self._batch
        batch.items.append(item)
        await self._gate.wait()
        if batch.run is None:  # the first that passes does it for all
            self._batch = _Batch()
            batch.run = asyncio.get_running_loop().create_task(carry_out(batch.items))
        await asyncio.wait((batch.run,))  # not awaited itself: whoever is cancelled leaves it to the others
        return batch.run.result()
