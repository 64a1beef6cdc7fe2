"""The verbs of a transaction over SQLite: SQL inline on the loop's thread, never a thread hop per verb."""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import apsw
import msgspec

from ringrift.events.base import Envelope
from ringrift.kernel.errors import IdConflict, LeaseLost, NotLeader, Overtaken, UnknownName
from ringrift.store.ports import (
    Delivery,
    Failure,
    Held,
    JobRow,
    Lease,
    Origin,
    Put,
    ReaderRow,
    Record,
    RoleRow,
    Share,
    Wanted,
)
from ringrift.store.sqlite import reads
from ringrift.store.sqlite.connect import translate
from ringrift.store.sqlite.reads import QUERIES

PAGES_FREED_AT_ONCE = 500
T = TypeVar("T")
Ask = Callable[..., Any]


class SqliteReads:
    """The questions of :class:`ringrift.store.ports.Reads`; *ask* runs each one, inline or in a thread."""

    def __init__(self, db: apsw.Connection, ask: Ask | None = None) -> None:
        self._db = db
        self._offload = ask

    async def _ask(self, question: Callable[..., T], *args: Any) -> T:
        if self._offload is None:
            return question(self._db, *args)
        answer: T = await self._offload(question, self._db, *args)
        return answer

    async def head(self) -> int:
        """The newest position."""
        return await self._ask(reads.head)

    async def read(self, after: int, limit: int, names: Collection[str] = ()) -> Sequence[Envelope]:
        return await self._ask(reads.read, after, limit, names)

    async def last(self, before: int | None, limit: int, names: Collection[str] = ()) -> Sequence[Envelope]:
        return await self._ask(reads.last, before, limit, names)

    async def envelopes(self, ids: Sequence[str]) -> Sequence[Envelope]:
        return await self._ask(reads.envelopes, ids)

    async def story(self, trace: str, limit: int) -> Sequence[Envelope]:
        return await self._ask(reads.story, trace, limit)

    async def before(self, time: float) -> int:
        return await self._ask(reads.before, time)

    async def places(self) -> Mapping[str, int]:
        return await self._ask(reads.places)

    async def readers(self) -> Sequence[ReaderRow]:
        return await self._ask(reads.readers)

    async def deliveries(
        self, states: Collection[str], limit: int, reader: str | None = None, position: int | None = None
    ) -> Sequence[Delivery]:
        return await self._ask(reads.deliveries, states, limit, reader, position)

    async def deliveries_at(self, reader: str, positions: Sequence[int]) -> Sequence[Delivery]:
        return await self._ask(reads.deliveries_at, reader, positions)

    async def at(self, positions: Sequence[int]) -> Sequence[Envelope]:
        return await self._ask(reads.at, positions)

    async def jobs(
        self, states: Collection[str], limit: int, *, variant: str | None = None, holder: str | None = None
    ) -> Sequence[JobRow]:
        return await self._ask(reads.jobs, states, limit, variant, holder)

    async def tally(self, variant: str | None = None) -> Mapping[tuple[str, str], int]:
        return await self._ask(reads.tally, variant)

    async def roles(self) -> Sequence[RoleRow]:
        return await self._ask(reads.roles)

    async def get(self, kind: str, ids: Sequence[str]) -> Mapping[str, bytes]:
        return await self._ask(reads.get, kind, ids)

    async def find(self, kind: str, field: str, values: Sequence[str], limit: int) -> Sequence[Record]:
        return await self._ask(reads.find, kind, field, values, limit)

    async def scan(self, kind: str, after: str, limit: int) -> Sequence[Record]:
        return await self._ask(reads.scan, kind, after, limit)

    async def walk(self, roots: Sequence[str], up: bool, limit: int, kinds: Collection[str] = ()) -> Sequence[str]:
        return await self._ask(reads.walk, roots, up, limit, kinds)

    async def origins(self, blobs: Sequence[str]) -> Sequence[Origin]:
        return await self._ask(reads.origins, blobs)

    async def made(self, kind: str, limit: int, *, variant: str | None = None, prefix: str = "") -> Sequence[Origin]:
        return await self._ask(reads.made, kind, limit, variant, prefix)

    async def makers(self, limit: int) -> Sequence[str]:
        return await self._ask(reads.makers, limit)

    async def makers_of(self, kind: str, children: Sequence[str]) -> Sequence[Share]:
        return await self._ask(reads.makers_of, kind, children)

    async def made_by(self, kind: str, node: str, since: float, until: float, *, variant: str | None = None) -> Share:
        return await self._ask(reads.made_by, kind, node, since, until, variant)

    async def made_from(
        self, kind: str, node: str, since: float, until: float, limit: int, *, variant: str | None = None
    ) -> Sequence[Share]:
        return await self._ask(reads.made_from, kind, node, since, until, limit, variant)


