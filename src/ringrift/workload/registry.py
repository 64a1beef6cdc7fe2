"""Registry: which workloads there are, and which of them plays a variant."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType

from ringrift.kernel.errors import InvalidId, SettingsError, UnknownName
from ringrift.kernel.ids import check_id
from ringrift.kernel.variant import parse
from ringrift.workload.api import VariantSpec, Workload
from ringrift.workload.executable import Executable

GROUP = "ringrift.workloads"

# Bundled, so they are there even where the package runs from its source and no entry point is installed.
_REVERSI = EntryPoint(name="reversi", value="ringrift_reversi.workload:Reversi", group=GROUP)
_FAKE = EntryPoint(name="fake", value="ringrift.workload.fake:Fake", group=GROUP)


@dataclass(frozen=True, slots=True)
class Registry:
    """Workload name → what makes it, in the order in which they are asked who plays a variant.

    Nothing is imported or run before a name is asked for, and then once.
    """

    makers: Mapping[str, Callable[[], Workload]]
    prefer: str | None = None
    """The configured workload: where several offer a variant, it is the one that plays it."""

    @classmethod
    def load(cls, executables: Mapping[str, Sequence[str]], *, prefer: str | None = None) -> "Registry":
        """Everything installed under the entry point group, and *executables*: name → argv.

        An executable hides an entry point of its name.  The fake comes last, so that it stands in for nothing real.
        Raises InvalidId for a name that cannot be one.
        """
        makers: dict[str, Callable[[], Workload]] = {
            check_id("workload", name): cache(partial(Executable, name, tuple(command)))
            for name, command in executables.items()
        }
        known = (*entry_points(group=GROUP), _REVERSI, _FAKE)
        for entry in sorted(known, key=lambda entry: (entry.name == _FAKE.name, entry.name)):
            makers.setdefault(check_id("workload", entry.name), cache(partial(_make, entry)))
        return cls(makers=MappingProxyType(makers), prefer=prefer)

    def names(self) -> tuple[str, ...]:
        """Every workload, the first to be asked first."""
        return tuple(self.makers)

    def get(self, name: str) -> Workload:
        """The workload *name*, made on first use.  Raises UnknownName, or whatever the plug-in raises while loading."""
        if name not in self.makers:
            raise UnknownName("workload", name, self.makers)
        return self.makers[name]()

    def variants(self) -> Mapping[str, tuple[str, VariantSpec]]:
        """Every variant and who plays it.  Loads every workload; raises InvalidId if one offers a bad variant."""
        found: dict[str, tuple[str, VariantSpec]] = {}
        for name in self._asked(None):
            for spec in self._offers(name):
                found.setdefault(spec.name, (name, spec))
        return found

    def owner(self, variant: str, prefer: str | None = None) -> str:
        """Who plays *variant*: *prefer* if it can, else the configured workload, else the first that can.

        Loads no more workloads than it must, so one that is broken does not stand in the way of the one that is meant.
        Raises InvalidId, or UnknownName if nobody plays *variant* or there is no workload *prefer*.
        """
        parse(variant)
        known: set[str] = set()
        for name in self._asked(prefer):
            offered = {spec.name for spec in self._offers(name)}
            if variant in offered:
                return name
            known |= offered
        raise UnknownName("variant", variant, known)

    def _asked(self, prefer: str | None) -> Iterator[str]:
        yield from dict.fromkeys(name for name in (prefer, self.prefer, *self.makers) if name is not None)

    def _offers(self, name: str) -> Sequence[VariantSpec]:
        offered = self.get(name).variants()
        for spec in offered:
            _check(name, spec)
        return offered


def _make(entry: EntryPoint) -> Workload:
    made = entry.load()()
    if not isinstance(made, Workload) or made.name != entry.name:
        raise SettingsError(f"workloads.{entry.name}", entry.value, "it must make a Workload of that name")
    return made


def _check(workload: str, spec: VariantSpec) -> None:
    try:
        players = parse(spec.name).players
    except InvalidId as bad:
        raise InvalidId(f"variant of workload {workload!r}", spec.name) from bad
    if players != spec.players:
        raise InvalidId(f"variant of workload {workload!r} for {spec.players} players", spec.name)
