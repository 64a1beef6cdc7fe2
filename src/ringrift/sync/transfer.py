"""Brings a verified copy of a blob to a node, from any node that has one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence

from ringrift.blobs.ports import Blobs
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.events.data import Corrupted
from ringrift.kernel.errors import Corrupt, NodeAway, NoRoute
from ringrift.kernel.failpoint import failpoint
from ringrift.store.ports import Store
from ringrift.sync import ledger

Reach = Callable[[str], Awaitable[Blobs]]  #: The blobs of a node, by its id.  Raises NodeAway if it cannot be reached.
_OnProgress = Callable[[], None]


class Transfer:
    """Moves blobs between the nodes that *reach* can reach."""

    def __init__(self, node: str, store: Store, blobs: Blobs, reach: Reach, envelopes: EnvelopeFactory) -> None:
        self._node, self._store, self._blobs, self._reach, self._envelopes = node, store, blobs, reach, envelopes

    async def _at(self, node: str) -> Blobs:
        return self._blobs if node == self._node else await self._reach(node)

    async def fetch(self, blobs: Sequence[str], on_progress: _OnProgress | None = None) -> None:
        """Bring a verified copy of each of *blobs* here.  Raises NoRoute naming the first that no node can send."""
        for blob in sorted(set(blobs) - await self._blobs.have(blobs)):
            await self.copy(blob, self._node, on_progress)

    async def copy(self, blob: str, target: str, on_progress: _OnProgress | None = None, source: str = "") -> int:
        """Bring *blob* to *target*; its size, 0 if it was there.  A holder without a good copy leaves the ledger.

        *source* is tried first: it may hold a blob that the ledger does not list yet.
        """
        to = await self._at(target)
        if await to.have([blob]):
            await self._add(blob, target)
            return 0
        async with self._store.read() as view:
            holders, removal = await ledger.holders(view, blob), await ledger.removal(view, blob)
        tried, away = [], False
        for node in dict.fromkeys([source, *holders] if source else holders):
            if node == target:
                continue
            tried.append(node)
            try:
                failpoint("sync.before_copy")
                size = await to.write(blob, _with_progress((await self._at(node)).read(blob), on_progress))
                failpoint("sync.after_copy")
            except NodeAway:
                away = True
            except (NoRoute, Corrupt) as error:
                await self._remove(blob, node, is_corrupt=isinstance(error, Corrupt))
            else:
                await self._add(blob, target)
                return size
        raise NoRoute(blob, tried, gone=not away, removal=removal)

    async def find_away(self, nodes: Collection[str]) -> set[str]:
        """Those of *nodes* that do not answer, or whose disk is not there."""
        ids = sorted(nodes)
        answers = await asyncio.gather(*(self._ask(node, []) for node in ids))
        return {node for node, answer in zip(ids, answers, strict=True) if answer is None}

    async def _ask(self, node: str, blobs: Sequence[str]) -> frozenset[str] | None:
        """Those of *blobs* that *node* has, by its own answer; None if it does not answer."""
        try:
            return await (await self._at(node)).have(blobs)
        except NodeAway:
            return None

    async def find_holders(self, blob: str, nodes: Sequence[str]) -> list[str]:
        """Those of *nodes* and of its holders that have *blob* now, by their own answer; the ledger is corrected."""
        async with self._store.read() as view:
            listed = await ledger.holders(view, blob)
        answers = {node: await self._ask(node, [blob]) for node in dict.fromkeys([*nodes, *listed])}
        holders = [node for node, answer in answers.items() if answer]
        others = [node for node, answer in answers.items() if answer is not None and not answer]
        if set(holders) != set(listed):
            async with self._store.begin() as tx:
                await tx.put([ledger.holding(blob, node) for node in holders if node not in listed])
                await ledger.forget(tx, blob, [node for node in others if node in listed])
        return holders

    async def _add(self, blob: str, node: str) -> None:
        async with self._store.begin() as tx:
            await tx.put([ledger.holding(blob, node)])

    async def _remove(self, blob: str, node: str, *, is_corrupt: bool) -> None:
        """A node that answers without a good copy does not hold it; one that does not answer may hold it still."""
        async with self._store.begin() as tx:
            await ledger.forget(tx, blob, [node])
            if is_corrupt:
                event = Corrupted(blob=blob, node=node, during="transfer")
                await tx.append([self._envelopes.make(event, source="transfer")])


async def _with_progress(chunks: AsyncIterator[bytes], on_progress: _OnProgress | None) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        if on_progress is not None:
            on_progress()
        yield chunk
