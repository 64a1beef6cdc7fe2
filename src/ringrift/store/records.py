"""Typed access to one kind of record: get, put, scan, find and delete values instead of bytes."""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Generic, TypeVar

import msgspec

from ringrift.store.ports import Put, Reads, Tx

T = TypeVar("T")
_Names = tuple[str, ...]
_ENCODER = msgspec.json.Encoder()
_SCAN_MAX = 10_000  # records that one scan returns if its kind declares no limit of its own


class Records(Generic[T]):
    """The records of *kind*, whose bodies are *type* as JSON.

    *id*, *index* and *order* are names of attributes: a value is stored under its *id* and can be found by each of its
    *index*; values that have no id of their own are written with :meth:`put_at`.  *limit* bounds what :meth:`scan` and
    :meth:`find` return; :meth:`all` sorts by *order*, otherwise by id.
    """

    def __init__(
        self, kind: str, type: type[T], *, id: str = "", index: _Names = (), order: _Names = (), limit: int = _SCAN_MAX
    ) -> None:
        self.kind, self.limit = kind, limit
        self._id, self._index, self._order = id, index, attrgetter(*order) if order else None
        self._decoder = msgspec.json.Decoder(type)

    async def get(self, view: Reads, id: str) -> T | None:
        """The value stored under *id*, if there is one."""
        return (await self.get_many(view, (id,))).get(id)

    async def get_many(self, view: Reads, ids: Sequence[str]) -> dict[str, T]:
        """The values stored under *ids*, by id; ids without a record are left out."""
        return {id: self._decoder.decode(body) for id, body in (await view.get(self.kind, ids)).items()}

    async def scan(self, view: Reads, after: str = "", limit: int | None = None) -> dict[str, T]:
        """Values by id, in the order of their ids, after *after*."""
        rows = await view.scan(self.kind, after, limit or self.limit)
        return {id: self._decoder.decode(body) for id, body in rows.items()}

    async def find(self, view: Reads, field: str, *values: str) -> dict[str, T]:
        """Values by id whose index *field* has one of *values*."""
        rows = await view.find(self.kind, field, values, self.limit)
        return {id: self._decoder.decode(body) for id, body in rows.items()}

    async def all(self, view: Reads, field: str = "", *values: str) -> list[T]:
        """The values themselves: every one, or those whose index *field* has one of *values*."""
        by_id = await self.find(view, field, *values) if field else await self.scan(view)
        return sorted(by_id.values(), key=self._order) if self._order else list(by_id.values())

    async def put(self, tx: Tx, values: Iterable[T]) -> None:
        """Write *values* under their own ids, replacing what was there."""
        assert self._id, f"{self.kind}: values of this kind have no id of their own: use put_at"
        await tx.put([self._row(getattr(value, self._id), value, {}) for value in values])

    async def put_at(self, tx: Tx, values: Mapping[str, T], index: Mapping[str, str] | None = None) -> None:
        """Write each value under its key, replacing what was there; *index* is added to each value's own."""
        await tx.put([self._row(id, value, index or {}) for id, value in values.items()])

    async def delete(self, tx: Tx, ids: Sequence[str]) -> None:
        await tx.delete(self.kind, ids)

    def _row(self, id: str, value: T, index: Mapping[str, str]) -> Put:
        own = {name: getattr(value, name) for name in self._index}
        return Put(kind=self.kind, id=id, body=_ENCODER.encode(value), index={**own, **index})
