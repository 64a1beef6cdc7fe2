"""The documented persistence of a user's own class: values by key in the store, there again after a restart."""

from typing import Any, ClassVar

import msgspec

from ringrift.kernel.errors import Backpressure, InvalidId, InvalidPayload, TooLarge
from ringrift.store.ports import Put, Tx
from ringrift_compat.embedded_node import embedded

_KIND, _COUNTS = "app_value", "app_values"
_VALUES_MAX = 1000
"""Values that one class may keep."""
_VALUE_BYTES_MAX = 256 * 1024
"""The size of one value: it is written in one transaction, and others wait meanwhile."""


def pack(value: object) -> bytes:
    """*value* in bytes: None, booleans, numbers, text, bytes, lists and dictionaries of these.

    Raises InvalidPayload or TooLarge.
    """
    try:
        body = msgspec.msgpack.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as bad:
        raise InvalidPayload("$", f"cannot be stored: {bad}") from bad
    if len(body) > _VALUE_BYTES_MAX:
        raise TooLarge(len(body), _VALUE_BYTES_MAX)
    return body


def unpack(body: bytes) -> Any:
    """The value that was packed; tuples and sets come back as lists."""
    return msgspec.msgpack.decode(body)


class SQLitePersistenceMixin:
    """Keeps values of a subclass in the SQLite store of the home, beside everything else that is stored there.

    Instances of a class share its values.  ``persistence_name`` names them; without it, it is the module and the class,
    so a class in a script of its own should set it.  There is no connection to hand out: the store has one for a
    process, and does not share it with foreign statements.
    """

    persistence_name: ClassVar[str] = ""

    def save_value(self, key: str, value: object) -> None:
        """Keep *value* under *key*; returns when it is durable.

        Raises InvalidId, InvalidPayload, TooLarge, and Backpressure beyond _VALUES_MAX.
        """
        embedded.call(self._save(key, pack(value)))

    def load_value(self, key: str, default: Any = None) -> Any:
        """The value of *key*, or *default*."""
        return embedded.call(self._load(key, default))

    def load_values(self) -> dict[str, Any]:
        """All values of the class, by key."""
        records = embedded.query(lambda view: view.scan(self._kind(), "", _VALUES_MAX))
        return {key: unpack(body) for key, body in records.items()}

    def delete_value(self, key: str) -> bool:
        """Forget the value of *key*; whether there was one."""
        return embedded.call(self._delete(key))

    def _kind(self) -> str:
        name = self.persistence_name or f"{type(self).__module__}.{type(self).__qualname__}"
        return f"{_KIND}:{name}"

    async def _save(self, key: str, body: bytes) -> None:
        if not key:
            raise InvalidId("key", key, "must not be empty")
        kind = self._kind()
        async with embedded.node().store.begin() as tx:
            if not await tx.get(kind, [key]):
                await _count(tx, kind, 1)
            await tx.put([Put(kind=kind, id=key, body=body)])

    async def _load(self, key: str, default: Any) -> Any:
        async with embedded.node().store.read() as view:
            bodies = await view.get(self._kind(), [key])
        return unpack(bodies[key]) if key in bodies else default

    async def _delete(self, key: str) -> bool:
        async with embedded.node().store.begin() as tx:
            exists = bool(await tx.get(self._kind(), [key]))
            if exists:
                await _count(tx, self._kind(), -1)
                await tx.delete(self._kind(), [key])
        return exists


async def _count(tx: Tx, kind: str, change: int) -> None:
    """Write down how many values *kind* has, so that none need be read for it.  Raises Backpressure."""
    values = int((await tx.get(_COUNTS, [kind])).get(kind, 0)) + change
    if values > _VALUES_MAX:
        raise Backpressure(kind, _VALUES_MAX)
    await tx.put([Put(kind=_COUNTS, id=kind, body=str(values).encode())])
