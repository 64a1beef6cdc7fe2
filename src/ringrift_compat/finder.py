"""Finder: makes the modules of the alias table, and looks up each name when it is first used."""

import sys
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from opcode import opmap
from types import FrameType, ModuleType
from typing import Any

from ringrift_compat.aliases import ALIASES, DONE_BY, NOT_YET, REPLACED

_ROOT = "app"


class _Finder(MetaPathFinder, Loader):
    """Serves the documented modules and the packages above them."""

    def __init__(
        self, rows: Mapping[str, Mapping[str, str]], not_yet: Collection[str] = (),
        done_by: Mapping[str, str] | None = None, replaced: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self._rows, self._not_yet = rows, not_yet
        self._done_by, self._replaced = done_by or {}, replaced or {}
        self._packages = {package for path in (*rows, *not_yet) for package in _packages_above(path)}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module, if it is documented.  Raises ModuleNotFoundError for any other module below ``app``."""
        if fullname in self._not_yet and fullname not in self._packages:
            raise ModuleNotFoundError(f"not yet: {fullname} is documented and not built", name=fullname)
        if fullname not in self._rows and fullname not in self._packages:
            if fullname.startswith(f"{_ROOT}."):
                raise ModuleNotFoundError(f"no documented module is called {fullname}", name=fullname)
            return None
        return ModuleSpec(fullname, self, origin="ringrift_compat", is_package=fullname in self._packages)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """An empty module with the names of its row."""
        done_by = self._done_by.get(spec.name)
        text = f"Names of the earlier system: see {__name__}." if done_by is None else f"No names; {done_by}."
        return _Alias(spec.name, text, self._rows.get(spec.name, {}))

    def exec_module(self, module: ModuleType) -> None:
        """Warn where a path has been replaced."""
        if (replacement := self._replaced.get(module.__name__)) is not None:
            warnings.warn(f"{module.__name__} is now {replacement}", DeprecationWarning, stacklevel=2)


class _Alias(ModuleType):
    """A documented module: a name is looked up on first use and then is an attribute."""

    def __init__(self, name: str, text: str, row: Mapping[str, str]) -> None:
        super().__init__(name, text)
        self._row = row

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return sorted(self._offers())
        target = self._row.get(name) or self._family(name)
        if name.startswith("__") or target is None:
            text = _missing_text(self, name, self._row)
            if _is_import_from(sys._getframe(1)):
                raise ImportError(text, name=self.__name__)
            raise AttributeError(text, name=name, obj=self)
        home, _, own = target.partition(":")
        value = getattr(import_module(home), own)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._offers()})

    def _family(self, name: str) -> str | None:
        """Where a name of a family is."""
        for pattern, home in self._row.items():
            if _is_family(pattern) and fnmatchcase(name, pattern) and name in _members(home):
                return f"{home}:{name}"
        return None

    def _offers(self) -> set[str]:
        single = {name for name in self._row if not _is_family(name)}
        return single.union(*(_members(home) for name, home in self._row.items() if _is_family(name)))


def _is_family(name: str) -> bool:
    """Whether a name of the table is a pattern that stands for many."""
    return "*" in name


def _members(home: str) -> Iterable[str]:
    members: Iterable[str] = import_module(home).__all__
    return members


def _missing_text(module: ModuleType, name: str, row: Iterable[str]) -> str:
    if f"{module.__name__}.{name}" in NOT_YET:
        return f"not yet: {module.__name__}.{name} is documented and not built"
    offered = ", ".join(sorted(row))
    return f"module {module.__name__!r} has no name {name!r}; it " + (f"offers {offered}" if offered else "has none")


def _is_import_from(frame: FrameType) -> bool:
    """Whether *frame* is at a ``from … import``, which would drop the text of an AttributeError."""
    return frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]


def _packages_above(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts))]


def install() -> None:
    """Serve the table from now on, after every real module of such a name."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder(ALIASES, NOT_YET, DONE_BY, REPLACED))
