"""Backs up the store and all files to the place of the settings, and raises an alert while that fails."""

from dataclasses import dataclass
from random import Random
from typing import Any

from ringrift.blobs.ports import Blobs
from ringrift.bus.envelopes import EnvelopeFactory
from ringrift.events.alert import Cleared, Raised
from ringrift.kernel.backoff import Backoff
from ringrift.kernel.clock import Clock
from ringrift.kernel.errors import InputError, MissingExtra, NotLeader, SettingsError, StoreError, TransferError
from ringrift.kernel.settings import Settings
from ringrift.store.ports import Store
from ringrift.supervision.spec import Daemon
from ringrift.sync.backup import BACKUPS, BackupRecord, back_up
from ringrift.sync.backup_notes import Backup
from ringrift.sync.places import open_place
from ringrift.sync.transfer import Transfer
from ringrift.sync.wants import TransferClass

_ALERT = "backup"
_RETRY = Backoff(first_seconds=60.0, seconds_max=3600.0, tries=1_000_000, jitter=0.2)
_LOOK_SECONDS, _BACKUP_SECONDS_MAX = 5.0, 7 * 86_400.0
_FAILURES = (TransferError, StoreError, InputError, SettingsError, MissingExtra)


@dataclass
class _Tries:
    """What this process remembers of its tries, on its own clock."""

    failures: int = 0
    next_tick: float = 0.0
    is_clear: bool = False  #: Whether the last event said that all is well.


def _is_due(record: BackupRecord | None, now: float, every_seconds: float) -> bool:
    """Whether another backup is due; one that lies in the future shows that the clock was set back."""
    return record is None or not record.backup or not 0 <= now - record.time < every_seconds


def _outcome(place: str, backup: Backup) -> Raised | Cleared:
    if not backup.missing_count:
        return Cleared(kind=_ALERT, subject=place)
    detail = f"{backup.missing_count} files are not in the last backup: no node that is there has them"
    return Raised(kind=_ALERT, subject=place, level="warning", detail=detail)


async def backup(
    *,
    store: Store,
    settings: Settings,
    blobs: Blobs,
    transfer: Transfer,
    clock: Clock,
    rng: Random,
    envelopes: EnvelopeFactory,
    memory: _Tries,
) -> None:
    """Look once whether a backup is due, and make it.  If it fails, an alert is open until another try succeeds."""
    own = settings.backup
    if not own.place or clock.tick() < memory.next_tick:
        return

    async def fetch(blob: str) -> Blobs:
        await transfer.fetch([blob], transfer_class=TransferClass.MIRROR)
        return blobs

    event: Raised | Cleared
    try:
        place = open_place(own.place)
        async with store.read() as view:
            record = await BACKUPS.get(view, place.address)
        if not _is_due(record, clock.now(), own.every_seconds):
            return
        parts: dict[str, Any] = {"clock": clock, "rng": rng, "envelopes": envelopes, "shaper": transfer.shaper}
        made, _ = await back_up(store, settings.store, place, keep=own.keep, fetch=fetch, **parts)
    except NotLeader:
        return  # an operator's backup is running
    except _FAILURES as error:
        memory.failures += 1
        memory.next_tick = clock.tick() + (_RETRY.delay(memory.failures, rng) or _RETRY.seconds_max)
        event = Raised(kind=_ALERT, subject=own.place, level="severe", detail=f"no backup could be made: {error}")
    else:
        memory.failures, event = 0, _outcome(own.place, made)
    was_clear, memory.is_clear = memory.is_clear, isinstance(event, Cleared)
    if not (was_clear and memory.is_clear):
        async with store.begin() as tx:
            await tx.append([envelopes.make(event, source="backup")])


_LIMITS: dict[str, Any] = {"every": _LOOK_SECONDS, "seconds_max": _BACKUP_SECONDS_MAX}
SPEC = Daemon(name="backup", run=backup, role="backup", memory=_Tries, category="resources", **_LIMITS)
