"""Cleans the house: old events, free pages, corrupt files."""

import logging

from ringrift.blobs.ports import Blobs
from ringrift.bus.scribe import Scribe
from ringrift.events.catalog import EVENTS
from ringrift.events.data import Corrupted
from ringrift.kernel.settings import StoreSettings
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon
from ringrift.sync import ledger

COMPACTED_AT_ONCE = 2_000
SCRUBBED_AT_ONCE = 200
ROUNDS_MAX = 10_000
DETAILS = tuple(event.name() for event in EVENTS if event.KEEP == "detail")
log = logging.getLogger(__name__)


async def sweep(*, store: Store, blobs: Blobs, scribe: Scribe, node_id: str, store_settings: StoreSettings) -> None:
    """Sweep once, in small steps so that nobody waits long behind it."""
    await _drop_details(store, store_settings.detail_events_max)
    await _compact(store, store_settings.log_events_max)
    after = ""
    for _ in range(ROUNDS_MAX):
        corrupt, after = await blobs.scrub(after, SCRUBBED_AT_ONCE)
        if corrupt:
            log.error("%d corrupt blobs were set aside: %s", len(corrupt), ", ".join(blob[:12] for blob in corrupt))
            async with store.begin() as tx:
                for blob in corrupt:
                    await ledger.forget(tx, blob, [node_id])
                said = [Corrupted(blob=blob, node=node_id) for blob in corrupt]
                await tx.append([scribe.wrap(event, source="sweep") for event in said])
        if not after:
            break


async def _drop_details(store: Store, keep: int) -> None:
    async with store.read() as view:
        oldest = await view.read(0, 1)
    end = store.position - keep
    for first in range(oldest[0].position if oldest else end, end, COMPACTED_AT_ONCE):
        async with store.begin() as tx:
            await tx.compact(keep, COMPACTED_AT_ONCE, DETAILS, (first, first + COMPACTED_AT_ONCE - 1))


async def _compact(store: Store, keep: int) -> None:
    for _ in range(ROUNDS_MAX):
        async with store.begin() as tx:
            if await tx.compact(keep, COMPACTED_AT_ONCE) < COMPACTED_AT_ONCE:
                break


SPEC = Daemon(
    name="sweep", run=sweep, every="sweep.every_seconds", after=("beat",), seconds_max=600.0, category="resources"
)
