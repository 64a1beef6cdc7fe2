"""Adapters with one safeguard removed, to show that the simulation would notice."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import apsw
import msgspec

from ringrift.sim.recorder import _NOTE, _SCHEMA, RecordingStore, RecordingTx
from ringrift.store.ports import Failure, Renewal

UNFENCED_FINISH = "UPDATE jobs SET state = 'done', holder = NULL WHERE id = ?"
GAP_SECONDS = 0.02
UNCHECKED_ADVANCE = "UPDATE readers SET position = max(position, ?) WHERE reader = ?"


class _UnfencedTx(RecordingTx):
    async def finish(self, leases: Sequence[Renewal]) -> None:
        self._db.executemany(UNFENCED_FINISH, [(lease.job,) for lease in leases])
        self._db.executemany(_NOTE, [("finished", lease.job, lease.fence) for lease in leases])


class Unfenced(RecordingStore):
    """Accepts a result with any fence."""

    def make_tx(self, db: apsw.Connection) -> RecordingTx:
        db.execute(_SCHEMA)
        return _UnfencedTx(db)


class Unsynced(RecordingStore):
    """Acknowledges before the disk has the data."""

    def make_tx(self, db: apsw.Connection) -> RecordingTx:
        db.execute("PRAGMA synchronous = OFF")
        return super().make_tx(db)


class _LateTx(RecordingTx):
    def __init__(self, db: apsw.Connection) -> None:
        super().__init__(db)
        self.late: list[tuple[int, str]] = []

    async def advance(self, reader: str, old: int, new: int) -> None:
        self.late.append((new, reader))


class Detached(RecordingStore):
    """Moves the reader's position in a transaction of its own, after that of the effects."""

    def make_tx(self, db: apsw.Connection) -> RecordingTx:
        db.execute(_SCHEMA)
        return _LateTx(db)

    async def _commit(self) -> None:
        await super()._commit()
        assert isinstance(self._tx, _LateTx)
        late, self._tx.late = self._tx.late, []
        if late:
            await asyncio.sleep(GAP_SECONDS)
            with suppress(apsw.FullError), self._db:  # on a full disk the position stays where it was
                self._db.executemany(UNCHECKED_ADVANCE, late)


class _HastyTx(RecordingTx):
    async def fail(self, failures: Sequence[Failure]) -> Sequence[str]:
        return await super().fail([msgspec.structs.replace(f, pause=None, started=True) for f in failures])


class Hasty(RecordingStore):
    """Gives a job up after its first failure, whichever node it failed on."""

    def make_tx(self, db: apsw.Connection) -> RecordingTx:
        db.execute(_SCHEMA)
        return _HastyTx(db)
