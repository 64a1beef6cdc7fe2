"""The documented coordination of model caches: copies that are not good, or not needed, do not count as ready."""

from dataclasses import dataclass

from ringrift.blobs.folder import FolderBlobs
from ringrift.cluster.peers import PEERS
from ringrift.cluster.roster import NODES
from ringrift.kernel.errors import NodeAway
from ringrift.kernel.ids import check_blob, is_blob
from ringrift.kernel.value import changed
from ringrift.sync import ledger
from ringrift_compat.embedded_node import EmbeddedNode, embedded
from ringrift_compat.events.event_router import get_router
from ringrift_compat.events.router_event import RouterEvent

_EVENTS = ("MODEL_PROMOTED", "PROMOTION_ROLLED_BACK")


@dataclass(frozen=True)
class CacheInvalidation:
    """What became of the copies of a model."""

    model: str
    verified: tuple[str, ...] = ()
    """Nodes whose copies were read again and are good."""
    dropped: tuple[str, ...] = ()
    """Nodes whose copies are damaged or gone: set aside, and no longer listed."""
    forgotten: tuple[str, ...] = ()
    """Workers that must report it ready again before a peer is sent to them."""


async def _invalidate(node: EmbeddedNode, model: str) -> CacheInvalidation:
    async with node.store.read() as view:
        addresses = {row.id: row.address for row in await NODES.all(view) if row.has_files}
        holders = await ledger.holders(view, model)
    good, bad = list[str](), list[str]()
    for holder in holders:
        blobs = FolderBlobs(addresses.get(holder, ""), holder)
        try:
            is_good = holder in addresses and await blobs.have([model]) and not await blobs.verify([model])
        except NodeAway:
            continue  # away is not gone
        (good if is_good else bad).append(holder)
    async with node.store.begin() as tx:
        await ledger.forget(tx, model, bad)
        peers = [row for row in await PEERS.all(tx) if model in row.ready]
        rest = [changed(row, ready={blob: at for blob, at in row.ready.items() if blob != model}) for row in peers]
        await PEERS.put(tx, rest)
    return CacheInvalidation(model, tuple(good), tuple(bad), tuple(row.node for row in peers))


def invalidate_model_caches(model: str) -> CacheInvalidation:
    """Read every copy of a model again; those that are not good no longer count.  Raises InvalidId."""
    return embedded.call(_invalidate(embedded.node(), check_blob(model)))


async def _on_change(event: RouterEvent) -> None:
    node, payload = embedded.node(), event.payload
    model = str(payload.get("to") or payload.get("model") or "")
    if is_blob(model):  # what a user publishes under these names may be anything
        await embedded.post(_invalidate(node, model))


def wire_cache_events() -> int:
    """Check the copies of every model that is promoted or comes back, from now on; how many events are subscribed."""
    router = get_router()
    for name in _EVENTS:
        router.unsubscribe(name, _on_change)
        router.subscribe(name, _on_change)
    return len(_EVENTS)
