"""Registry: the installed workloads, which of them plays a variant, and why one cannot run here.

A plug-in that does not import disables itself alone: its reason is stored, and the others work as ever.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType

from ringrift.kernel.errors import InvalidId, RingriftError, SettingsError, UnknownName, printable, require_name
from ringrift.kernel.foreign import attempt_sync
from ringrift.kernel.ids import check_id
from ringrift.kernel.variant import parse
from ringrift.workload.api import HasRequirements, VariantSpec, Workload, missing_requirements
from ringrift.workload.executable import Executable

GROUP = "ringrift.workloads"
_REASON_CHARACTERS_MAX = 500

# Registered even where the package runs from its source and no entry point is installed.
_FAKE = EntryPoint(name="fake", value="ringrift.workload.fake:Fake", group=GROUP)


@dataclass(frozen=True, slots=True)
class Registry:
    """Workload name → factory, in order of precedence.  A workload is imported or started on first use, once."""

    makers: Mapping[str, Callable[[], Workload]]
    programs: Mapping[str, str] = field(default_factory=dict)  #: Of workloads that are programs of their own, by name.
    _made: dict[str, Workload | str] = field(default_factory=dict)  #: By name; a plug-in that fails is the reason why.

    @classmethod
    def load(cls, executables: Mapping[str, Sequence[str]]) -> "Registry":
        """Everything installed under the entry point group, and *executables*: name → argv.

        An executable hides an entry point of its name.  The fake comes last, so that it never hides a real workload.
        Raises InvalidId for a malformed name.
        """
        makers: dict[str, Callable[[], Workload]] = {
            check_id("workload", name): partial(Executable, name, tuple(command))
            for name, command in executables.items()
        }
        entries = (*entry_points(group=GROUP), _FAKE)
        for entry in sorted(entries, key=lambda entry: (entry.name == _FAKE.name, entry.name)):
            makers.setdefault(check_id("workload", entry.name), partial(_make, entry))
        programs = {name: command[0] for name, command in executables.items() if command}
        return cls(MappingProxyType(makers), programs)

    @property
    def disabled(self) -> Mapping[str, str]:
        """The plug-ins that do not import or break their contract, each with the reason.  Loads every workload."""
        for name in self.makers:
            self.find_missing(name)
        return {name: made for name, made in self._made.items() if isinstance(made, str)}

    def get(self, name: str) -> Workload:
        """The workload *name*, made on first use.  Raises UnknownName, or SettingsError if the plug-in is disabled."""
        require_name("workload", name, self.makers)
        if name not in self._made:
            workload, error = attempt_sync(_load, self.makers[name])
            text = str(error) if isinstance(error, RingriftError) else f"{type(error).__name__}: {error}"
            self._made[name] = printable(text, _REASON_CHARACTERS_MAX) if workload is None else workload
        if isinstance(made := self._made[name], str):
            raise SettingsError("work.workload", name, f"the plug-in does not load: {made}")
        return made

    def find_missing(self, name: str) -> str:
        """Why the workload *name* cannot run here; empty if it can.  A program is only looked for, not started."""
        if name not in self.makers:
            return "it is not installed"
        if name in self.programs:
            return "" if shutil.which(self.programs[name]) else f"program not found: {self.programs[name]}"
        try:
            workload = self.get(name)
        except SettingsError as error:
            return error.limit
        if missing := missing_requirements(workload):
            install = workload.install_command if isinstance(workload, HasRequirements) else ""
            return f"{', '.join(missing)} not installed" + (f"; install: {install}" if install else "")
        return ""

    def owner(self, variant: str, prefer: str | None = None) -> str:
        """The workload that plays *variant*: *prefer* if it can, else the first that can.

        Loads no more workloads than necessary, and leaves out those that are disabled.
        Raises InvalidId, or UnknownName if no workload plays *variant* or there is no workload *prefer*.
        """
        parse(variant)
        offered: set[str] = set()
        for name in (prefer, *self.makers) if prefer else self.makers:
            variants = {spec.name for spec in self.variants_of(name)}
            if variant in variants:
                return name
            offered |= variants
        raise UnknownName("variant", variant, offered)

    def variants_of(self, name: str) -> Sequence[VariantSpec]:
        """The variants that the workload *name* offers; none if it is disabled.  Raises UnknownName."""
        try:
            return self.get(name).variants()
        except SettingsError:
            return ()


def _load(make: Callable[[], Workload]) -> Workload:
    """Make a workload.  Raises InvalidId unless every variant that it offers has a name that fits it."""
    workload = make()
    for spec in workload.variants():
        try:
            players = parse(spec.name).players
        except InvalidId as error:
            raise InvalidId(f"variant of workload {workload.name!r}", spec.name, error.rule) from error
        if players != spec.players:
            rule = f"its name must end in _{spec.players}p"
            raise InvalidId(f"variant of workload {workload.name!r} for {spec.players} players", spec.name, rule)
    return workload


def _make(entry: EntryPoint) -> Workload:
    workload = entry.load()()
    if not isinstance(workload, Workload) or workload.name != entry.name:
        raise TypeError(f"{entry.value} must make a Workload of the name {entry.name}")
    return workload
