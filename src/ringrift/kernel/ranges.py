"""Range: the limits of a setting, written beside its field, and the one check that every branch of settings runs."""

from functools import cache
from typing import Any, ClassVar, NamedTuple, get_args, get_type_hints

from ringrift.kernel.errors import require_range
from ringrift.kernel.value import Value


class Range(NamedTuple):
    """``slots: Annotated[int, Range(1, 1024)]``: both ends belong to it."""

    low: float
    high: float


class Branch(Value, forbid_unknown_fields=True):
    """Base of the branches of settings: a field outside its range raises SettingsError naming key, value and range."""

    branch: ClassVar[str] = ""  # its place in the tree; a branch that stands at several places has none

    @classmethod
    @cache
    def ranges(cls) -> dict[str, Range]:
        """The declared range of each field that has one."""
        ranges = {name: _range_of(hint) for name, hint in get_type_hints(cls, include_extras=True).items()}
        return {name: limits for name, limits in ranges.items() if limits is not None}

    def __post_init__(self) -> None:
        for name, limits in self.ranges().items():
            value = getattr(self, name)
            if value is not None:
                require_range(f"{self.branch}.{name}".lstrip("."), value, limits.low, limits.high)


def _range_of(hint: Any) -> Range | None:
    """The range in *hint*, which may be optional: ``Annotated[int, Range(1, 9)] | None``."""
    own = next((note for note in getattr(hint, "__metadata__", ()) if isinstance(note, Range)), None)
    return own or next(filter(None, map(_range_of, get_args(hint))), None)
