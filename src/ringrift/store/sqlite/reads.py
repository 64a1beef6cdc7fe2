"""Every question to SQLite, as a plain function of a connection: inline in a transaction, in a thread otherwise."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import apsw
import msgspec

from ringrift.events.base import Envelope
from ringrift.store import sql
from ringrift.store.ports import BEHIND_MAX, Delivery, JobRow, Origin, ReaderRow, Record, RoleRow, Share

POSITION_MAX = 2**63 - 1
QUERIES = sql.load("ringrift.store.sqlite", "queries.sql")


def as_json(values: Collection[str]) -> str:
    """*values* as the JSON list that ``json_each`` takes: one statement for any number of them."""
    return msgspec.json.encode(sorted(values)).decode()


def _envelope(row: tuple[Any, ...]) -> Envelope:
    # Spelt out and not zipped: this is the hottest read there is.
    id, name, body, version, position, time, node, source, origin, correlation, cause, trace, depth = row
    return Envelope(
        id=id, name=name, body=body, version=version, position=position, time=time, node=node, source=source,
        origin=origin, correlation=correlation, cause=cause, trace=trace, depth=depth,
    )  # fmt: skip


def _delivery(row: tuple[Any, ...]) -> Delivery:
    reader, position, state, attempts, pause, error, first, last = row
    return Delivery(
        reader=reader, position=position, state=state, attempts=attempts, pause=pause, error=error, first=first,
        last=last,
    )  # fmt: skip


def _job(row: tuple[Any, ...]) -> JobRow:
    return JobRow(**dict(zip(JobRow.__struct_fields__, row, strict=True)))


def one(db: apsw.Connection, query: str, args: tuple[Any, ...] = ()) -> Any:
    """The single value that *query* answers with."""
    [(value,)] = db.execute(query, args)
    return value


def read(db: apsw.Connection, after: int, limit: int, names: Collection[str] = ()) -> Sequence[Envelope]:
    """Events behind *after*."""
    if names:
        rows = db.execute(QUERIES["read_named"], (after, as_json(names), limit))
    else:
        rows = db.execute(QUERIES["read"], (after, limit))
    return [_envelope(row) for row in rows]


def last(db: apsw.Connection, before: int | None, limit: int, names: Collection[str] = ()) -> Sequence[Envelope]:
    """The newest events before *before*, oldest first."""
    end = POSITION_MAX if before is None else before
    rows = db.execute(QUERIES["last"], (end, limit, as_json(names) if names else None))
    return [_envelope(row) for row in rows][::-1]


def envelopes(db: apsw.Connection, ids: Sequence[str]) -> Sequence[Envelope]:
    """Events by id."""
    return [_envelope(row) for row in db.execute(QUERIES["envelopes"], (as_json(ids),))]


def story(db: apsw.Connection, trace: str, limit: int) -> Sequence[Envelope]:
    """Events of one trace."""
    return [_envelope(row) for row in db.execute(QUERIES["story"], (trace, limit))]


def before(db: apsw.Connection, time: float) -> int:
    """The position before the first event at *time* or later."""
    position: int = one(db, QUERIES["before"], (time,))
    return position


def readers(db: apsw.Connection) -> Sequence[ReaderRow]:
    """Readers, how much waits for each and since when."""
    return [
        ReaderRow(reader=reader, position=position, lapsed=bool(lapsed), behind=behind, since=since)
        for reader, position, lapsed, behind, since in db.execute(QUERIES["readers"], (BEHIND_MAX,))
    ]


def places(db: apsw.Connection) -> Mapping[str, int]:
    """Readers and where they stand."""
    return dict(db.execute(QUERIES["places"]))


def deliveries(
    db: apsw.Connection, states: Collection[str], limit: int, reader: str | None = None, position: int | None = None
) -> Sequence[Delivery]:
    """Deliveries in *states*."""
    if reader is not None and position is not None:
        return [one for one in deliveries_at(db, reader, [position]) if one.state in states]
    return [_delivery(row) for row in db.execute(QUERIES["deliveries"], (as_json(states), reader, position, limit))]


def deliveries_at(db: apsw.Connection, reader: str, positions: Sequence[int]) -> Sequence[Delivery]:
    """Deliveries to *reader* of the events at *positions*."""
    rows = db.execute(QUERIES["deliveries_at"], (reader, msgspec.json.encode(positions).decode()))
    return [_delivery(row) for row in rows]


def at(db: apsw.Connection, positions: Sequence[int]) -> Sequence[Envelope]:
    """The events at *positions*."""
    return [_envelope(row) for row in db.execute(QUERIES["at"], (msgspec.json.encode(positions).decode(),))]


def jobs(
    db: apsw.Connection, states: Collection[str], limit: int, variant: str | None, holder: str | None
) -> Sequence[JobRow]:
    """Jobs in *states*; claimed and paused ones through their partial indexes."""
    if set(states) == {"claimed"}:
        rows = db.execute(QUERIES["jobs_claimed"], (variant, holder, limit))
    elif set(states) == {"paused"}:
        rows = db.execute(QUERIES["jobs_paused"], (variant, limit))
    else:
        rows = db.execute(QUERIES["jobs"], (as_json(states), variant, holder, limit))
    return [_job(row) for row in rows]


def tally(db: apsw.Connection, variant: str | None = None) -> Mapping[tuple[str, str], int]:
    """Jobs by (kind, state)."""
    return {(kind, state): count for kind, state, count in db.execute(QUERIES["tally"], (variant,)) if count}


def roles(db: apsw.Connection) -> Sequence[RoleRow]:
    """Every role."""
    return [RoleRow(**dict(zip(RoleRow.__struct_fields__, row, strict=True))) for row in db.execute(QUERIES["roles"])]


def role(db: apsw.Connection, name: str) -> RoleRow | None:
    """One role."""
    row = db.execute(QUERIES["role"], (name,)).fetchone()
    return RoleRow(**dict(zip(RoleRow.__struct_fields__, row, strict=True))) if row else None


def get(db: apsw.Connection, kind: str, ids: Sequence[str]) -> Mapping[str, bytes]:
    """Records by id."""
    return dict(db.execute(QUERIES["get"], (kind, as_json(ids))))


def find(db: apsw.Connection, kind: str, field: str, values: Sequence[str], limit: int) -> Sequence[Record]:
    """Records by index field."""
    rows = db.execute(QUERIES["find"], (kind, field, as_json(values), limit))
    return [Record(kind=kind, id=id, body=body) for kind, id, body in rows]


def scan(db: apsw.Connection, kind: str, after: str, limit: int) -> Sequence[Record]:
    """Records of one kind."""
    return [Record(kind=kind, id=id, body=body) for kind, id, body in db.execute(QUERIES["scan"], (kind, after, limit))]


def walk(db: apsw.Connection, roots: Sequence[str], up: bool, limit: int, kinds: Collection[str] = ()) -> Sequence[str]:
    """Ancestors or descendants, generation by generation: each is visited once, so that circles end."""
    query, among = QUERIES["parents" if up else "children"], as_json(kinds) if kinds else None
    edge = [number for _, number in db.execute(QUERIES["numbers"], (as_json(roots),))]
    seen, found = set(edge), list[int]()
    while edge and len(found) < limit:
        nearest = [number for (number,) in db.execute(query, (_numbers(edge), among))]
        edge = [number for number in nearest if number not in seen]
        seen.update(edge)
        found += edge
    names = dict(db.execute(QUERIES["named"], (_numbers(found[:limit]),)))
    return [names[number] for number in found[:limit]]


def _numbers(numbers: Sequence[int]) -> str:
    return msgspec.json.encode(numbers).decode()


def _origin(row: tuple[Any, ...]) -> Origin:
    blob, node, kind, variant, time, games, job, job_kind, key, seed, generation, model, samples, *made_by = row
    workload, version, release, settings = made_by
    return Origin(
        blob=blob, node=node, kind=kind, variant=variant, time=time, games=games, job=job, job_kind=job_kind, key=key,
        seed=seed, generation=generation, model=model, samples=samples, workload=workload, version=version,
        release=release, settings=settings,
    )  # fmt: skip


def origins(db: apsw.Connection, blobs: Sequence[str]) -> Sequence[Origin]:
    """How blobs were made."""
    return [_origin(row) for row in db.execute(QUERIES["origins"], (as_json(set(blobs)),))]


def made(db: apsw.Connection, kind: str, limit: int, variant: str | None = None, prefix: str = "") -> Sequence[Origin]:
    """The newest origins of a kind, or those whose blobs begin with *prefix*."""
    if prefix:
        return [_origin(row) for row in db.execute(QUERIES["made_named"], (kind, variant, limit, prefix))]
    return [_origin(row) for row in db.execute(QUERIES["made"], (kind, variant, limit))]


def makers(db: apsw.Connection, limit: int) -> Sequence[str]:
    """Nodes that made something."""
    return [node for (node,) in db.execute(QUERIES["makers"], (limit,))]


def makers_of(db: apsw.Connection, kind: str, children: Sequence[str]) -> Sequence[Share]:
    """By node, what of *kind* went into *children*."""
    rows = db.execute(QUERIES["makers_of"], (kind, as_json(set(children))))
    return [Share(name=name, blobs=blobs, games=games) for name, blobs, games in rows]


def made_by(db: apsw.Connection, kind: str, node: str, since: float, until: float, variant: str | None) -> Share:
    """How much of *kind* a node made."""
    [(blobs, games)] = db.execute(QUERIES["made_by"], (kind, node, since, until, variant))
    return Share(name=node, blobs=blobs, games=games)


def made_from(
    db: apsw.Connection, kind: str, node: str, since: float, until: float, limit: int, variant: str | None
) -> Sequence[Share]:
    """What was made from a node's blobs of *kind*."""
    rows = db.execute(QUERIES["made_from"], (kind, node, since, until, variant, limit))
    return [Share(name=name, blobs=blobs, games=games) for name, blobs, games in rows]


def head(db: apsw.Connection) -> int:
    """The newest position."""
    position: int = one(db, QUERIES["head"])
    return position