class SqliteTx(SqliteReads):
    """The verbs of :class:`ringrift.store.ports.Tx`."""

    undone: apsw.Error | None = None
    """Why SQLite has undone everything while the body went on."""

    @asynccontextmanager
    async def apart(self) -> AsyncIterator[None]:
        self._db.execute("SAVEPOINT apart")
        try:
            yield
        except BaseException as wrong:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK TO apart")
                self._db.execute("RELEASE apart")
            if isinstance(wrong, apsw.Error):
                self._undone(wrong)
                raise translate(wrong, self._db.filename) from wrong
            raise
        self._db.execute("RELEASE apart")

    def _undone(self, wrong: apsw.Error) -> None:
        """A full disk can make SQLite undo the whole transaction: what the body still writes must not stay either."""
        if not self._db.in_transaction:
            self.undone = wrong
            self._db.execute("BEGIN")
            self._db.execute("SAVEPOINT body")

    # log ------------------------------------------------------------------------------------------------------------

    async def append(self, envelopes: Sequence[Envelope]) -> Sequence[Envelope]:
        db, query, done = self._db, QUERIES["append"], []
        for e in envelopes:
            row = (
                e.id, e.name, e.version, e.time, e.node, e.source, e.origin, e.correlation, e.cause, e.trace, e.depth,
                e.body,
            )  # fmt: skip
            db.execute(query, row)
            if db.changes():
                done.append(msgspec.structs.replace(e, position=db.last_insert_rowid()))
            else:
                done.append(self._first(e))
        return done

    def _first(self, again: Envelope) -> Envelope:
        [first] = reads.envelopes(self._db, [again.id])
        if (first.name, first.body) != (again.name, again.body):
            raise IdConflict(again.id)
        return first

    async def advance(self, reader: str, old: int, new: int) -> None:
        assert new >= old
        self._db.execute(QUERIES["advance"], (reader, old, new))
        if not self._db.changes():
            found = self._db.execute(QUERIES["place"], (reader,)).fetchone()
            raise Overtaken(reader, old, found[0] if found and not found[1] else None)

    async def enrol(self, reader: str, at: int) -> int:
        self._db.execute(QUERIES["enrol"], (reader, at))
        place, lapsed = self._db.execute(QUERIES["place"], (reader,)).get
        if lapsed:
            raise Overtaken(reader, place, None)
        return int(place)

    async def lapse(self, readers: Sequence[tuple[str, int]]) -> None:
        self._db.executemany(QUERIES["lapse"], readers)

    async def forget(self, reader: str) -> int:
        self._db.execute(QUERIES["forget"], (reader,))
        if not self._db.changes():
            raise UnknownName("reader", reader, reads.places(self._db))
        self._db.execute(QUERIES["forget_letters"], (reader,))
        return self._db.changes()

    async def park(self, deliveries: Sequence[Delivery]) -> None:
        rows = [(d.reader, d.position, d.state, d.attempts, d.pause, d.error, d.first, d.last) for d in deliveries]
        self._db.executemany(QUERIES["park"], rows)

    async def compact(
        self, keep: int, limit: int, names: Collection[str] = (), within: tuple[int, int] | None = None
    ) -> int:
        first, last = within or (0, reads.POSITION_MAX)
        self._db.execute(QUERIES["compact"], (keep, limit, reads.as_json(names) if names else None, first, last))
        dropped = self._db.changes()
        self._db.execute(QUERIES["expire"], (limit,))
        # Give free pages back to the disk, a few at a time: nobody waits long behind it.
        for _ in self._db.execute(f"PRAGMA incremental_vacuum({PAGES_FREED_AT_ONCE})"):
            pass
        return dropped

    # jobs -----------------------------------------------------------------------------------------------------------

    async def enqueue(self, jobs: Sequence[Wanted]) -> Sequence[str]:
        ids = []
        for j in jobs:
            row = (j.id, j.kind, j.variant, j.key, j.body, j.priority, j.node, j.time, j.context)
            self._db.execute(QUERIES["enqueue"], row)
            if self._db.changes():
                ids.append(j.id)
            else:
                alive = self._db.execute(QUERIES["live_key"], (j.key,)).fetchone()
                if alive is None:  # not the key was taken, but the id, by a job that has ended
                    raise IdConflict(j.id)
                ids.append(alive[0])
        return ids

    async def claim(self, kinds: Collection[str], holder: str, seconds: float, limit: int) -> Sequence[Lease]:
        ready: list[tuple[int, int]] = []
        for kind in sorted(kinds):
            for node in (None, holder):
                ready.extend(self._db.execute(QUERIES["ready"], (kind, node, limit)))
        ready.sort(key=lambda found: (-found[0], found[1]))
        return [self._claim(number, holder, seconds) for _, number in ready[:limit]]

    def _claim(self, number: int, holder: str, seconds: float) -> Lease:
        [row] = self._db.execute(QUERIES["claim"], (number, holder, seconds))
        job, kind, variant, key, body, by, fence, renewals, seconds, attempts, outputs, context = row
        return Lease(
            job=job, kind=kind, variant=variant, key=key, body=body, holder=by, fence=fence, renewals=renewals,
            seconds=seconds, attempts=attempts, outputs=outputs, context=context,
        )  # fmt: skip

    async def renew(self, held: Sequence[Held]) -> None:
        self._fenced(QUERIES["renew"], [(h.job, h.fence, h.progress, h.outputs) for h in held])

    async def finish(self, held: Sequence[Held]) -> None:
        self._fenced(QUERIES["finish"], [(h.job, h.fence) for h in held])

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
            row = (f.job, f.fence, state, f.pause or 0.0, f.error, f.renewals, 0 if f.started else 1)
            self._db.execute(QUERIES["fail"], row)
            if self._db.changes():
                ended.append(f.job)
        return ended

    async def resume(self, jobs: Sequence[str]) -> None:
        self._db.executemany(QUERIES["resume"], [(job,) for job in jobs])

    async def cancel(self, prefix: str) -> int:
        self._db.execute(QUERIES["cancel"], (prefix,))
        return self._db.changes()

    # roles ----------------------------------------------------------------------------------------------------------

    async def hold(self, role: str, holder: str, seconds: float, over: RoleRow | None) -> RoleRow | None:
        now = reads.role(self._db, role)
        if now is not None and now.holder and now != over:
            return None
        self._db.execute(QUERIES["hold"], (role, holder, seconds))
        return reads.role(self._db, role)

    async def keep(self, role: str, term: int) -> None:
        self._db.execute(QUERIES["keep"], (role, term))
        if not self._db.changes():
            raise LeaseLost([role])

    async def under(self, role: str, term: int) -> None:
        now = reads.role(self._db, role)
        if now is None or now.term != term or not now.holder:
            raise NotLeader(role, (now.holder if now else "") or "nobody")

    async def drop(self, holder: str | None) -> None:
        self._db.execute(QUERIES["drop"], (holder,))

    # records and links ----------------------------------------------------------------------------------------------

    async def put(self, records: Sequence[Put]) -> None:
        for r in records:
            self._db.execute(QUERIES["put"], (r.kind, r.id, r.body))
            self._db.execute(QUERIES["clear_index"], (r.kind, r.id))
            if r.index:
                self._db.executemany(QUERIES["put_index"], [(r.kind, f, v, r.id) for f, v in r.index.items()])

    async def delete(self, kind: str, ids: Sequence[str]) -> None:
        for id in ids:
            self._db.execute(QUERIES["clear_index"], (kind, id))
            self._db.execute(QUERIES["delete"], (kind, id))

    async def link(self, links: Sequence[tuple[str, str]]) -> None:
        numbers = self._numbers(name for child, parent in links for name in (parent, child))
        self._db.executemany(QUERIES["link"], [(numbers[child], numbers[parent]) for child, parent in links])

    async def originate(self, origins: Sequence[Origin]) -> None:
        names = (name for o in origins for name in (o.model, o.samples, o.blob) if name is not None)
        numbers = self._numbers(names)
        rows = [
            (
                numbers[o.blob], o.node, o.kind, o.variant, o.time, o.games, o.job, o.job_kind, o.key, o.seed,
                o.generation, None if o.model is None else numbers[o.model],
                None if o.samples is None else numbers[o.samples], o.workload, o.version, o.release, o.settings,
            )
            for o in origins
        ]  # fmt: skip
        self._db.executemany(QUERIES["originate"], rows)

    def _numbers(self, names: Iterable[str]) -> dict[str, int]:
        """The number of each of *names*; those that have none get one, in their order: parents come first."""
        wanted = dict.fromkeys(names)
        if not wanted:
            return {}
        found: dict[str, int] = dict(self._db.execute(QUERIES["numbers"], (reads.as_json(wanted),)))
        for name in wanted:
            if name not in found:
                self._db.execute(QUERIES["name"], (name,))
                found[name] = self._db.last_insert_rowid()
        return found
