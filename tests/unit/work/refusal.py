"""A store that refuses every transaction and every read while a test says so, as a busy, full or broken one does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from ringrift.store.ports import Reads, Store, Tx


class RefusingStore:
    """*store*, except that every use of it raises *error* as long as there is one; *refused* counts these."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.error: Exception | None = None
        self.refused = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _refuse(self) -> None:
        if self.error is not None:
            self.refused += 1
            raise self.error

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Tx]:
        self._refuse()
        async with self._store.begin() as tx:
            yield tx

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Reads]:
        self._refuse()
        async with self._store.read() as view:
            yield view

    async def wait(self, after: int | None, seconds: float) -> int:
        position = await self._store.wait(after, seconds)
        self._refuse()
        return position
