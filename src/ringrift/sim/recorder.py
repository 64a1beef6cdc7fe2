"""A store that records its own history for the checks.

Each note commits with the effect that it records or not at all, so that the history is exactly what happened.
"""

import json
from collections.abc import Collection, Sequence

import apsw

from ringrift.events.base import Envelope
from ringrift.events.data import Lost
from ringrift.events.selfplay import BatchFinished
from ringrift.store.ports import ClaimTerms, JobRequest, Lease, Renewal
from ringrift.store.sqlite.engine import SqliteStore
from ringrift.store.sqlite.tx import SqliteTx

_SCHEMA = """
CREATE TABLE IF NOT EXISTS history (
    number INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, value INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS history_kind ON history (kind);
"""
_NOTE = "INSERT INTO history (kind, name, value) VALUES (?, ?, ?)"


class RecordingTx(SqliteTx):
    """A transaction that notes each of its effects."""

    async def append(self, envelopes: Sequence[Envelope]) -> Sequence[Envelope]:
        appended = await super().append(envelopes)
        self._db.executemany(_NOTE, [("appended", e.name, e.position) for e in appended])
        batches = [json.loads(e.body)["batch"] for e in appended if e.name == BatchFinished.name()]
        self._db.executemany(_NOTE, [("batch", batch, 0) for batch in batches])
        lost = [json.loads(e.body) for e in appended if e.name == Lost.name()]
        self._db.executemany(_NOTE, [("lost", f"{body['blob']}: {body['reason']}", 0) for body in lost if body["kind"]])
        return appended

    async def enqueue(self, jobs: Sequence[JobRequest]) -> Sequence[str]:
        ids = await super().enqueue(jobs)
        self._db.executemany(_NOTE, [("enqueued", j.id, 0) for j, id in zip(jobs, ids, strict=True) if j.id == id])
        return ids

    async def claim(
        self, kinds: Collection[str], holder: str, seconds: float, limit: int, terms: ClaimTerms | None = None
    ) -> Sequence[Lease]:
        leases = await super().claim(kinds, holder, seconds, limit, terms)
        self._db.executemany(_NOTE, [("claimed", lease.job, lease.fence) for lease in leases])
        self._db.executemany(_NOTE, [("held", f"{lease.job} {holder}", lease.fence) for lease in leases])
        return leases

    async def finish(self, leases: Sequence[Renewal]) -> None:
        await super().finish(leases)
        self._db.executemany(_NOTE, [("finished", lease.job, lease.fence) for lease in leases])

    async def require_role(self, role: str, term: int) -> None:
        await super().require_role(role, term)
        self.note("led", role, term)

    async def advance(self, reader: str, old: int, new: int) -> None:
        await super().advance(reader, old, new)
        self.note("advanced", reader, new)

    def note(self, kind: str, name: str, value: int) -> None:
        """Note an effect of this transaction."""
        self._db.execute(_NOTE, (kind, name, value))

    def history(self, kind: str) -> list[tuple[str, int]]:
        """Every note of one kind, in commit order: (name, value)."""
        return list(self._db.execute("SELECT name, value FROM history WHERE kind = ? ORDER BY number", (kind,)))

    def job_states(self) -> dict[str, int]:
        """Jobs by state, counted one by one."""
        return dict(self._db.execute("SELECT state, count(*) FROM every_job GROUP BY state"))

    def dead_jobs(self) -> dict[str, str]:
        """The errors of the jobs that were given up."""
        return dict(self._db.execute("SELECT id, error FROM every_job WHERE state = 'dead' AND node IS NULL"))


class RecordingStore(SqliteStore):
    """The engine under test, with its history."""

    def make_tx(self, db: apsw.Connection) -> RecordingTx:
        db.execute(_SCHEMA)
        return RecordingTx(db)
