"""Transactions over SQLite: their SQL runs inline on the loop's thread."""

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import product
from typing import Any

import apsw
from msgspec.structs import asdict, astuple, replace

from ringrift.events.base import Envelope
from ringrift.kernel.errors import IdConflict, LeaseLost, NotLeader, Overtaken, UnknownName
from ringrift.store import ports
from ringrift.store.ports import Lease, RoleRow
from ringrift.store.sqlite import reads
from ringrift.store.sqlite.connect import translate
from ringrift.store.sqlite.reads import QUERIES, SqliteReads

_PAGES_FREED_AT_ONCE = 500
_LEASE_FIELDS = Lease.__struct_fields__
_Ready = tuple[int, int, str, str]
"""Priority, number, kind and variant of a ready job; the variant only where the terms of a claim depend on it."""


def _choose(ready: Sequence[_Ready], limit: int, terms: ports.ClaimTerms) -> list[_Ready]:
    """The first *limit* of *ready* that *terms* allow beside each other."""
    places, chosen = [count for _, count in terms.places], list[_Ready]()
    variants = set[tuple[str, str]]()
    for row in ready:
        _, _, kind, variant = row
        bounds = [index for index, (kinds, _) in enumerate(terms.places) if kind in kinds]
        if len(chosen) == limit or any(places[index] <= 0 for index in bounds):
            continue
        if kind in terms.one_per_variant:
            if (kind, variant) in variants:
                continue
            variants.add((kind, variant))
        for index in bounds:
            places[index] -= 1
        chosen.append(row)
    return chosen


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

    def _change(self, query: str, *args: Any) -> int:
        """The number of rows that *query* changes."""
        self._execute(query, *args)
        return self._db.changes()

    async def append(self, envelopes: Sequence[Envelope]) -> Sequence[Envelope]:
        db, query, appended = self._db, QUERIES["append"], []
        for e in envelopes:
            context = (e.correlation, e.cause, e.trace, e.depth)
            db.execute(query, (e.id, e.name, e.body, e.version, e.time, e.node, e.source, e.labels, *context))
            appended.append(replace(e, position=db.last_insert_rowid()) if db.changes() else await self._first(e))
        return appended

    async def _first(self, repeated: Envelope) -> Envelope:
        [first] = await self._events("events_by_id", reads.as_json([repeated.id]))
        if (first.name, first.body) != (repeated.name, repeated.body):
            raise IdConflict(repeated.id)
        return first

    async def advance(self, reader: str, old: int, new: int) -> None:
        assert new >= old
        if not self._change("advance", reader, old, new):
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
        if not self._change("forget_reader", reader):
            raise UnknownName("reader", reader, dict(self._execute("positions")))
        return self._change("forget_deliveries", reader)

    async def put_deliveries(self, deliveries: Sequence[ports.Delivery]) -> None:
        self._db.executemany(QUERIES["put_delivery"], [astuple(delivery) for delivery in deliveries])

    async def compact(
        self, keep: int, limit: int, names: Collection[str] = (), within: tuple[int, int] | None = None
    ) -> int:
        first, last = within or (0, reads.POSITION_MAX)
        dropped = self._change("compact", keep, limit, reads.as_json(names) if names else None, first, last)
        self._execute("expire", limit)
        self._execute("forget_counters")
        # Give free pages back to the disk, a few at a time, so that the next body does not wait long.
        for _ in self._db.execute(f"PRAGMA incremental_vacuum({_PAGES_FREED_AT_ONCE})"):
            pass
        return dropped

    async def archive_jobs(self, keep: int, limit: int) -> int:
        return self._change("archive", keep, limit)

    async def enqueue(self, jobs: Sequence[ports.JobRequest]) -> Sequence[str]:
        ids = []
        for j in jobs:
            if self._change("enqueue", *astuple(j)):
                ids.append(j.id)
            else:
                live = self._execute("live_key", j.key).fetchone()
                if live is None:  # the conflict is not the key but the id, of a job that has ended
                    raise IdConflict(j.id)
                ids.append(live[0])
        return ids

    async def claim(
        self, kinds: Collection[str], holder: str, seconds: float, limit: int, terms: ports.ClaimTerms | None = None
    ) -> Sequence[Lease]:
        terms, queues = terms or ports.ClaimTerms(), product(sorted(kinds), (None, holder))
        ready = [row for kind, node in queues for row in self._ready(kind, node, limit, terms)]
        ready.sort(key=lambda row: (-row[0], row[1]))
        numbers = [row[1] for row in _choose(ready, limit, terms)]
        rows = {row[0]: row[1:] for row in self._execute("claim_all", reads.as_json(numbers), holder, seconds)}
        return [Lease(**dict(zip(_LEASE_FIELDS, rows[number], strict=True))) for number in numbers]

    def _ready(self, kind: str, node: str | None, limit: int, terms: ports.ClaimTerms) -> Iterator[_Ready]:
        is_narrow = terms.without_jobs or terms.only_jobs is not None
        if kind not in terms.without and kind not in terms.one_per_variant and not is_narrow:
            yield from ((*row, kind, "") for row in self._execute("ready", kind, node, limit))
            return
        without = reads.as_json(terms.without.get(kind, ())), reads.as_json(terms.without_jobs)
        only = None if terms.only_jobs is None else reads.as_json(terms.only_jobs)
        for priority, number, variant in self._execute("ready_except", kind, node, limit, *without, only):
            yield priority, number, kind, variant

    async def register_tasks(self, tasks: Sequence[ports.TaskRequest]) -> Sequence[int | None]:
        fences = [self._execute("register", *astuple(task)).fetchone() for task in tasks]
        return [row[0] if row else None for row in fences]

    async def change_tasks(self, changes: Sequence[ports.TaskChange]) -> Sequence[str]:
        changed = []
        for change in changes:
            if self._change("change_task", *astuple(change)):
                changed.append(change.job)
                if change.state != "claimed":
                    self._execute("empty_old_task", ports.TASKS_RETAINED)
        return changed

    async def renew(self, renewals: Sequence[ports.Renewal]) -> None:
        self._fenced("renew", [astuple(renewal) for renewal in renewals])

    async def finish(self, leases: Sequence[ports.Renewal]) -> None:
        self._fenced("finish", [(lease.job, lease.fence) for lease in leases])

    def _fenced(self, query: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if lost := [row[0] for row in rows if not self._change(query, *row)]:
            raise LeaseLost(lost)

    async def fail(self, failures: Sequence[ports.Failure]) -> Sequence[str]:
        ended = []
        for f in failures:
            state = "ready" if f.pause is not None else "dead"
            if self._change("fail", f.job, f.fence, state, f.pause or 0.0, f.error, f.renewals, int(not f.started)):
                ended.append(f.job)
        return ended

    async def resume(self, jobs: Sequence[str]) -> None:
        self._db.executemany(QUERIES["resume"], [(job,) for job in jobs])

    async def cancel(self, jobs: Sequence[str]) -> int:
        return sum(self._change("cancel", job) for job in jobs)

    async def hold_role(self, role: str, holder: str, seconds: float, over: RoleRow | None) -> RoleRow | None:
        now = await self._role(role)
        if now is not None and now.holder and now != over:
            return None
        self._execute("hold_role", role, holder, seconds)
        return await self._role(role)

    async def _role(self, role: str) -> RoleRow | None:
        return next(iter(await self._values(RoleRow, "role", role)), None)

    async def renew_role(self, role: str, term: int) -> None:
        if not self._change("renew_role", role, term):
            raise LeaseLost([role])

    async def require_role(self, role: str, term: int) -> None:
        now = await self._role(role)
        if now is None or now.term != term or not now.holder:
            raise NotLeader(role, (now.holder if now else "") or "no node")

    async def release_roles(self, holder: str | None) -> None:
        self._execute("release_roles", holder)

    async def put(self, records: Sequence[ports.Put]) -> None:
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

    async def put_origins(self, origins: Sequence[ports.Origin]) -> None:
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
