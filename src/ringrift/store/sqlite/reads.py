"""Reads over SQLite: each query runs inline in a transaction, and in a thread otherwise."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.resources import files
from typing import Any, TypeVar

import apsw
import msgspec

from ringrift.events.base import Envelope
from ringrift.jobs import JobQuery
from ringrift.kernel.errors import Overdue
from ringrift.kernel.value import Value
from ringrift.store.ports import BEHIND_MAX, STATES, Delivery, JobCounter, JobRow, Origin, ReaderRow, RoleRow, Share

POSITION_MAX = 2**63 - 1
Offload = Callable[..., Awaitable[Any]]  # runs a function with its arguments, in a thread or inline
_Key = str | None
_Names = Collection[str]
_T = TypeVar("_T")
_V = TypeVar("_V", bound=Value)


def _load_queries() -> Mapping[str, str]:
    """The queries of queries.sql by name; each follows a line ``-- name: x`` and a line that describes it."""
    queries: dict[str, str] = {}
    for block in files("ringrift.store.sqlite").joinpath("queries.sql").read_text().split("-- name: ")[1:]:
        name, description, query = block.split("\n", 2)
        assert description.startswith("-- "), f"query {name} has no description"
        assert name not in queries, f"query {name} is defined twice"
        queries[name.strip()] = query.strip().rstrip(";")
    return queries


QUERIES = _load_queries()


def as_json(values: Collection[str] | Collection[int]) -> str:
    """*values* as the JSON list that ``json_each`` takes: one statement for any number of them."""
    return msgspec.json.encode(sorted(values)).decode()


def query_value(db: apsw.Connection, query: str) -> Any:
    """The single value that *query* returns."""
    [(value,)] = db.execute(query)
    return value


def head(db: apsw.Connection) -> int:
    """The newest position."""
    return int(query_value(db, QUERIES["head"]))


class SqliteReads:
    """The queries of :class:`ringrift.store.ports.Reads`; *offload* runs each one in a thread, without it inline."""

    def __init__(self, db: apsw.Connection, offload: Offload | None = None) -> None:
        self._db, self._offload, self._ended = db, offload, 0.0

    def _execute(self, query: str, *args: Any) -> apsw.Cursor:
        return self._db.execute(QUERIES[query], args)

    async def _run(self, call: Callable[[], _T]) -> _T:
        if self._ended:
            raise Overdue(self._ended, "read")
        result: _T = call() if self._offload is None else await self._offload(call)
        return result

    async def _query(self, make: Callable[[apsw.Cursor], _T], query: str, *args: Any) -> _T:
        """What *make* makes of the rows of *query*."""
        return await self._run(lambda: make(self._execute(query, *args)))

    async def _values(self, type: type[_V], query: str, *args: Any) -> list[_V]:
        """The rows of *query*, whose columns are the fields of *type* in their order."""
        keys = type.__struct_fields__
        return await self._query(lambda rows: [type(**dict(zip(keys, row, strict=True))) for row in rows], query, *args)

    async def _events(self, query: str, *args: Any) -> list[Envelope]:
        # Not by field name, which would take twice the time: this is the hottest read there is.
        return await self._query(lambda rows: [Envelope(*row) for row in rows], query, *args)

    def end(self, seconds: float) -> None:
        """Refuse further queries, after *seconds*, and let go of what the view saw."""
        self._ended = seconds
        self._db.interrupt()
        with suppress(apsw.ThreadingViolationError):  # a query runs in a thread, and is interrupted
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    async def head(self) -> int:
        return await self._run(partial(head, self._db))

    async def read(self, after: int, limit: int, names: Collection[str] = ()) -> Sequence[Envelope]:
        if names:
            return await self._events("read_named", after, as_json(names), limit)
        return await self._events("read", after, limit)

    async def last(self, before: int | None, limit: int, names: Collection[str] = ()) -> Sequence[Envelope]:
        end = POSITION_MAX if before is None else before
        return (await self._events("last", end, limit, as_json(names) if names else None))[::-1]

    async def events_by_id(self, ids: Sequence[str]) -> Sequence[Envelope]:
        return await self._events("events_by_id", as_json(ids))

    async def events_at(self, positions: Sequence[int]) -> Sequence[Envelope]:
        return await self._events("events_at", as_json(positions))

    async def events_of_trace(self, trace: str, limit: int) -> Sequence[Envelope]:
        return await self._events("events_of_trace", trace, limit)

    async def position_before(self, time: float) -> int:
        [(position,)] = await self._query(list, "position_before", time)
        return int(position)

    async def readers(self) -> Sequence[ReaderRow]:
        rows = await self._values(ReaderRow, "readers", BEHIND_MAX)
        return [msgspec.structs.replace(row, lapsed=bool(row.lapsed)) for row in rows]

    async def positions(self) -> Mapping[str, int]:
        return await self._query(dict, "positions")

    async def deliveries(self, states: Collection[str], limit: int, reader: str | None = None) -> Sequence[Delivery]:
        return await self._values(Delivery, "deliveries", as_json(states), reader, limit)

    async def deliveries_at(self, reader: str, positions: Sequence[int]) -> Sequence[Delivery]:
        return await self._values(Delivery, "deliveries_at", reader, as_json(positions))

    async def jobs(self, states: _Names, limit: int, *, variant: _Key = None, holder: _Key = None) -> Sequence[JobRow]:
        # All but done and cancelled jobs have partial indexes of their own.
        if set(states) == {"claimed"}:
            if holder is not None:
                return await self._values(JobRow, "jobs_held", holder, variant, limit)
            return await self._values(JobRow, "jobs_claimed", variant, limit)
        if set(states) == {"paused"}:
            return await self._values(JobRow, "jobs_paused", variant, limit)
        dead = "jobs_dead" if set(states) == {"dead"} else "jobs"
        query = "jobs_live" if set(states) <= {"ready", "claimed"} else dead
        return await self._values(JobRow, query, as_json(states), variant, holder, limit)

    async def list_jobs(self, query: JobQuery, limit: int) -> Sequence[JobRow]:
        filters = (query.begins, query.ends, query.variant, query.kind, query.node)
        return await self._values(JobRow, "list_jobs", as_json(query.states or STATES), *filters, limit)

    async def count_jobs(self, variant: str | None = None) -> Mapping[tuple[str, str], int]:
        rows = await self._query(list, "count_jobs", variant)
        return {(kind, state): count for kind, state, count in rows if count}

    async def tasks(self, limit: int, *, keys: Sequence[str] | None = None) -> Sequence[JobRow]:
        if keys is None:
            return await self._values(JobRow, "tasks_running", limit)
        return (await self._values(JobRow, "tasks_with_keys", as_json(keys)))[:limit]

    async def last_tasks(self, limit: int) -> Sequence[JobRow]:
        return (await self._values(JobRow, "tasks_newest", limit))[::-1]

    async def job_counters(self, state: str, kinds: Collection[str]) -> Sequence[JobCounter]:
        return await self._values(JobCounter, "job_counters", state, as_json(kinds))

    async def roles(self) -> Sequence[RoleRow]:
        return await self._values(RoleRow, "roles")

    async def get(self, kind: str, ids: Sequence[str]) -> Mapping[str, bytes]:
        if len(ids) == 1:  # every claim reads several single records
            return await self._query(dict, "get_one", kind, ids[0])
        return await self._query(dict, "get", kind, as_json(ids))

    async def find(self, kind: str, field: str, values: Sequence[str], limit: int) -> Mapping[str, bytes]:
        return await self._query(dict, "find", kind, field, as_json(set(values)), limit)

    async def scan(self, kind: str, after: str, limit: int) -> Mapping[str, bytes]:
        return await self._query(dict, "scan", kind, after, limit)

    async def walk(self, roots: Sequence[str], up: bool, limit: int, kinds: Collection[str] = ()) -> Sequence[str]:
        return await self._run(partial(self._walk, roots, up, limit, kinds))

    def _walk(self, roots: Sequence[str], up: bool, limit: int, kinds: Collection[str]) -> list[str]:
        # Generation by generation; each blob is visited once, so that circles end.
        query, kinds_json = "parents" if up else "children", as_json(kinds) if kinds else None
        edge = [number for _, number in self._execute("numbers", as_json(roots))]
        visited, order = set(edge), list[int]()
        while edge and len(order) < limit:
            nearest = [number for (number,) in self._execute(query, as_json(edge), kinds_json)]
            edge = [number for number in nearest if number not in visited]
            visited.update(edge)
            order += edge
        names = dict(self._execute("named", as_json(order[:limit])))
        return [names[number] for number in order[:limit]]

    async def origins(self, blobs: Sequence[str]) -> Sequence[Origin]:
        return await self._values(Origin, "origins", as_json(set(blobs)))

    async def list_origins(self, kind: str, limit: int, *, variant: _Key = None, prefix: str = "") -> Sequence[Origin]:
        if prefix:
            return await self._values(Origin, "list_origins_named", kind, variant, limit, prefix)
        return await self._values(Origin, "list_origins", kind, variant, limit)

    async def origin_nodes(self, limit: int) -> Sequence[str]:
        return [node for (node,) in await self._query(list, "origin_nodes", limit)]

    async def shares_by_node(self, kind: str, children: Sequence[str]) -> Sequence[Share]:
        return await self._values(Share, "shares_by_node", kind, as_json(set(children)))

    async def share_of_node(self, kind: str, node: str, since: float, until: float, *, variant: _Key = None) -> Share:
        return (await self._values(Share, "share_of_node", kind, node, since, until, variant))[0]

    async def shares_made_from(
        self, kind: str, node: str, since: float, until: float, limit: int, *, variant: str | None = None
    ) -> Sequence[Share]:
        return await self._values(Share, "shares_made_from", kind, node, since, until, variant, limit)
