"""The documented persistence of a user's own class: values by key in the store, there again after a restart."""

from collections.abc import Coroutine
from typing import Any, ClassVar, TypeVar

import msgspec

from ringrift.kernel.errors import Backpressure, InvalidId, InvalidPayload, TooLarge
from ringrift.store.ports import Put, Store, Tx
from ringrift_compat.ambient import ambient

T = TypeVar("T")
KIND, COUNTS = "app_value", "app_values"
VALUES_MAX = 1000
"""Values that one class may keep."""
VALUE_BYTES_MAX = 256 * 1024
"""What one value may have: it is written in one transaction, and others wait meanwhile."""


def packed(value: object) -> bytes:
    """*value* in bytes that bring it back: None, truth, numbers, text, bytes, lists and dictionaries of these.

    Raises InvalidPayload or TooLarge.
    """
    try:
        body = msgspec.msgpack.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as bad:
        raise InvalidPayload("$", f"cannot be stored: {bad}") from bad
    if len(body) > VALUE_BYTES_MAX:
        raise TooLarge(len(body), VALUE_BYTES_MAX)
    return body


def unpacked(body: bytes) -> Any:
    """What was packed; tuples and sets come back as lists."""
    return msgspec.msgpack.decode(body)


class SQLitePersistenceMixin:
    """Keeps values of a subclass in the SQLite store of the home, beside everything else that is kept there.

    ``save_value(key, value)`` returns when the value is durable, ``load_value(key, default)`` reads it, in this program
    or another on the same home; ``delete_value(key)`` and ``load_values()`` do what they say.  On a loop one may await
    ``save_value_async`` and ``load_value_async`` instead, which do not keep it.  There is no connection to hand out:
    the store has one for a process, and it is not shared with foreign statements.

    Instances of a class share its values.  ``persistence_name`` names them; without it, it is the module and the class,
    so a class in a script of its own should set it.
    """

    persistence_name: ClassVar[str] = ""

    def save_value(self, key: str, value: object) -> None:
        """Keep *value* under *key*.  Raises InvalidId, InvalidPayload, TooLarge, and Backpressure beyond VALUES_MAX."""
        _call(self._save(key, packed(value)))

    async def save_value_async(self, key: str, value: object) -> None:
        """As :meth:`save_value`, without keeping the loop."""
        await ambient.post(self._save(key, packed(value)))

    def load_value(self, key: str, default: Any = None) -> Any:
        """What is kept under *key*, or *default*."""
        return _call(self._load(key, default))

    async def load_value_async(self, key: str, default: Any = None) -> Any:
        """As :meth:`load_value`, without keeping the loop."""
        return await ambient.post(self._load(key, default))

    def load_values(self) -> dict[str, Any]:
        """Everything that the class keeps, by key."""
        return _call(self._load_all())

    def delete_value(self, key: str) -> bool:
        """Forget what is kept under *key*; whether there was something."""
        return _call(self._delete(key))

    def _kind(self) -> str:
        name = self.persistence_name or f"{type(self).__module__}.{type(self).__qualname__}"
        return f"{KIND}:{name}"

    async def _save(self, key: str, body: bytes) -> None:
        kind = self._kind()
        if not key:
            raise InvalidId("key", key)
        async with _store().begin() as tx:
            if not await tx.get(kind, [key]):
                await _count(tx, kind, 1)
            await tx.put([Put(kind=kind, id=key, body=body)])

    async def _load(self, key: str, default: Any) -> Any:
        async with _store().read() as view:
            found = await view.get(self._kind(), [key])
        return unpacked(found[key]) if key in found else default

    async def _load_all(self) -> dict[str, Any]:
        async with _store().read() as view:
            found = await view.scan(self._kind(), "", VALUES_MAX)
        return {record.id: unpacked(record.body) for record in found}

    async def _delete(self, key: str) -> bool:
        async with _store().begin() as tx:
            was_there = bool(await tx.get(self._kind(), [key]))
            if was_there:
                await _count(tx, self._kind(), -1)
                await tx.delete(self._kind(), [key])
        return was_there


async def _count(tx: Tx, kind: str, more: int) -> None:
    """Write down how many values *kind* has now, so that nobody need read them all.  Raises Backpressure."""
    found = (await tx.get(COUNTS, [kind])).get(kind)
    values = more + (int(found) if found else 0)
    if values > VALUES_MAX:
        raise Backpressure(kind, VALUES_MAX)
    await tx.put([Put(kind=COUNTS, id=kind, body=str(values).encode())])


def _store() -> Store:
    return ambient.node().store


def _call(work: Coroutine[Any, Any, T]) -> T:
    return ambient.call(work)
