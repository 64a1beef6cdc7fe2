"""Registry: the installed workloads, and which of them plays a variant."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType

from ringrift.kernel.errors import InvalidId, SettingsError, UnknownName, require_name
from ringrift.kernel.ids import check_id
from ringrift.kernel.variant import parse
from ringrift.workload.api import VariantSpec, Workload
from ringrift.workload.executable import Executable

GROUP = "ringrift.workloads"

# Registered even where the package runs from its source and no entry point is installed.
_FAKE = EntryPoint(name="fake", value="ringrift.workload.fake:Fake", group=GROUP)


@dataclass(frozen=True, slots=True)
class Registry:
    """Workload name → factory, in order of precedence.  A workload is imported or started on first use, once."""

    makers: Mapping[str, Callable[[], Workload]]
    prefer: str | None = None  #: The configured workload: it comes first where several offer a variant.

    @classmethod
    def load(cls, executables: Mapping[str, Sequence[str]], *, prefer: str | None = None) -> "Registry":
        """Everything installed under the entry point group, and *executables*: name → argv.

        An executable hides an entry point of its name.  The fake comes last, so that it never hides a real workload.
        Raises InvalidId for a malformed name.
        """
        makers: dict[str, Callable[[], Workload]] = {
            check_id("workload", name): cache(partial(Executable, name, tuple(command)))
            for name, command in executables.items()
        }
        entries = (*entry_points(group=GROUP), _FAKE)
        for entry in sorted(entries, key=lambda entry: (entry.name == _FAKE.name, entry.name)):
            makers.setdefault(check_id("workload", entry.name), cache(partial(_make, entry)))
        return cls(makers=MappingProxyType(makers), prefer=prefer)

    def get(self, name: str) -> Workload:
        """The workload *name*, made on first use.  Raises UnknownName, or whatever the plug-in raises while loading."""
        require_name("workload", name, self.makers)
        return self.makers[name]()

    def variants(self) -> Mapping[str, tuple[str, VariantSpec]]:
        """Every variant with its workload.  Loads every workload; raises InvalidId if one offers a bad variant."""
        owners: dict[str, tuple[str, VariantSpec]] = {}
        for name in self._in_order(None):
            for spec in self._variants_of(name):
                owners.setdefault(spec.name, (name, spec))
        return owners

    def owner(self, variant: str, prefer: str | None = None) -> str:
        """The workload that plays *variant*: *prefer* if it can, else the configured one, else the first that can.

        Loads no more workloads than necessary, so that a broken one does not block the others.
        Raises InvalidId, or UnknownName if no workload plays *variant* or there is no workload *prefer*.
        """
        parse(variant)
        offered: set[str] = set()
        for name in self._in_order(prefer):
            variants = {spec.name for spec in self._variants_of(name)}
            if variant in variants:
                return name
            offered |= variants
        raise UnknownName("variant", variant, offered)

    def _in_order(self, prefer: str | None) -> Iterator[str]:
        yield from dict.fromkeys(name for name in (prefer, self.prefer, *self.makers) if name is not None)

    def _variants_of(self, name: str) -> Sequence[VariantSpec]:
        """The variants that the workload *name* offers, each checked."""
        specs = self.get(name).variants()
        for spec in specs:
            try:
                players = parse(spec.name).players
            except InvalidId as error:
                raise InvalidId(f"variant of workload {name!r}", spec.name, error.rule) from error
            if players != spec.players:
                rule = f"its name must end in _{spec.players}p"
                raise InvalidId(f"variant of workload {name!r} for {spec.players} players", spec.name, rule)
        return specs


def _make(entry: EntryPoint) -> Workload:
    workload = entry.load()()
    if not isinstance(workload, Workload) or workload.name != entry.name:
        raise SettingsError(f"workloads.{entry.name}", entry.value, "it must make a Workload of that name")
    return workload
