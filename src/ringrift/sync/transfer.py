"""Transfer: brings a verified copy of a blob to a node, from whoever can hand it over."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from ringrift.blobs.ports import Blobs
from ringrift.kernel.errors import Corrupt, NodeAway, NoRoute
from ringrift.kernel.failpoint import failpoint
from ringrift.store.ports import Store
from ringrift.sync import ledger

Reach = Callable[[str], Awaitable[Blobs]]
"""The blobs of a node, by its id.  Raises NodeAway if it cannot be reached."""


class Transfer:
    """Moves blobs between the nodes that *reach* can reach."""

    def __init__(self, node: str, store: Store, blobs: Blobs, reach: Reach) -> None:
        self._node, self._store, self._blobs, self._reach = node, store, blobs, reach

    async def _at(self, node: str) -> Blobs:
        return self._blobs if node == self._node else await self._reach(node)

    async def fetch(self, blobs: Sequence[str], moved: Callable[[], None] | None = None) -> None:
        """Have a verified copy of each of *blobs* here.  Raises NoRoute naming the first that cannot be had."""
        missing = set(blobs) - await self._blobs.have(blobs)
        for blob in sorted(missing):
            await self.copy(blob, self._node, moved)

    async def copy(self, blob: str, target: str, moved: Callable[[], None] | None = None, source: str = "") -> int:
        """Bring *blob* to *target*; its size, 0 if it was there.  A holder without a good copy is struck off.

        *source* is tried first: it may hold a blob that the ledger does not know of yet.
        """
        to = await self._at(target)
        if await to.have([blob]):
            await self._note(blob, target)
            return 0
        async with self._store.read() as view:
            known = await ledger.holders(view, blob)
        tried, away = [], False
        for node in dict.fromkeys([source, *known] if source else known):
            if node == target:
                continue
            tried.append(node)
            try:
                failpoint("sync.before_copy")
                size = await to.write(blob, _told((await self._at(node)).read(blob), moved))
                failpoint("sync.after_copy")
            except NodeAway:
                away = True
            except (NoRoute, Corrupt):
                await self._strike(blob, node)
            else:
                await self._note(blob, target)
                return size
        raise NoRoute(blob, tried, gone=not away)

    async def who_has(self, blob: str, nodes: Sequence[str]) -> list[str]:
        """Those of *nodes* that have *blob* now, as they say themselves; the ledger is put right on the way."""
        async with self._store.read() as view:
            known = await ledger.holders(view, blob)
        have: list[str] = []
        gone: list[str] = []
        for node in dict.fromkeys([*nodes, *known]):
            try:
                found = await (await self._at(node)).have([blob])
            except NodeAway:
                continue
            (have if found else gone).append(node)
        async with self._store.begin() as tx:
            await tx.put([ledger.holding(blob, node) for node in have if node not in known])
            await ledger.forget(tx, blob, [node for node in gone if node in known])
        return have

    async def _note(self, blob: str, node: str) -> None:
        async with self._store.begin() as tx:
            await tx.put([ledger.holding(blob, node)])

    async def _strike(self, blob: str, node: str) -> None:
        """A node that answers without a good copy does not hold it; one that does not answer may hold it still."""
        async with self._store.begin() as tx:
            await ledger.forget(tx, blob, [node])


async def _told(chunks: AsyncIterator[bytes], moved: Callable[[], None] | None) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        if moved is not None:
            moved()
        yield chunk
