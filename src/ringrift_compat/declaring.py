"""Declaring: enumerations of documented names to which a user may add one of their own."""

from enum import EnumMeta, StrEnum
from typing import Any, TypeVar

E = TypeVar("E", bound=StrEnum)
DECLARED_MAX = 10_000
"""Members of one enumeration: names are declared, and not things."""


class Declaring(EnumMeta):
    """Finds a member under what its class calls it, and says how to make the one that somebody asks for in vain."""

    def __getattr__(cls, name: str) -> Any:
        if not name.startswith("_"):
            found = cls.__members__.get(cls._called_(name))
            if found is not None:
                return found
        raise AttributeError(f"{cls.__name__} has no member {name!r}; {cls.__name__}.declare({name!r}) makes one")

    def _called_(cls, name: str) -> str:
        """The name of the member that *name* stands for."""
        return name.upper()


def declared(cls: type[E], name: str) -> E:
    """The member of *cls* that *name* stands for, which is made if there is none."""
    assert isinstance(cls, Declaring)
    known: E | None = cls.__members__.get(cls._called_(name))
    if known is not None:
        return known
    assert len(cls.__members__) < DECLARED_MAX, "declare names, not things"
    member = str.__new__(cls, name.lower())
    member._name_, member._value_ = name.upper(), name.lower()
    cls._member_map_[member._name_] = cls._value2member_map_[member._value_] = member
    cls._member_names_.append(member._name_)
    return member
