"""Reads over SQLite: every query as a plain method, run inline in a transaction and in a thread otherwise."""

from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from importlib.resources import files
from typing import Any, Concatenate, ParamSpec, TypeVar

import apsw
import msgspec

from ringrift.events.base import Envelope
from ringrift.kernel.value import Value
from ringrift.store.ports import BEHIND_MAX, Delivery, JobRow, Origin, ReaderRow, RoleRow, Share

POSITION_MAX = 2**63 - 1
Offload = Callable[..., Awaitable[Any]]  # runs a function with its arguments, in a thread or inline
_P = ParamSpec("_P")
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


def as_json(values: Collection[str]) -> str:
    """*values* as the JSON list that ``json_each`` takes: one statement for any number of them."""
    return msgspec.json.encode(sorted(values)).decode()


def _as_json(numbers: Sequence[int]) -> str:
    return msgspec.json.encode(numbers).decode()


def query_value(db: apsw.Connection, query: str, args: tuple[Any, ...] = ()) -> Any:
    """The single value that *query* returns."""
    [(value,)] = db.execute(query, args)
    return value


def head(db: apsw.Connection) -> int:
    """The newest position."""
    position: int = query_value(db, QUERIES["head"])
    return position


def _query(
    query: "Callable[Concatenate[SqliteReads, _P], _T]",
) -> "Callable[Concatenate[SqliteReads, _P], Coroutine[Any, Any, _T]]":
    """*query* as an async method."""

    async def method(view: "SqliteReads", /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        if view._offload is None:
            return query(view, *args, **kwargs)
        result: _T = await view._offload(partial(query, view, *args, **kwargs))
        return result

    return method


class SqliteReads:
    """The queries of :class:`ringrift.store.ports.Reads`; *offload* runs each one in a thread, without it inline."""

    def __init__(self, db: apsw.Connection, offload: Offload | None = None) -> None:
        self._db, self._offload = db, offload

    def _execute(self, query: str, *args: Any) -> apsw.Cursor:
        return self._db.execute(QUERIES[query], args)

    def _values(self, type: type[_V], query: str, *args: Any) -> list[_V]:
        """The rows of *query*, whose columns are the fields of *type* in their order."""
        fields = type.__struct_fields__
        return [type(**dict(zip(fields, row, strict=True))) for row in self._execute(query, *args)]

    def _events(self, query: str, *args: Any) -> list[Envelope]:
        # Not by field name, which would take twice the time: this is the hottest read there is.
        return [Envelope(*row) for row in self._execute(query, *args)]

    @_query
    def head(self) -> int:
        return head(self._db)

    @_query
    def read(self, after: int, limit: int, names: Collection[str] = ()) -> Sequence[Envelope]:
        if names:
            return self._events("read_named", after, as_json(names), limit)
        return self._events("read", after, limit)

    @_query
    def last(self, before: int | None, limit: int, names: Collection[str] = ()) -> Sequence[Envelope]:
        end = POSITION_MAX if before is None else before
        return self._events("last", end, limit, as_json(names) if names else None)[::-1]

    @_query
    def events_by_id(self, ids: Sequence[str]) -> Sequence[Envelope]:
        return self._events("events_by_id", as_json(ids))

    @_query
    def events_at(self, positions: Sequence[int]) -> Sequence[Envelope]:
        return self._events("events_at", _as_json(positions))

    @_query
    def events_of_trace(self, trace: str, limit: int) -> Sequence[Envelope]:
        return self._events("events_of_trace", trace, limit)

    @_query
    def position_before(self, time: float) -> int:
        position: int = query_value(self._db, QUERIES["position_before"], (time,))
        return position

    @_query
    def readers(self) -> Sequence[ReaderRow]:
        rows = self._values(ReaderRow, "readers", BEHIND_MAX)
        return [msgspec.structs.replace(row, lapsed=bool(row.lapsed)) for row in rows]

    @_query
    def positions(self) -> Mapping[str, int]:
        return dict(self._execute("positions"))

    @_query
    def deliveries(self, states: Collection[str], limit: int, reader: str | None = None) -> Sequence[Delivery]:
        return self._values(Delivery, "deliveries", as_json(states), reader, limit)

    @_query
    def deliveries_at(self, reader: str, positions: Sequence[int]) -> Sequence[Delivery]:
        return self._values(Delivery, "deliveries_at", reader, _as_json(positions))

    @_query
    def jobs(
        self, states: Collection[str], limit: int, *, variant: str | None = None, holder: str | None = None
    ) -> Sequence[JobRow]:
        # Claimed and paused jobs have partial indexes of their own.
        if set(states) == {"claimed"}:
            return self._values(JobRow, "jobs_claimed", variant, holder, limit)
        if set(states) == {"paused"}:
            return self._values(JobRow, "jobs_paused", variant, limit)
        return self._values(JobRow, "jobs", as_json(states), variant, holder, limit)

    @_query
    def count_jobs(self, variant: str | None = None) -> Mapping[tuple[str, str], int]:
        return {(kind, state): count for kind, state, count in self._execute("count_jobs", variant) if count}

    @_query
    def roles(self) -> Sequence[RoleRow]:
        return self._values(RoleRow, "roles")

    @_query
    def get(self, kind: str, ids: Sequence[str]) -> Mapping[str, bytes]:
        return dict(self._execute("get", kind, as_json(ids)))

    @_query
    def find(self, kind: str, field: str, values: Sequence[str], limit: int) -> Mapping[str, bytes]:
        return dict(self._execute("find", kind, field, as_json(values), limit))

    @_query
    def scan(self, kind: str, after: str, limit: int) -> Mapping[str, bytes]:
        return dict(self._execute("scan", kind, after, limit))

    @_query
    def walk(self, roots: Sequence[str], up: bool, limit: int, kinds: Collection[str] = ()) -> Sequence[str]:
        # Generation by generation; each blob is visited once, so that circles end.
        query, kinds_json = "parents" if up else "children", as_json(kinds) if kinds else None
        edge = [number for _, number in self._execute("numbers", as_json(roots))]
        visited, order = set(edge), list[int]()
        while edge and len(order) < limit:
            nearest = [number for (number,) in self._execute(query, _as_json(edge), kinds_json)]
            edge = [number for number in nearest if number not in visited]
            visited.update(edge)
            order += edge
        names = dict(self._execute("named", _as_json(order[:limit])))
        return [names[number] for number in order[:limit]]

    @_query
    def origins(self, blobs: Sequence[str]) -> Sequence[Origin]:
        return self._values(Origin, "origins", as_json(set(blobs)))

    @_query
    def list_origins(self, kind: str, limit: int, *, variant: str | None = None, prefix: str = "") -> Sequence[Origin]:
        if prefix:
            return self._values(Origin, "list_origins_named", kind, variant, limit, prefix)
        return self._values(Origin, "list_origins", kind, variant, limit)

    @_query
    def origin_nodes(self, limit: int) -> Sequence[str]:
        return [node for (node,) in self._execute("origin_nodes", limit)]

    @_query
    def shares_by_node(self, kind: str, children: Sequence[str]) -> Sequence[Share]:
        return self._values(Share, "shares_by_node", kind, as_json(set(children)))

    @_query
    def share_of_node(self, kind: str, node: str, since: float, until: float, *, variant: str | None = None) -> Share:
        [share] = self._values(Share, "share_of_node", kind, node, since, until, variant)
        return share

    @_query
    def shares_made_from(
        self, kind: str, node: str, since: float, until: float, limit: int, *, variant: str | None = None
    ) -> Sequence[Share]:
        return self._values(Share, "shares_made_from", kind, node, since, until, variant, limit)
