"""Transactions over SQLite: their SQL runs inline on the loop's thread."""

from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import apsw
import msgspec
from msgspec.structs import asdict, astuple

from ringrift.events.base import Envelope
from ringrift.kernel.errors import IdConflict, LeaseLost, NotLeader, Overtaken, UnknownName
from ringrift.store.ports import Delivery, Failure, JobRequest, Lease, Origin, Put, Renewal, RoleRow
from ringrift.store.sqlite import reads
from ringrift.store.sqlite.connect import translate
from ringrift.store.sqlite.reads import QUERIES, SqliteReads

_PAGES_FREED_AT_ONCE = 500


class SqliteTx(SqliteReads):
    """The verbs of :class:`ringrift.store.ports.Tx`."""

    rollback: apsw.Error | None = None  # why SQLite rolled back the transaction while the body went on, if it did

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        self._db.execute("SAVEPOINT part")
        try:
            yield
        except BaseException as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK TO part")
                self._db.execute("RELEASE part")
            if isinstance(error, apsw.Error):
                self._note_rollback(error)
                raise translate(error, self._db.filename) from error
            raise
        self._db.execute("RELEASE part")

    def _note_rollback(self, error: apsw.Error) -> None:
        """A full disk can make SQLite undo the whole transaction: later writes of the body must be undone too."""
        if not self._db.in_transaction:
            self.rollback = error
            self._db.execute("BEGIN")
            self._db.execute("SAVEPOINT body")

    async def append(self, envelopes: Sequence[Envelope]) -> Sequence[Envelope]:
        db, query, appended = self._db, QUERIES["append"], []
        for e in envelopes:
            context = (e.correlation, e.cause, e.trace, e.depth)
            db.execute(query, (e.id, e.name, e.body, e.version, e.time, e.node, e.source, e.labels, *context))
            if db.changes():
                appended.append(msgspec.structs.replace(e, position=db.last_insert_rowid()))
            else:
                appended.append(self._first(e))
        return appended

    def _first(self, repeated: Envelope) -> Envelope:
        [first] = self._events("events_by_id", reads.as_json([repeated.id]))
        if (first.name, first.body) != (repeated.name, repeated.body):
            raise IdConflict(repeated.id)
        return first

    async def advance(self, reader: str, old: int, new: int) -> None:
        assert new >= old
        self._execute("advance", reader, old, new)
        if not self._db.changes():
            row = self._execute("position", reader).fetchone()
            raise Overtaken(reader, old, row[0] if row and not row[1] else None)

    async def register_reader(self, reader: str, at: int) -> int:
        self._execute("register_reader", reader, at)
        position, lapsed = self._execute("position", reader).get
        if lapsed:
            raise Overtaken(reader, position, None)
        return int(position)

    async def lapse_readers(self, readers: Sequence[tuple[str, int]]) -> None:
        self._db.executemany(QUERIES["lapse_reader"], readers)

    async def forget_reader(self, reader: str) -> int:
        self._execute("forget_reader", reader)
        if not self._db.changes():
            raise UnknownName("reader", reader, dict(self._execute("positions")))
        self._execute("forget_deliveries", reader)
        return self._db.changes()

    async def put_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        self._db.executemany(QUERIES["put_delivery"], [astuple(delivery) for delivery in deliveries])

    async def compact(
        self, keep: int, limit: int, names: Collection[str] = (), within: tuple[int, int] | None = None
    ) -> int:
        first, last = within or (0, reads.POSITION_MAX)
        self._db.execute(QUERIES["compact"], (keep, limit, reads.as_json(names) if names else None, first, last))
        dropped = self._db.changes()
        self._execute("expire", limit)
        # Give free pages back to the disk, a few at a time, so that the next body does not wait long.
        for _ in self._db.execute(f"PRAGMA incremental_vacuum({_PAGES_FREED_AT_ONCE})"):
            pass
        return dropped

    async def enqueue(self, jobs: Sequence[JobRequest]) -> Sequence[str]:
        ids = []
        for j in jobs:
            self._execute("enqueue", j.id, j.kind, j.variant, j.key, j.body, j.priority, j.node, j.time, j.context)
            if self._db.changes():
                ids.append(j.id)
            else:
                live = self._execute("live_key", j.key).fetchone()
                if live is None:  # the conflict is not the key but the id, of a job that has ended
                    raise IdConflict(j.id)
                ids.append(live[0])
        return ids

    async def claim(self, kinds: Collection[str], holder: str, seconds: float, limit: int) -> Sequence[Lease]:
        ready: list[tuple[int, int]] = []
        for kind in sorted(kinds):
            for node in (None, holder):
                ready.extend(self._execute("ready", kind, node, limit))
        ready.sort(key=lambda row: (-row[0], row[1]))
        return [self._values(Lease, "claim", number, holder, seconds)[0] for _, number in ready[:limit]]

    async def renew(self, renewals: Sequence[Renewal]) -> None:
        self._fenced(QUERIES["renew"], [(r.job, r.fence, r.progress, r.outputs) for r in renewals])

    async def finish(self, leases: Sequence[Renewal]) -> None:
        self._fenced(QUERIES["finish"], [(lease.job, lease.fence) for lease in leases])

    def _fenced(self, query: str, rows: Sequence[tuple[Any, ...]]) -> None:
        lost = []
        for row in rows:
            self._db.execute(query, row)
            if not self._db.changes():
                lost.append(row[0])
        if lost:
            raise LeaseLost(lost)

    async def fail(self, failures: Sequence[Failure]) -> Sequence[str]:
        ended = []
        for f in failures:
            state = "ready" if f.pause is not None else "dead"
            self._execute("fail", f.job, f.fence, state, f.pause or 0.0, f.error, f.renewals, 0 if f.started else 1)
            if self._db.changes():
                ended.append(f.job)
        return ended

    async def resume(self, jobs: Sequence[str]) -> None:
        self._db.executemany(QUERIES["resume"], [(job,) for job in jobs])

    async def cancel(self, jobs: Sequence[str]) -> int:
        count = 0
        for job in jobs:
            self._execute("cancel", job)
            count += self._db.changes()
        return count

    async def hold_role(self, role: str, holder: str, seconds: float, over: RoleRow | None) -> RoleRow | None:
        now = self._role(role)
        if now is not None and now.holder and now != over:
            return None
        self._execute("hold_role", role, holder, seconds)
        return self._role(role)

    def _role(self, role: str) -> RoleRow | None:
        return next(iter(self._values(RoleRow, "role", role)), None)

    async def renew_role(self, role: str, term: int) -> None:
        self._execute("renew_role", role, term)
        if not self._db.changes():
            raise LeaseLost([role])

    async def require_role(self, role: str, term: int) -> None:
        now = self._role(role)
        if now is None or now.term != term or not now.holder:
            raise NotLeader(role, (now.holder if now else "") or "no node")

    async def release_roles(self, holder: str | None) -> None:
        self._execute("release_roles", holder)

    async def put(self, records: Sequence[Put]) -> None:
        for r in records:
            self._execute("put", r.kind, r.id, r.body)
            self._execute("clear_index", r.kind, r.id)
            if r.index:
                self._db.executemany(QUERIES["put_index"], [(r.kind, f, v, r.id) for f, v in r.index.items()])

    async def delete(self, kind: str, ids: Sequence[str]) -> None:
        for id in ids:
            self._execute("clear_index", kind, id)
            self._execute("delete", kind, id)

    async def link(self, links: Sequence[tuple[str, str]]) -> None:
        numbers = self._numbers(name for child, parent in links for name in (parent, child))
        self._db.executemany(QUERIES["link"], [(numbers[child], numbers[parent]) for child, parent in links])

    async def put_origins(self, origins: Sequence[Origin]) -> None:
        numbered = ("model", "samples", "blob")
        values = (getattr(origin, field) for origin in origins for field in numbered)
        numbers = self._numbers(value for value in values if value is not None)
        rows = [
            tuple(numbers.get(value) if field in numbered else value for field, value in asdict(origin).items())
            for origin in origins
        ]
        self._db.executemany(QUERIES["put_origin"], rows)

    def _numbers(self, names: Iterable[str]) -> dict[str, int]:
        """The number of each of *names*; new names get one, in their order: parents come first."""
        unique = dict.fromkeys(names)
        if not unique:
            return {}
        numbers: dict[str, int] = dict(self._execute("numbers", reads.as_json(unique)))
        for name in unique:
            if name not in numbers:
                self._execute("name", name)
                numbers[name] = self._db.last_insert_rowid()
        return numbers
