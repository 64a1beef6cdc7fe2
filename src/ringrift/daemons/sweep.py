"""Cleans the house: old events, free pages, corrupt files."""

import logging

from ringrift.blobs.ports import Blobs
from ringrift.kernel.settings import StoreSettings
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon
from ringrift.sync import ledger

COMPACTED_AT_ONCE = 2_000
SCRUBBED_AT_ONCE = 200
ROUNDS_MAX = 10_000
log = logging.getLogger(__name__)


async def sweep(*, store: Store, blobs: Blobs, node_id: str, store_settings: StoreSettings) -> None:
    """Sweep once, in small steps so that nobody waits long behind it."""
    for _ in range(ROUNDS_MAX):
        async with store.begin() as tx:
            if await tx.compact(store_settings.log_events_max, COMPACTED_AT_ONCE) < COMPACTED_AT_ONCE:
                break
    after = ""
    for _ in range(ROUNDS_MAX):
        corrupt, after = await blobs.scrub(after, SCRUBBED_AT_ONCE)
        if corrupt:
            log.error("%d corrupt blobs were set aside: %s", len(corrupt), ", ".join(blob[:12] for blob in corrupt))
            async with store.begin() as tx:
                for blob in corrupt:
                    await ledger.forget(tx, blob, [node_id])
        if not after:
            break


SPEC = Daemon(name="sweep", run=sweep, every="sweep.every_seconds", after=("beat",), seconds_max=600.0)
