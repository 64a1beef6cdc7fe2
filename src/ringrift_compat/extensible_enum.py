"""Extensible enumerations: documented names to which a user may add names of their own."""

from enum import EnumMeta, StrEnum
from typing import Any, TypeVar

_E = TypeVar("_E", bound=StrEnum)
_MEMBERS_MAX = 10_000


class ExtensibleEnum(EnumMeta):
    """Finds a member under any spelling of its class, and says how to declare one that does not exist."""

    def __getattr__(cls, name: str) -> Any:
        if not name.startswith("_"):
            member = cls.__members__.get(cls._member_name_(name))
            if member is not None:
                return member
        raise AttributeError(f"{cls.__name__} has no member {name!r}; {cls.__name__}.declare({name!r}) makes one")

    def _member_name_(cls, name: str) -> str:
        """The name of the member that *name* stands for."""
        return name.upper()


def declare(cls: type[_E], name: str) -> _E:
    """The member of *cls* that *name* stands for, made if there is none."""
    assert isinstance(cls, ExtensibleEnum)
    existing: _E | None = cls.__members__.get(cls._member_name_(name))
    if existing is not None:
        return existing
    assert len(cls.__members__) < _MEMBERS_MAX, "members are names, not things"
    member = str.__new__(cls, name.lower())
    member._name_, member._value_ = name.upper(), name.lower()
    cls._member_map_[member._name_] = cls._value2member_map_[member._value_] = member
    cls._member_names_.append(member._name_)
    return member
