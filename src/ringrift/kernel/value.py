"""Value: the frozen, keyword-only, wire-ready struct that everything stored or sent is made of."""

from typing import Any, TypeVar, dataclass_transform

import msgspec


@dataclass_transform(frozen_default=True, kw_only_default=True)
class ValueType(msgspec.StructMeta):
    """Passes ``frozen`` and ``kw_only`` on to subclasses, which msgspec leaves to each class."""

    def __new__(mcls, name: str, bases: tuple[type, ...], ns: dict[str, Any], **kw: Any) -> "ValueType":
        return super().__new__(mcls, name, bases, ns, **{"frozen": True, "kw_only": True, **kw})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, metaclass=ValueType):
    """Base of every event, job, record and setting."""


V = TypeVar("V", bound=Value)


def changed(value: V, **changes: object) -> V:
    """*value* with these *changes*."""
    return msgspec.structs.replace(value, **changes)
