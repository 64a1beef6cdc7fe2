"""Brings a verified copy of a blob to a node, from any node that has one and by any transport that works.

Holders are tried in order, and of each its transports; the next one goes on where the last one broke off.  A copy
counts when its node has hashed, flushed and named it: then the ledger lists it and a receipt tells how it came.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

from ringrift.blobs.ports import Blobs
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.events.data import Corrupted
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import Corrupt, NodeAway, NoRoute, TransferError
from ringrift.kernel.failpoint import failpoint
from ringrift.kernel.transfer_settings import LinkSettings
from ringrift.kernel.value import changed
from ringrift.store.ports import Store
from ringrift.sync import batches, failed_copies, ledger, receipts
from ringrift.sync.failed_copies import FailedCopy
from ringrift.sync.hubs import Hubs
from ringrift.sync.plan import Route
from ringrift.sync.receipts import Receipt
from ringrift.sync.receive import Arrival, Source, SourceFailed, Take, keep_alive, open_place, receive
from ringrift.sync.shaper import Shaper
from ringrift.sync.transports.folder import FOLDER, FolderTransport, Reach
from ringrift.sync.transports.ports import (
    AnyTransport,
    BatchTransport,
    CheckTransport,
    Endpoint,
    Endpoints,
    OnBytes,
    PushTransport,
)
from ringrift.sync.wants import Link, TransferClass
from ringrift.threads import beside

_OnProgress = Callable[[], None]
_ROWS_MAX = 500  # receipts in one transaction


@dataclass(frozen=True)
class _Order:
    """A copy to make, and how."""

    blob: str
    target: str
    transfer_class: TransferClass
    rate_max: float
    on_bytes: OnBytes


def _with_progress(on_bytes: OnBytes | None, on_progress: _OnProgress | None) -> OnBytes:
    def note(size: int) -> None:
        if on_progress is not None:
            on_progress()
        if on_bytes is not None:
            on_bytes(size)

    return note


def _reporting(on_progress: _OnProgress | None) -> AbstractAsyncContextManager[object]:
    if on_progress is None:
        return nullcontext()
    return beside(keep_alive(on_progress))


class Transfer:
    """Moves blobs between the nodes that *reach* and *endpoints* can reach."""

    def __init__(
        self,
        node: str,
        store: Store,
        blobs: Blobs,
        reach: Reach,
        envelopes: EnvelopeFactory,
        *,
        clock: Clock,
        endpoints: Endpoints | None = None,
        shaper: Shaper | None = None,
        limits: LinkSettings | None = None,
    ) -> None:
        self._node, self._store, self._blobs, self._reach, self._envelopes = node, store, blobs, reach, envelopes
        self._clock, self._endpoints, self.shaper = clock, endpoints, shaper
        self._limits, self._folders = limits or LinkSettings(), FolderTransport(self._at)
        self.hubs = Hubs(endpoints, self._clock)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def _at(self, node: str) -> Blobs:
        return self._blobs if node == self._node else await self._reach(node)

    async def fetch(
        self,
        blobs: Sequence[str],
        on_progress: _OnProgress | None = None,
        transfer_class: TransferClass = TransferClass.SECOND,
    ) -> None:
        """Bring a verified copy of each of *blobs* here.  Raises NoRoute naming the first that no node can send."""
        missing = sorted(set(blobs) - await self._blobs.have(blobs))
        if self._endpoints is not None and len(missing) >= batches.BATCH_MIN:
            async with _reporting(on_progress):
                missing = sorted(set(missing) - await self._fetch_batches(missing, on_progress, transfer_class))
        for blob in missing:
            await self.copy(blob, self._node, on_progress, transfer_class=transfer_class)

    async def copy(
        self,
        blob: str,
        target: str,
        on_progress: _OnProgress | None = None,
        source: str = "",
        *,
        transfer_class: TransferClass = TransferClass.SECOND,
        routes: Sequence[Route] = (),
        on_bytes: OnBytes | None = None,
        rate_max: float = 0.0,
    ) -> int:
        """Bring *blob* to *target*; its size, 0 if it was there.  A holder without a good copy leaves the ledger.

        *routes* of a plan are tried first, then *source*, which may hold a blob that the ledger does not list yet, then
        every holder.  *rate_max*: bytes a second for this copy alone; 0 is no limit.
        Raises NoRoute, and NodeAway or NoRoom of *target*.
        """
        order = _Order(blob, target, transfer_class, rate_max, _with_progress(on_bytes, on_progress))
        # Two writers of one part would disturb each other: the second waits, and finds the blob there.
        lock = self._locks.setdefault(f"{blob}@{target}", asyncio.Lock())
        async with _reporting(on_progress), lock:
            receipt = await self._copy(order, source, routes)
        return 0 if receipt is None else receipt.size

    async def _copy(self, order: _Order, source: str, routes: Sequence[Route]) -> Receipt | None:
        try:
            to = await self._at(order.target)
        except NodeAway as error:
            return await self._push(order, error)
        if await to.have([order.blob]):
            await self._add(order.blob, order.target)
            return None
        async with self._store.read() as view:
            holders, removal = await ledger.holders(view, order.blob), await ledger.removal(view, order.blob)
        tried, away = list[str](), False
        for holder in dict.fromkeys([*(route.source for route in routes), *filter(None, [source]), *holders]):
            if holder == order.target:
                continue
            tried.append(holder)
            ways = [route.transport for route in routes if route.source == holder]
            try:
                receipt = await self._pull(order, to, holder, ways)
            except NodeAway:
                away = True
            else:
                if receipt is not None:
                    return receipt
        raise NoRoute(order.blob, tried, gone=not away, removal=removal)

    async def _pull(self, order: _Order, to: Blobs, holder: str, first: Sequence[str]) -> Receipt | None:
        """Get the blob from *holder*; None if it has no good copy.  Raises NodeAway if no way to it works."""
        async for endpoint, transport in self._ways(holder, first):
            failpoint("sync.before_copy")
            start = self._clock.tick()
            try:
                async with self._place(holder, order) as place:
                    source = Source(endpoint, transport, place, self._limits)
                    arrival = await receive(to, order.blob, self._node, source, order.on_bytes)
            except SourceFailed as failure:
                if not isinstance(failure.error, NodeAway):  # its own answer: the way to it works
                    await self._report(endpoint, None)
                    await self._remove(order.blob, holder, is_corrupt=isinstance(failure.error, Corrupt))
                    return None
                await self._report(endpoint, failure.error)
            except Corrupt as error:
                await self._report(endpoint, error)
                if not await self._is_good(endpoint, transport, order.blob):
                    await self._remove(order.blob, holder, is_corrupt=True)
                    return None
            else:
                failpoint("sync.after_copy")
                await self._report(endpoint, None)
                return (await self._record(endpoint, [(order, arrival)], self._clock.tick() - start))[0]
        raise NodeAway(holder)

    async def _push(self, order: _Order, away: NodeAway) -> Receipt:
        """Send the blob to a node whose folder cannot be opened from here.  Raises the last error, else *away*."""
        async for endpoint, transport in self._ways(order.target, ()):
            if not isinstance(transport, PushTransport):
                continue
            await self.fetch([order.blob], transfer_class=order.transfer_class)
            start, (_, size) = self._clock.tick(), await self._blobs.read_piece(order.blob, 0, 0)
            here = Endpoint(node=self._node, transport=FOLDER)
            try:
                async with self._place(order.target, order) as place:
                    shaped = _shaped(self._folders, here, order.blob, place)
                    sent = await transport.push(endpoint, order.blob, size, shaped, order.on_bytes)
            except (NodeAway, Corrupt) as error:
                await self._report(endpoint, error)
                away = error if isinstance(error, NodeAway) else away
                continue
            await self._report(endpoint, None)
            arrival = Arrival(size=size, resumed=max(size - sent, 0))
            own = Endpoint(node=self._node, transport=endpoint.transport)
            return (await self._record(own, [(order, arrival)], self._clock.tick() - start))[0]
        raise away

    async def _fetch_batches(
        self, blobs: Sequence[str], on_progress: _OnProgress | None, transfer_class: TransferClass
    ) -> set[str]:
        """Fetch those of *blobs* that are small and many in few streams; which ones have arrived."""
        async with self._store.read() as view:
            copies = await ledger.copies(view, blobs)
        sizes, arrived = {blob: size for blob, (_, size) in copies.items()}, set[str]()
        order = _Order("", self._node, transfer_class, 0.0, _with_progress(None, on_progress))
        for holder, names in batches.group(blobs, copies, self._node).items():
            async for endpoint, transport in self._ways(holder, ()):
                if isinstance(transport, BatchTransport):
                    left = {name: sizes[name] for name in names if name not in arrived}
                    arrived |= await self._fetch_streams(endpoint, transport, left, order)
        return arrived

    async def _fetch_streams(
        self, endpoint: Endpoint, transport: BatchTransport, sizes: Mapping[str, int], order: _Order
    ) -> set[str]:
        """Fetch the blobs of *sizes* from *endpoint* until a stream breaks; which ones have arrived."""
        arrived = set[str]()
        for names in batches.split(list(sizes), sizes):
            start = self._clock.tick()
            async with self._place(endpoint.node, order) as place:
                stream = batches.Stream(transport, endpoint, place, self._limits)
                stored = await self._blobs.write_pack(stream.read(names, order.on_bytes))
            seconds = (self._clock.tick() - start) / max(len(stored), 1)
            arrivals = [(replace(order, blob=blob), Arrival(size=sizes[blob], resumed=0)) for blob in stored]
            await self._record(endpoint, arrivals, seconds)
            await self._report(endpoint, stream.error)
            arrived.update(stored)
            if stream.error is not None:
                break
        return arrived

    def _place(self, host: str, order: _Order) -> AbstractAsyncContextManager[Take]:
        return open_place(self.shaper, host, order.transfer_class, order.rate_max)

    async def _ways(self, node: str, first: Sequence[str]) -> AsyncIterator[tuple[Endpoint, AnyTransport]]:
        """The ways to *node*, those of transports *first* before the others; a breaker is asked when it is its turn."""
        ways = [Endpoint(node=node, transport=FOLDER)]
        if self._endpoints is not None and node != self._node:
            ways = [*await self._endpoints.find(node), *ways]
        ranks = {transport: rank for rank, transport in enumerate(first)}
        for endpoint in sorted(ways, key=lambda way: ranks.get(way.transport, len(ranks))):
            if endpoint.transport == FOLDER or self._endpoints is None:
                yield endpoint, self._folders
            elif await self._endpoints.health.allows(node, endpoint.transport):
                yield endpoint, self._endpoints.transports[endpoint.transport]

    async def _report(self, endpoint: Endpoint, error: TransferError | None) -> None:
        if self._endpoints is not None and endpoint.transport != FOLDER:
            text = None if error is None else str(error)
            await self._endpoints.health.report(endpoint.node, endpoint.transport, text)

    async def _is_good(self, endpoint: Endpoint, transport: AnyTransport, blob: str) -> bool:
        """Whether the holder's copy is good, by its own word: then the bytes changed on their way."""
        if not isinstance(transport, CheckTransport):
            return True
        try:
            return await transport.is_good(endpoint, blob)
        except NoRoute:
            return False
        except NodeAway:
            return True

    async def _record(
        self, source: Endpoint, arrivals: Sequence[tuple[_Order, Arrival]], seconds: float
    ) -> list[Receipt]:
        """Write down what has arrived from *source*, each after *seconds*."""
        rows = [
            Receipt(
                blob=order.blob,
                node=order.target,
                source=source.node,
                transport=source.transport,
                size=arrival.size,
                seconds=seconds,
                time=self._clock.now(),
                transfer_class=order.transfer_class,
                resumed=arrival.resumed,
            )
            for order, arrival in arrivals
        ]
        for first in range(0, len(rows), _ROWS_MAX):
            async with self._store.begin() as tx:
                page = rows[first : first + _ROWS_MAX]
                await ledger.add(tx, [(row.blob, row.node, row.size) for row in page])
                for row in page:
                    await receipts.record(tx, row)
                    await failed_copies.record_arrival(tx, row.blob, row.node, self._envelopes)
        return rows

    async def record_failure(self, failure: FailedCopy) -> None:
        """Write down that a copy could not be made, so that it is tried again."""
        async with self._store.begin() as tx:
            await failed_copies.record_failure(tx, changed(failure, since=self._clock.now()))

    async def size_of(self, blob: str) -> int:
        """The size of *blob* by the ledger; 0 if it is not known."""
        async with self._store.read() as view:
            return await ledger.size_of(view, blob)

    async def find_links(self) -> list[Link]:
        """The links as they were measured, and which of them are broken now."""
        async with self._store.read() as view:
            links = await receipts.measured_links(view)
        if self._endpoints is None:
            return list(links)
        allows = self._endpoints.health.allows
        return [changed(link, is_broken=not await allows(link.source, link.transport)) for link in links]

    async def find_away(self, nodes: Collection[str]) -> set[str]:
        """Those of *nodes* that do not answer, or whose disk is not there."""
        rooms = await self.hubs.rooms()
        ids = sorted(node for node in nodes if node not in rooms)
        answers = await asyncio.gather(*(self._ask(node, []) for node in ids))
        away = {node for node, answer in zip(ids, answers, strict=True) if answer is None}
        return away | {hub for hub, room in rooms.items() if room is None and hub in nodes}

    async def _ask(self, node: str, blobs: Sequence[str]) -> frozenset[str] | None:
        """Those of *blobs* that *node* has, by its own answer; None if it does not answer."""
        try:
            return await (await self._at(node)).have(blobs)
        except NodeAway:
            return None

    async def find_holders(self, blob: str, nodes: Sequence[str]) -> list[str]:
        """Those of *nodes* and of its holders that have *blob* now, by their own answer; the ledger is corrected.

        A hub that is there has what the ledger lists.
        """
        async with self._store.read() as view:
            listed = await ledger.holders(view, blob)
        rooms = await self.hubs.rooms()
        nodes_now = [node for node in dict.fromkeys([*nodes, *listed]) if node not in rooms]
        answers = {node: await self._ask(node, [blob]) for node in nodes_now}
        hubs = [node for node in listed if rooms.get(node) is not None]
        holders = [*(node for node, answer in answers.items() if answer), *hubs]
        others = [node for node, answer in answers.items() if answer is not None and not answer]
        if set(holders) != set(listed):
            async with self._store.begin() as tx:
                await ledger.add(tx, [(blob, node, 0) for node in holders])
                await ledger.forget(tx, blob, [node for node in others if node in listed])
        return holders

    async def _add(self, blob: str, node: str) -> None:
        async with self._store.begin() as tx:
            await ledger.add(tx, [(blob, node, 0)])
            await failed_copies.record_arrival(tx, blob, node, self._envelopes)

    async def _remove(self, blob: str, node: str, *, is_corrupt: bool) -> None:
        """A node that answers without a good copy does not hold it; one that does not answer may hold it still."""
        async with self._store.begin() as tx:
            await ledger.forget(tx, blob, [node])
            if is_corrupt:
                event = Corrupted(blob=blob, node=node, during="transfer")
                await tx.append([self._envelopes.make(event, source="transfer")])


def _shaped(folders: FolderTransport, here: Endpoint, blob: str, place: Take) -> Callable[[int], AsyncIterator[bytes]]:
    async def read(offset: int) -> AsyncIterator[bytes]:
        async for chunk in folders.read(here, blob, offset):
            await place.take(len(chunk))
            yield chunk

    return read
