"""Cleans up: old events, free pages, corrupt files."""

import logging

from ringrift.blobs.ports import Blobs
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.events.catalog import EVENTS
from ringrift.events.data import Corrupted
from ringrift.kernel.settings import StoreSettings
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon
from ringrift.sync import ledger

_COMPACTED_AT_ONCE = 2_000
_SCRUBBED_AT_ONCE = 200
_ROUNDS_MAX = 10_000
_DETAILS = tuple(event.name() for event in EVENTS if event.KEEP == "detail")
log = logging.getLogger(__name__)


async def sweep(*, store: Store, blobs: Blobs, envelopes: EnvelopeFactory, store_settings: StoreSettings) -> None:
    """Sweep once, in small transactions so that no other waits long."""
    await _drop_details(store, store_settings.detail_events_max)
    await _compact(store, store_settings.log_events_max)
    after = ""
    for _ in range(_ROUNDS_MAX):
        corrupt, after = await blobs.scrub(after, _SCRUBBED_AT_ONCE)
        if corrupt:
            log.error("%d corrupt blobs were set aside: %s", len(corrupt), ", ".join(blob[:12] for blob in corrupt))
            async with store.begin() as tx:
                for blob in corrupt:
                    await ledger.forget(tx, blob, [envelopes.node])
                events = [Corrupted(blob=blob, node=envelopes.node) for blob in corrupt]
                await tx.append([envelopes.make(event, source="sweep") for event in events])
        if not after:
            break


async def _drop_details(store: Store, keep: int) -> None:
    async with store.read() as view:
        oldest = await view.read(0, 1)
    end = store.position - keep
    for first in range(oldest[0].position if oldest else end, end, _COMPACTED_AT_ONCE):
        async with store.begin() as tx:
            await tx.compact(keep, _COMPACTED_AT_ONCE, _DETAILS, (first, first + _COMPACTED_AT_ONCE - 1))


async def _compact(store: Store, keep: int) -> None:
    for _ in range(_ROUNDS_MAX):
        async with store.begin() as tx:
            if await tx.compact(keep, _COMPACTED_AT_ONCE) < _COMPACTED_AT_ONCE:
                break


_SECONDS = "sweep.every_seconds"
SPEC = Daemon(name="sweep", run=sweep, every=_SECONDS, after=("beat",), seconds_max=600.0, category="resources")
