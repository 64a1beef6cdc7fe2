"""NodeStore: one node's access to the shared store, as if it were a process of its own on the same file."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from ringrift.kernel.errors import Backpressure, Busy, NoRoom, Overdue
from ringrift.store.ports import Reads, Store, Tx

_BUSY_SECONDS = 2.0  #: How long a process waits for the write lock of another.


class NodeStore:
    """Every verb of *store*, with the faults that are switched on here."""

    def __init__(self, store: Store, rng: Random, pause: Callable[[], None]) -> None:
        self._store, self._rng, self._pause = store, rng, pause
        self.error_share = 0.0  #: Share of the verbs that fail with a transient error, as they begin or as they commit.
        self.is_locked = False  #: Whether another process holds the write lock and does not go on.
        self.pauses_in_body = False  #: Whether its host is to be paused in the next body; False from then on.

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Tx]:
        self.draw_error()
        if self.is_locked:
            await asyncio.sleep(_BUSY_SECONDS)
            if self.is_locked:
                raise Busy("sim.db", f"another process has been writing for {_BUSY_SECONDS:g} s")
        if self.pauses_in_body:
            self.pauses_in_body = False
            self._pause()
            await asyncio.sleep(0)  # here this host goes on after its pause
            raise Overdue(_BUSY_SECONDS)  # a process that slept in a body rolls it back
        async with self._store.begin() as tx:
            yield tx
            self.draw_error()  # as if COMMIT had failed: the body is rolled back

    @asynccontextmanager
    async def read(self, *, brief: bool = False) -> AsyncIterator[Reads]:
        self.draw_error()
        async with self._store.read() as view:
            yield view

    def draw_error(self) -> None:
        """Raise a transient error, or none.  Not Overdue: the same event twice too slow is parked, and rightly so."""
        if self.error_share and self._rng.random() < self.error_share:
            raise self._rng.choice((Busy("sim.db", "drawn"), Backpressure("store", 1), NoRoom("sim.db")))
