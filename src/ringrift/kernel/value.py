"""Value: the frozen, keyword-only, wire-ready struct that everything stored or sent is made of."""

from typing import Any, dataclass_transform

import msgspec


@dataclass_transform(frozen_default=True, kw_only_default=True)
class _ValueType(msgspec.StructMeta):
    """Hands ``frozen`` and ``kw_only`` to subclasses, which msgspec leaves to each class."""

    def __new__(mcls, name: str, bases: tuple[type, ...], ns: dict[str, Any], **kw: Any) -> "_ValueType":
        return super().__new__(mcls, name, bases, ns, **{"frozen": True, "kw_only": True, **kw})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, metaclass=_ValueType):
    """Base of every event, job, record and setting."""
