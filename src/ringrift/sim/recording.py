"""Recording: a store that writes its own history, in the transactions that make it, for the checkers to read.

Each note commits with the effect it tells of or not at all, so the history cannot lie about what happened.
"""

from collections.abc import Collection, Sequence

import apsw

from ringrift.events.base import Envelope
from ringrift.store.ports import Held, Lease, Wanted
from ringrift.store.sqlite.engine import SqliteStore
from ringrift.store.sqlite.reads import one
from ringrift.store.sqlite.tx import SqliteTx

SCHEMA = """
CREATE TABLE IF NOT EXISTS history (
    number INTEGER PRIMARY KEY, what TEXT NOT NULL, name TEXT NOT NULL, mark INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS history_what ON history (what);
"""
NOTE = "INSERT INTO history (what, name, mark) VALUES (?, ?, ?)"


class RecordingTx(SqliteTx):
    """The verbs, each leaving a note."""

    async def append(self, envelopes: Sequence[Envelope]) -> Sequence[Envelope]:
        told = await super().append(envelopes)
        self._db.executemany(NOTE, [("told", e.name, e.position) for e in told])
        return told

    async def enqueue(self, jobs: Sequence[Wanted]) -> Sequence[str]:
        ids = await super().enqueue(jobs)
        self._db.executemany(NOTE, [("enqueued", j.id, 0) for j, id in zip(jobs, ids, strict=True) if j.id == id])
        return ids

    async def claim(self, kinds: Collection[str], holder: str, seconds: float, limit: int) -> Sequence[Lease]:
        leases = await super().claim(kinds, holder, seconds, limit)
        self._db.executemany(NOTE, [("claimed", lease.job, lease.fence) for lease in leases])
        return leases

    async def finish(self, held: Sequence[Held]) -> None:
        await super().finish(held)
        self._db.executemany(NOTE, [("finished", h.job, h.fence) for h in held])

    async def under(self, role: str, term: int) -> None:
        await super().under(role, term)
        self._db.execute(NOTE, ("led", role, term))

    async def advance(self, reader: str, old: int, new: int) -> None:
        await super().advance(reader, old, new)
        self._db.execute(NOTE, ("advanced", reader, new))

    def history(self, what: str) -> list[tuple[str, int]]:
        """Every note of one kind, in commit order: (name, mark)."""
        return list(self._db.execute("SELECT name, mark FROM history WHERE what = ? ORDER BY number", (what,)))

    def count(self, what: str) -> int:
        """How many notes of one kind there are."""
        number: int = one(self._db, "SELECT count(*) FROM history WHERE what = ?", (what,))
        return number

    def count_jobs(self) -> dict[str, int]:
        """Jobs by state, counted one by one."""
        return dict(self._db.execute("SELECT state, count(*) FROM jobs GROUP BY state"))


class RecordingStore(SqliteStore):
    """The engine under test, with its history."""

    def make_tx(self, db: apsw.Connection) -> RecordingTx:
        db.execute(SCHEMA)
        return RecordingTx(db)
