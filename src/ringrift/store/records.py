"""Typed access to one kind of record: get, put, scan, find and delete values instead of bytes."""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Generic, TypeVar

import msgspec

from ringrift.kernel.errors import Damaged
from ringrift.store.ports import Put, Reads, Tx

T = TypeVar("T")
_Names = tuple[str, ...]
_ENCODER = msgspec.json.Encoder()
_SCAN_MAX = 10_000  # records that one scan returns if its kind declares no limit of its own
_DECODED_AT_ONCE = 200
_SEAL, _DIGEST_BYTES = b"#", 8  # a checked body is JSON, this sign and its checksum in hexadecimal


class Records(Generic[T]):
    """The records of *kind*, whose bodies are *type* as JSON.

    *id*, *index* and *order* are names of attributes: a value is stored under its *id* and can be found by each of its
    *index*; values that have no id of their own are written with :meth:`put_at`.  *limit* bounds what :meth:`scan` and
    :meth:`find` return; :meth:`all` sorts by *order*, otherwise by id.  Every read raises Damaged for a body that is
    not what was written, which *checked* records notice by a checksum; older ones have none and are accepted.
    """

    def __init__(
        self,
        kind: str,
        type: type[T],
        *,
        id: str = "",
        index: _Names = (),
        order: _Names = (),
        limit: int = _SCAN_MAX,
        checked: bool = False,
    ) -> None:
        self.kind, self.limit, self._checked = kind, limit, checked
        self._id, self._index, self._order = id, index, attrgetter(*order) if order else None
        self._decoder = msgspec.json.Decoder(type)

    async def get(self, view: Reads, id: str) -> T | None:
        """The value stored under *id*, if there is one."""
        return (await self.get_many(view, (id,))).get(id)

    async def get_many(self, view: Reads, ids: Sequence[str]) -> dict[str, T]:
        """The values stored under *ids*, by id; ids without a record are left out."""
        return await self._decode_all(await view.get(self.kind, ids))

    async def scan(self, view: Reads, after: str = "", limit: int | None = None) -> dict[str, T]:
        """Values by id, in the order of their ids, after *after*."""
        return await self._decode_all(await view.scan(self.kind, after, limit or self.limit))

    async def find(self, view: Reads, field: str, *values: str) -> dict[str, T]:
        """Values by id whose index *field* has one of *values*."""
        return await self._decode_all(await view.find(self.kind, field, values, self.limit))

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

    def row(self, id: str, value: T) -> Put:
        """The row of *value*, for a transaction that writes rows of several kinds."""
        return self._row(id, value, {})

    async def delete(self, tx: Tx, ids: Sequence[str]) -> None:
        await tx.delete(self.kind, ids)

    async def find_damaged(self, view: Reads) -> list[Damaged]:
        """An error for each record that cannot be read."""
        errors, after = [], ""
        while rows := await view.scan(self.kind, after, _SCAN_MAX):
            for after, body in rows.items():
                try:
                    self._decode({after: body})
                except Damaged as error:
                    errors.append(error)
        return errors

    def _row(self, id: str, value: T, index: Mapping[str, str]) -> Put:
        own = {name: getattr(value, name) for name in self._index}
        body = _ENCODER.encode(value)
        if self._checked:
            body += _SEAL + _digest(body)
        return Put(kind=self.kind, id=id, body=body, index={**own, **index})

    async def _decode_all(self, rows: Mapping[str, bytes]) -> dict[str, T]:
        """*rows* decoded so many at once that nothing else in this process waits long for it."""
        if len(rows) <= _DECODED_AT_ONCE:
            return self._decode(rows)
        items, values = list(rows.items()), dict[str, T]()
        for first in range(0, len(items), _DECODED_AT_ONCE):
            values |= self._decode(dict(items[first : first + _DECODED_AT_ONCE]))
            await asyncio.sleep(0)
        return values

    def _decode(self, rows: Mapping[str, bytes]) -> dict[str, T]:
        values = {}
        for id, body in rows.items():
            if self._checked and body[-2 * _DIGEST_BYTES - 1 : -2 * _DIGEST_BYTES] == _SEAL:
                body, digest = body[: -2 * _DIGEST_BYTES - 1], body[-2 * _DIGEST_BYTES :]
                if _digest(body) != digest:
                    raise Damaged(self.kind, id, "does not match its checksum")
            try:
                values[id] = self._decoder.decode(body)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise Damaged(self.kind, id, str(error)) from error
        return values


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).hexdigest().encode()
