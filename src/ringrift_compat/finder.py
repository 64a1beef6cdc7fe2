"""Finder: makes the modules of the alias table out of nothing, and looks a name up where it is first used."""

import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from opcode import opmap
from types import FrameType, ModuleType
from typing import Any

from ringrift_compat.aliases import ALIASES, REPLACED

EVERY = "*"
"""Ends a row that stands for many names: those of its target that begin like it."""


class Finder(MetaPathFinder, Loader):
    """Answers for the modules of a table and the packages above them, and for nothing else."""

    def __init__(self, rows: Mapping[str, Mapping[str, str]], replaced: Mapping[str, str]) -> None:
        self._rows, self._replaced = rows, replaced
        self._packages = {above for path in rows for above in _above(path)}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module, if the table has it or something below it."""
        if fullname not in self._rows and fullname not in self._packages:
            return None
        return ModuleSpec(fullname, self, origin="ringrift_compat", is_package=fullname in self._packages)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """An empty module that knows what it offers."""
        return Alias(spec.name, self._rows.get(spec.name, {}))

    def exec_module(self, module: ModuleType) -> None:
        """Forget what was looked up, and say where an old path has gone."""
        assert isinstance(module, Alias)
        module.forget()
        if (instead := self._replaced.get(module.__name__)) is not None:
            warnings.warn(f"{module.__name__} is now {instead}", DeprecationWarning, stacklevel=2)


class Alias(ModuleType):
    """A module of the table: its names are looked up on first use, and then are its own."""

    def __init__(self, name: str, row: Mapping[str, str]) -> None:
        super().__init__(name, f"Names of the earlier system, served by RingRift: see {__name__}.")
        self._row = row
        self._found: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return sorted(self._offers())
        target = self._row.get(name) or self._family(name)
        if name.startswith("__") or target is None:
            text = _absent(self.__name__, name, self._row)
            if _imports_from(sys._getframe(1)):
                raise ImportError(text, name=self.__name__)
            raise AttributeError(text, name=name, obj=self)
        home, _, own = target.partition(":")
        found = getattr(import_module(home), own)
        setattr(self, name, found)
        self._found.add(name)
        return found

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._offers()})

    def forget(self) -> None:
        """Look every name up again."""
        while self._found:
            self.__dict__.pop(self._found.pop(), None)

    def _family(self, name: str) -> str | None:
        """Where a name comes from that only a row for many has."""
        for pattern, home in self._row.items():
            if pattern.endswith(EVERY) and name.startswith(pattern.removesuffix(EVERY)) and name in _members(home):
                return f"{home}:{name}"
        return None

    def _offers(self) -> set[str]:
        single = {name for name in self._row if not name.endswith(EVERY)}
        return single.union(*(_members(home) for name, home in self._row.items() if name.endswith(EVERY)))


def _members(home: str) -> Iterable[str]:
    members: Iterable[str] = import_module(home).__all__
    return members


def _absent(module: str, name: str, row: Iterable[str]) -> str:
    offered = ", ".join(sorted(row)) or "only what lies below it"
    return f"module {module!r} has no name {name!r}; it offers {offered}"


def _imports_from(frame: FrameType) -> bool:
    """Whether *frame* is at a ``from … import``, which would drop the text of an AttributeError."""
    return frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]


def _above(path: str) -> list[str]:
    """The packages that *path* lies in."""
    parts = path.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts))]


def install() -> None:
    """Serve the table from now on.  Whoever has a real module of such a name comes first."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.append(Finder(ALIASES, REPLACED))
